"""Schemas of older drafts, rewritten to mean the same in 2020-12.

A schema that declares an older draft means what that draft says: keywords that came later constrain nothing, and
before 2019-09 neither does anything beside `$ref`. A schema that declares none is read as 2020-12, with the older
spellings that cannot be mistaken: `dependencies`, lists of `items`, booleans for exclusive bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
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
_REWRITTEN = frozenset({"additionalItems", "dependencies", "exclusiveMaximum", "exclusiveMinimum", "items"})
_REWRITTEN_OLDER = _REWRITTEN | _SINCE_6 | _SINCE_7 | _SINCE_2019 | _SINCE_2020 | {"id", "$id", "$ref"}
_SCHEMAS = ("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames",
            "then", "allOf", "anyOf", "oneOf", "prefixItems", "unevaluatedItems", "unevaluatedProperties")
_MAPS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
_HOLDERS = frozenset((*_SCHEMAS, *_MAPS))
# A place of a schema: the place above, and the tokens of a pointer that lead on from there; for messages only.
_Way = tuple["_Way | None", str]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A keyword that constrains nothing in the draft that the schema declares."""

    keyword: str
    pointer: str
    why: str

    @property
    def note(self) -> str:
        return f"{self.keyword} at {self.pointer} {self.why} and constrains nothing"


def modernised(schema: JsonValue, names: Set[str]) -> tuple[JsonValue, list[Ignored]]:
    """The schema, changed in place, and what constrains nothing in its draft. Only where a schema stands: a property
    may be called `dependencies`. What unknown keywords hold stays as it is. names: the keys of all objects."""
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    draft = declared if isinstance(declared, str) else ""
    ignored: list[Ignored] = []
    rewritten = _REWRITTEN_OLDER if draft else _REWRITTEN
    silent = _is(draft, ("2019-09",)) and "unevaluatedItems" in names
    if (draft and not _is(draft, _BEFORE_2020)) or not (silent or names & rewritten):
        return schema, ignored
    fourth, early = _is(draft, _DRAFT_4), _is(draft, _BEFORE_2019)
    exclusive, dependencies = not draft or fourth, not draft or early
    newer = _newer(draft)
    moved: set[int] = set()  # what stands behind two negations already
    stack: list[tuple[_Way | None, JsonValue]] = [(None, schema)]
    while stack:
        way, value = stack.pop()
        if not isinstance(value, dict):
            continue
        if silent and id(value) not in moved:
            moved.add(id(_silence(value)))
        asked = not rewritten.isdisjoint(value)
        if draft and asked:
            ignored += _older(value, newer, way, fourth=fourth, early=early)
        if not _HOLDERS.isdisjoint(value):
            stack.extend(_below(value, way))
        if asked:
            if exclusive:
                _exclusive(value)
            _items(value)
            if dependencies:
                _dependencies(value)
    return schema, ignored


def _pointer(way: _Way | None) -> str:
    tokens: list[str] = []
    while way is not None:
        way, token = way
        tokens.append(token)
    return "/".join(["#", *reversed(tokens)])


def _newer(draft: str) -> frozenset[str]:
    """Keywords that came after this draft."""
    newer = _SINCE_2020
    newer |= (_SINCE_2019 - {"$anchor"}) if _is(draft, _BEFORE_2019) else set()
    newer |= _SINCE_7 if _is(draft, (*_DRAFT_4, "draft-06")) else set()
    newer |= _SINCE_6 if _is(draft, _DRAFT_4) else set()
    return newer


def _is(draft: str, names: tuple[str, ...]) -> bool:
    return any(name in draft for name in names)


def _silence(schema: dict[str, JsonValue]) -> JsonValue:
    """In 2019-09 `contains` does not say that items were evaluated; behind two negations it does not in 2020-12.
    Gives the schema that now holds it, None where there was none."""
    moved: dict[str, JsonValue] = {keyword: schema.pop(keyword) for keyword in _CONTAINS if keyword in schema}
    above = schema.get("allOf", [])
    if moved and isinstance(above, list):
        schema["allOf"] = [*above, {"not": {"not": moved}}]
    return moved or None


def _below(schema: dict[str, JsonValue], way: _Way | None) -> Iterator[tuple[_Way, JsonValue]]:
    """The subschemas of a schema."""
    for keyword in _SCHEMAS:
        value = schema.get(keyword)
        if value is None:
            continue
        if isinstance(value, list):
            yield from (((way, f"{keyword}/{i}"), item) for i, item in enumerate(value))
        elif isinstance(value, dict):
            yield (way, keyword), value
    for keyword in _MAPS:
        value = schema.get(keyword)
        if isinstance(value, dict):
            above: _Way = (way, keyword)
            yield from (((above, name.replace("~", "~0").replace("/", "~1")), item) for name, item in value.items())


def _older(schema: dict[str, JsonValue], newer: Set[str], way: _Way | None, *, fourth: bool,
           early: bool) -> Iterator[Ignored]:
    """Take out what constrains nothing in the draft: draft 4 or before, any before 2019-09."""
    if fourth:
        schema.pop("$id", None)  # its name there is `id`
        if isinstance(schema.get("id"), str):
            schema["$id"] = schema.pop("id")
    identifier = schema.get("$id")
    if early and isinstance(identifier, str) and identifier.startswith("#"):
        schema["$anchor"] = identifier[1:]
        del schema["$id"]
    for keyword in [keyword for keyword in schema if keyword in newer]:
        del schema[keyword]
        yield Ignored(keyword, f"{_pointer(way)}/{keyword}", "is no keyword of the draft that $schema declares")
    if not early or not isinstance(schema.get("$ref"), str):
        return
    schema.pop("$id", None)  # beside `$ref` no base either
    for keyword in [keyword for keyword in schema if keyword in _CONSTRAINTS and keyword != "$ref"]:
        del schema[keyword]
        yield Ignored(keyword, f"{_pointer(way)}/{keyword}", "stands beside $ref in the draft that $schema declares")


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
