"""`not`, implications and exclusive choices, rewritten as derived schemas that only the plain keywords need to serve.

The negation of a schema is the union of the negations of its keywords; each is again a schema: `minimum: 5` becomes a
number below 5, since all other types satisfy it. Where "every item" or "every property" is negated, "some" is left,
which derived schemas can say.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

from .document import Derived, Document, Link, pointer_of
from .json_text import JsonValue, identity
from .keywords import (
    ANNOTATIONS,
    ASSERTIONS,
    BRANCHES,
    NOT_FORMAT,
    NOT_INTEGER,
    NOT_MULTIPLE,
    NOT_PATTERN,
    NOT_UNIQUE,
    REFUSED,
    SOME_ITEM,
    SOME_PROPERTY,
    TYPES,
    check_form,
    is_idle,
    refuse,
)
from .strings import exactly
from .unevaluated import Unevaluated

_PLAIN_TYPES = tuple(name for name in TYPES if name != "integer")


def negation(document: Document, place: str) -> Derived:
    """What `not` of the schema at `place` says. Raises UnsupportedKeyword with the keyword that stands in the way."""
    schema = document.schema(place)
    if isinstance(schema, bool):
        return not schema
    options: list[Derived] = []
    for keyword, value in schema.items():
        check_form(keyword, value, place)
    for keyword in _plainly(schema):
        if keyword in ANNOTATIONS or keyword not in ASSERTIONS | BRANCHES | REFUSED:
            continue
        options.extend(_Negation(document, place, schema).of(keyword))
    return {"anyOf": options} if options else False


def _plainly(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Without the refused keywords that are idle."""
    return {keyword: value for keyword, value in schema.items()
            if keyword not in REFUSED or not is_idle(keyword, schema)}


def implication(document: Document, place: str, schema: dict[str, JsonValue]) -> Derived:
    """if / then / else as a union of two conjunctions."""
    condition = Link(document.child(place, "if"))
    yes: list[Derived] = [condition]
    no: list[Derived] = [{"not": condition}]
    if "then" in schema:
        yes.append(Link(document.child(place, "then")))
    if "else" in schema:
        no.append(Link(document.child(place, "else")))
    return {"anyOf": [{"allOf": yes}, {"allOf": no}]}


def dependency(document: Document, place: str, keyword: str, name: str) -> Derived:
    """dependentRequired or dependentSchemas for one property: it is absent, or the rest holds."""
    absent: Derived = {"properties": {name: False}}
    present: list[Derived] = [{"type": "object", "required": [name]}]
    if keyword == "dependentSchemas":
        present.append(Link(document.child(place, keyword, name)))
    else:
        schema = document.schema(place)
        needs: Any = schema[keyword][name] if isinstance(schema, dict) else []  # type: ignore[index,call-overload]
        present.append({"required": list(needs)})
    return {"anyOf": [absent, {"allOf": present}]}


def exclusive(options: list[str], overlaps: dict[int, list[int]]) -> Derived:
    """oneOf: each option together with the negation of those that may overlap it."""
    branches: list[Derived] = []
    for index, place in enumerate(options):
        others: list[Derived] = [{"not": Link(options[other])} for other in overlaps.get(index, [])]
        branches.append({"allOf": [Link(place), *others]} if others else Link(place))
    return {"anyOf": branches}


