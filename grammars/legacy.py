"""Schemas of older drafts, rewritten to mean the same in 2020-12.

A schema that declares an older draft means what that draft says: keywords that came later constrain nothing, and
before 2019-09 neither does anything beside `$ref`. A schema that declares none is read as 2020-12, with the older
spellings that cannot be mistaken: `dependencies`, lists of `items`, booleans for exclusive bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .json_text import JsonValue
from .keywords import ASSERTIONS, BRANCHES, REFUSED

_DRAFT_4 = ("draft-03", "draft-04")
_BEFORE_2019 = (*_DRAFT_4, "draft-05", "draft-06", "draft-07")
_BEFORE_2020 = (*_BEFORE_2019, "2019-09")
_SINCE_6 = frozenset({"const", "contains", "propertyNames"})
_SINCE_7 = frozenset({"if", "then", "else"})
_SINCE_2019 = frozenset({
    "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "minContains", "maxContains",
    "$anchor", "$recursiveRef",
})
_CONTAINS = ("contains", "minContains", "maxContains")
_SINCE_2020 = frozenset({"prefixItems", "$dynamicRef"})
_CONSTRAINTS = ASSERTIONS | BRANCHES | REFUSED | {"additionalItems"}
_SCHEMAS = ("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames",
            "then", "allOf", "anyOf", "oneOf", "prefixItems", "unevaluatedItems", "unevaluatedProperties")
_MAPS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A keyword that constrains nothing in the draft that the schema declares."""

    keyword: str
    pointer: str
    why: str

    @property
    def note(self) -> str:
        return f"{self.keyword} at {self.pointer} {self.why} and constrains nothing"


def modernised(schema: JsonValue) -> tuple[JsonValue, list[Ignored]]:
    """The schema, changed in place, and what constrains nothing in its draft. Only where a schema stands: a property
    may be called `dependencies`. What unknown keywords hold stays as it is."""
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    draft = declared if isinstance(declared, str) else ""
    ignored: list[Ignored] = []
    if draft and not _is(draft, _BEFORE_2020):
        return schema, ignored
    moved: set[int] = set()  # what stands behind two negations already
    silent = _is(draft, ("2019-09",)) and _mentions(schema, "unevaluatedItems")
    stack: list[tuple[str, JsonValue]] = [("#", schema)]
    while stack:
        pointer, value = stack.pop()
        if isinstance(value, dict):
            if silent and id(value) not in moved:
                moved.add(id(_silence(value)))
            if draft:
                ignored += _older(value, draft, pointer)
            stack.extend(_below(value, pointer))
            if not draft or _is(draft, _DRAFT_4):
                _exclusive(value)
            _items(value)
            if not draft or _is(draft, _BEFORE_2019):
                _dependencies(value)
    return schema, ignored


def _is(draft: str, names: tuple[str, ...]) -> bool:
    return any(name in draft for name in names)


def _mentions(schema: JsonValue, keyword: str) -> bool:
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict) and keyword in value:
            return True
        if isinstance(value, dict | list):
            stack.extend(value.values() if isinstance(value, dict) else value)
    return False


def _silence(schema: dict[str, JsonValue]) -> JsonValue:
    """In 2019-09 `contains` does not say that items were evaluated; behind two negations it does not in 2020-12.
    Gives the schema that now holds it, None where there was none."""
    moved: dict[str, JsonValue] = {keyword: schema.pop(keyword) for keyword in _CONTAINS if keyword in schema}
    above = schema.get("allOf", [])
    if moved and isinstance(above, list):
        schema["allOf"] = [*above, {"not": {"not": moved}}]
    return moved or None


def _below(schema: dict[str, JsonValue], pointer: str) -> Iterator[tuple[str, JsonValue]]:
    """The subschemas of a schema."""
    for keyword in _SCHEMAS:
        value = schema.get(keyword)
        if isinstance(value, list):
            yield from ((f"{pointer}/{keyword}/{i}", item) for i, item in enumerate(value))
        else:
            yield f"{pointer}/{keyword}", value
    for keyword in _MAPS:
        value = schema.get(keyword)
        if isinstance(value, dict):
            yield from ((f"{pointer}/{keyword}/{name.replace('~', '~0').replace('/', '~1')}", item)
                        for name, item in value.items())


def _older(schema: dict[str, JsonValue], draft: str, pointer: str) -> Iterator[Ignored]:
    """Take out what constrains nothing in this draft."""
    if _is(draft, _DRAFT_4):
        schema.pop("$id", None)  # its name there is `id`
        if isinstance(schema.get("id"), str):
            schema["$id"] = schema.pop("id")
    identifier = schema.get("$id")
    if _is(draft, _BEFORE_2019) and isinstance(identifier, str) and identifier.startswith("#"):
        schema["$anchor"] = identifier[1:]
        del schema["$id"]
    newer = set(_SINCE_2020)
    newer |= (_SINCE_2019 - {"$anchor"}) if _is(draft, _BEFORE_2019) else set()
    newer |= _SINCE_7 if _is(draft, (*_DRAFT_4, "draft-06")) else set()
    newer |= _SINCE_6 if _is(draft, _DRAFT_4) else set()
    for keyword in [keyword for keyword in schema if keyword in newer]:
        del schema[keyword]
        yield Ignored(keyword, f"{pointer}/{keyword}", "is no keyword of the draft that $schema declares")
    if not _is(draft, _BEFORE_2019) or not isinstance(schema.get("$ref"), str):
        return
    schema.pop("$id", None)  # beside `$ref` no base either
    for keyword in [keyword for keyword in schema if keyword in _CONSTRAINTS and keyword != "$ref"]:
        del schema[keyword]
        yield Ignored(keyword, f"{pointer}/{keyword}", "stands beside $ref in the draft that $schema declares")


def _exclusive(schema: dict[str, JsonValue]) -> None:
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool) and schema.pop(flag) and bound in schema:
            schema[flag] = schema.pop(bound)


def _items(schema: dict[str, JsonValue]) -> None:
    items = schema.get("items")
    if not isinstance(items, list):
        if "items" in schema:  # without an item list, additionalItems says nothing
            schema.pop("additionalItems", None)
        return
    del schema["items"]
    if items:
        schema["prefixItems"] = items
    if "additionalItems" in schema:
        schema["items"] = schema.pop("additionalItems")


def _dependencies(schema: dict[str, JsonValue]) -> None:
    found = schema.get("dependencies")
    if not isinstance(found, dict):
        return
    del schema["dependencies"]
    names: dict[str, JsonValue] = {name: value for name, value in found.items() if isinstance(value, list)}
    schemas: dict[str, JsonValue] = {name: value for name, value in found.items() if not isinstance(value, list)}
    for keyword, mine in (("dependentRequired", names), ("dependentSchemas", schemas)):
        if not mine:
            continue
        if keyword in schema:  # both spellings at once: the older one moves into a conjunction
            above = schema.setdefault("allOf", [])
            if isinstance(above, list):
                above.append({keyword: mine})
        else:
            schema[keyword] = mine