def opposite(schema: object) -> Derived | None:
    """The objects that do not fit an option of a negation about one property; None for other schemas."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not {"type", "required", "properties"} >= (
            schema.keys()) or len(schema.get("properties", ())) != 1:
        return None
    ((name, below),) = schema["properties"].items()
    if schema.get("required", []) not in ([], [name]) or (below is False and schema.get("required")):
        return None
    inside = below.get("not") if isinstance(below, dict) and len(below) == 1 else None
    if below is False:
        return {"type": "object", "required": [name]}
    if not isinstance(inside, Link):
        return None
    return {"type": "object", "properties": {name: inside}, **({} if schema.get("required") else {"required": [name]})}


class _Negation:
    """The negations of one schema's keywords, as options of a union."""

    def __init__(self, document: Document, place: str, schema: dict[str, JsonValue]) -> None:
        self._document = document
        self._place = place
        self._schema = schema

    def of(self, keyword: str) -> list[Derived]:
        value: Any = self._schema[keyword]
        if keyword == "type":
            return self._type(value)
        if keyword in ("enum", "const"):
            return self._values(value if keyword == "enum" else [value])
        if keyword == NOT_INTEGER:
            return [{"type": "integer"}]
        bound = self._bound(keyword, value)
        if bound is not None:
            return bound
        if keyword in ("unevaluatedProperties", "unevaluatedItems"):
            return Unevaluated(self._document, self._place, keyword).negation()
        if keyword in ("prefixItems", "items", "contains", "minContains", "maxContains"):
            return self._list(keyword, value)
        if keyword in ("properties", "required", "patternProperties", "additionalProperties", "propertyNames"):
            return self._object(keyword, value)
        return self._branches(keyword, value)

    def _refuse(self, keyword: str) -> Exception:
        return refuse(keyword, f"{pointer_of(self._place)}/{keyword}", "cannot be negated (not, oneOf, if)")

    def _type(self, value: Any) -> list[Derived]:
        names = set(value if isinstance(value, list) else [value])
        broken = "integer" in names and "number" not in names
        left: list[Derived] = [name for name in _PLAIN_TYPES if name not in names and not (broken and name == "number")]
        options: list[Derived] = [{"type": left}] if left else []
        return [*options, {"type": "number", NOT_INTEGER: True}] if broken else options

    def _bound(self, keyword: str, value: Any) -> list[Derived] | None:
        numbers = {"minimum": "exclusiveMaximum", "exclusiveMinimum": "maximum",
                   "maximum": "exclusiveMinimum", "exclusiveMaximum": "minimum"}
        if keyword in numbers:
            return [{"type": "number", numbers[keyword]: value}]
        for noun, kind in (("Length", "string"), ("Items", "array"), ("Properties", "object")):
            if keyword == "min" + noun:
                return [{"type": kind, "max" + noun: int(value) - 1}] if value else []
            if keyword == "max" + noun:
                return [{"type": kind, "min" + noun: int(value) + 1}]
        if keyword in ("pattern", NOT_PATTERN):
            opposite = NOT_PATTERN if keyword == "pattern" else "pattern"
            return [{"type": "string", opposite: value}]
        if keyword == "format":
            return [{"type": "string", NOT_FORMAT: value}]
        if keyword == "multipleOf":
            return [{"type": "number", NOT_MULTIPLE: value}]
        if keyword in ("uniqueItems", NOT_UNIQUE):
            if keyword == NOT_UNIQUE:
                return [{"type": "array", "uniqueItems": True}]
            return [{"type": "array", NOT_UNIQUE: f"{pointer_of(self._place)}/uniqueItems"}] if value else []
        return None

    def _values(self, members: list[JsonValue]) -> list[Derived]:
        texts = [member for member in members if isinstance(member, str)]
        words: list[Any] = [w for w in (None, True, False) if identity(w) not in {identity(m) for m in members}]
        options: list[Any] = [{"enum": words}]
        for kind, python in (("array", list), ("object", dict)):
            differs = [_differs(member) for member in members if isinstance(member, python)]
            options.append({"type": kind, "allOf": differs} if differs else {"type": kind})
        excluded = {NOT_PATTERN: exactly(texts)} if texts else {}
        options.append({"type": "string", **excluded})
        points = sorted({Decimal(m) for m in members if isinstance(m, int | Decimal) and not isinstance(m, bool)})
        edges = [None, *points, None]
        for low, high in pairwise(edges):
            gap: dict[str, Any] = {"type": "number"}
            gap |= {} if low is None else {"exclusiveMinimum": low}
            gap |= {} if high is None else {"exclusiveMaximum": high}
            options.append(gap)
        return options

    def _list(self, keyword: str, value: Any) -> list[Derived]:
        if keyword == "prefixItems":
            return [{"type": "array", "minItems": i + 1, "prefixItems": [
                *([True] * i), {"not": self._link("prefixItems", str(i))}]} for i in range(len(value))]
        if keyword == "items":
            if value is True or value == {}:
                return []
            start = self._prefix()
            if value is False:
                return [{"type": "array", "minItems": start + 1}]
            return [{"type": "array", SOME_ITEM: {"from": start, "schema": {"not": self._link("items")}}}]
        if "contains" not in self._schema or keyword == "minContains":
            return []  # minContains belongs to contains
        inside = self._link("contains")
        least = self._schema.get("minContains", 1)
        if keyword == "maxContains":
            return [{"type": "array", "contains": inside, "minContains": value + 1}]
        if not least:
            return []
        return [{"type": "array", "contains": inside, "minContains": 0, "maxContains": least - 1}]  # type: ignore[operator]

    def _object(self, keyword: str, value: Any) -> list[Derived]:
        if keyword == "required":
            asked: Any = self._schema.get("properties", {})
            return [{"type": "object", "properties": {name: False}} for name in value
                    if asked.get(name, True) in (True, {})]
        if keyword == "properties":
            return [self._property(name) for name, below in value.items() if below not in (True, {})]
        if keyword == "patternProperties":
            return [{"type": "object", SOME_PROPERTY: {"only": text, "schema": {"not": self._link(keyword, text)}}}
                    for text, below in value.items() if below not in (True, {})]
        if value is True or value == {}:
            return []
        if keyword == "propertyNames":
            return [{"type": "object", SOME_PROPERTY: {"names": {"not": self._link(keyword)}}}]
        return [self._other_property({"not": self._link(keyword)})]

    def _property(self, name: str) -> Derived:
        """It does not fit; where it is required it may also be absent, which is one option with that, not another."""
        broken: dict[str, Derived] = {"type": "object", "properties": {name: {"not": self._link("properties", name)}}}
        return broken if name in self._schema.get("required", ()) else {**broken, "required": [name]}  # type: ignore

    def _prefix(self) -> int:
        return len(self._schema.get("prefixItems", ()))  # type: ignore[arg-type]

    def _other_property(self, schema: Derived) -> Derived:
        """Some property that neither properties nor patternProperties names fits the schema."""
        return {"type": "object", SOME_PROPERTY: {
            "except": list(self._schema.get("properties", ())),  # type: ignore[arg-type]
            "patterns": list(self._schema.get("patternProperties", ())),  # type: ignore[arg-type]
            "schema": schema}}

    def _branches(self, keyword: str, value: Any) -> list[Derived]:
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return [{"not": Link(self._document.target(keyword, value, self._place))}]
        if keyword == "not":
            return [self._link("not")]
        if keyword in ("allOf", "anyOf", "oneOf"):
            links = [self._link(keyword, str(i)) for i in range(len(value))]
            nots: list[Derived] = [{"not": link} for link in links]
            if keyword == "allOf":
                return nots
            several: list[Derived] = [] if keyword == "anyOf" else [
                {"allOf": list(pair)} for pair in combinations(links, 2)]
            return [{"allOf": nots}, *several]
        if keyword == "dependentRequired":
            return [{"type": "object", "required": [name], "properties": {need: False}}
                    for name, needs in value.items() for need in needs if need != name]
        if keyword == "dependentSchemas":
            return [{"type": "object", "required": [name], "not": self._link(keyword, name)} for name in value]
        if keyword == "if":
            return self._implication()
        if keyword in ("then", "else"):
            return []  # they belong to if
        raise self._refuse(keyword)

    def _implication(self) -> list[Derived]:
        condition = self._link("if")
        options: list[Derived] = []
        if "then" in self._schema:
            options.append({"allOf": [condition, {"not": self._link("then")}]})
        if "else" in self._schema:
            options.append({"allOf": [{"not": condition}, {"not": self._link("else")}]})
        return options

    def _link(self, *tokens: str) -> Link:
        return Link(self._document.child(self._place, *tokens))


def _differs(value: Any) -> Derived:
    """A list or an object that is not equal to this one."""
    if isinstance(value, list):
        options: list[Derived] = [{"minItems": len(value) + 1}, *([{"maxItems": len(value) - 1}] if value else [])]
        return {"anyOf": options + [
            {"minItems": i + 1, "prefixItems": [*([True] * i), {"not": {"const": item}}]}
            for i, item in enumerate(value)]}
    return {"anyOf": [{"minProperties": len(value) + 1}, *({"properties": {name: False}} for name in value),
                      *({"required": [name], "properties": {name: {"not": {"const": item}}}}
                        for name, item in value.items())]}
