"""What several schemas without branches say together: one shape, keyword by keyword intersected."""

from __future__ import annotations

from collections.abc import Hashable, Set
from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import replace

from ..errors import ConstraintTooLarge
from .document import Document, pointer_of
from .json_text import JsonValue, identity
from .keywords import NOT_FORMAT, NOT_INTEGER, NOT_MULTIPLE, NOT_PATTERN, NOT_UNIQUE, SOME_ITEM, SOME_PROPERTY
from .numbers import NumberSpec

_MOST_LEAST = 1 << 24  # lengths and counts that may be asked for; far more than any context holds
_ENDLESS = 1 << 31  # an upper bound from here on bounds nothing
KINDS = ("null", "boolean", "number", "string", "array", "object")
Places = tuple[str, ...]
_ANY_NUMBER = NumberSpec()
# Keywords by what they are about: a pass over those that a schema does not have is left out.
_OF_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", NOT_MULTIPLE,
                         NOT_INTEGER})
_OF_TEXT = frozenset({"minLength", "maxLength", "pattern", "format", NOT_PATTERN, NOT_FORMAT})
_OF_LISTS = frozenset({"minItems", "maxItems", "uniqueItems", NOT_UNIQUE, SOME_ITEM, "contains", "prefixItems",
                       "items"})
_PROPERTIES = frozenset({"properties", "patternProperties", "additionalProperties"})
_OF_OBJECTS = _PROPERTIES | {"minProperties", "maxProperties", "required", "propertyNames", SOME_PROPERTY}


class Located(msgspec.Struct, frozen=True):
    """A keyword's text and the pointer it stands at."""

    text: str
    pointer: str


class ListPart(msgspec.Struct, frozen=True):
    """prefixItems and items of one schema, as places; items None: anything."""

    prefix: Places
    items: str | None


class ObjectPart(msgspec.Struct, frozen=True):
    """properties, patternProperties and additionalProperties of one schema, as places; additional None: anything."""

    properties: dict[str, str]
    patterns: tuple[tuple[Located, str], ...]
    additional: str | None


class SomeItems(msgspec.Struct, frozen=True):
    """Of the items from `start` on, `least` to `most` (None: any number) fit the schema at `place`."""

    place: str
    start: int
    least: int
    most: int | None
    pointer: str


class SomeProperty(msgspec.Struct, frozen=True):
    """Some property whose key is not in `excluded`, matches `only` (if any) and none of `patterns`, and fits the schema
    at `names` (if any), has a value that fits the schema at `value` (None: any)."""

    excluded: frozenset[str]
    patterns: tuple[Located, ...]
    only: Located | None
    names: str | None
    value: str | None


class Shape(msgspec.Struct):
    """pointer: where to point when nothing fits. kinds: the types that are left (number includes integer).
    values: the only values that are left, None for no such limit; identities: of these."""

    pointer: str
    kinds: set[str] = msgspec.field(default_factory=lambda: set(KINDS))
    values: list[JsonValue] | None = None
    identities: Set[Hashable] = frozenset()
    number: NumberSpec = _ANY_NUMBER
    least_length: int = 0
    most_length: int | None = None
    patterns: list[Located] = []
    excluded_patterns: list[Located] = []
    formats: list[Located] = []
    excluded_formats: list[Located] = []
    lists: list[ListPart] = []
    least_items: int = 0
    most_items: int | None = None
    unique: str | None = None  # the pointer of uniqueItems, where it is true
    repeated: str | None = None  # the pointer of uniqueItems, where some two items must be equal
    some_items: list[SomeItems] = []
    objects: list[ObjectPart] = []
    required: list[str] = []
    names: list[str] = []
    least_properties: int = 0
    most_properties: int | None = None
    some_properties: list[SomeProperty] = []


def shape_of(document: Document, bases: Places, pointer: str) -> Shape:
    """The shape of the schemas at these places, their branches ($ref, allOf, anyOf, ...) left out."""
    shape = Shape(pointer)
    for place in bases:
        schema = document.schema(place)
        if isinstance(schema, dict):
            _add(shape, document, place, schema)
    if shape.repeated is not None and (shape.unique is not None or shape.most_items in (0, 1)):
        shape.kinds.discard("array")
    return shape


def _add(shape: Shape, document: Document, place: str, schema: dict[str, JsonValue]) -> None:
    _add_values(shape, schema)
    if not _OF_NUMBERS.isdisjoint(schema):
        _add_numbers(shape, schema)
    if not _OF_TEXT.isdisjoint(schema):
        _add_text(shape, schema, pointer_of(place))
    if not _OF_LISTS.isdisjoint(schema):
        _add_list(shape, document, place, schema)
    if not _OF_OBJECTS.isdisjoint(schema):
        _add_object(shape, document, place, schema)


def _add_values(shape: Shape, schema: dict[str, JsonValue]) -> None:
    kind = schema.get("type")
    if kind is not None:
        names = {str(name) for name in kind} if isinstance(kind, list) else {str(kind)}
        if "integer" in names and "number" not in names:
            shape.number = replace(shape.number, integer=True)
        shape.kinds &= names | ({"number"} if "integer" in names else set())
    listed = schema.get("enum")
    for members in ([listed] if isinstance(listed, list) else []) + ([[schema["const"]]] if "const" in schema else []):
        _keep_values(shape, members)


def _keep_values(shape: Shape, members: list[JsonValue]) -> None:
    keys = {identity(member): member for member in reversed(members)}
    if shape.values is None:
        shape.values, shape.identities = list(reversed(keys.values())), keys.keys()
    else:
        shape.values = [value for value in shape.values if identity(value) in keys]
        shape.identities = shape.identities & keys.keys()


def _add_numbers(shape: Shape, schema: dict[str, JsonValue]) -> None:
    for keyword, opened in (("minimum", False), ("exclusiveMinimum", True)):
        if keyword in schema:
            shape.number = shape.number.tightest_lower(_decimal(schema[keyword]), opened)
    for keyword, opened in (("maximum", False), ("exclusiveMaximum", True)):
        if keyword in schema:
            shape.number = shape.number.tightest_upper(_decimal(schema[keyword]), opened)
    if "multipleOf" in schema:
        n = shape.number
        divisors = tuple(sorted({*n.divisors, _decimal(schema["multipleOf"])}))
        shape.number = replace(n, divisors=divisors)
    if NOT_MULTIPLE in schema:
        excluded = tuple(sorted({*shape.number.excluded, _decimal(schema[NOT_MULTIPLE])}))
        shape.number = replace(shape.number, excluded=excluded)
    if NOT_INTEGER in schema:
        shape.number = replace(shape.number, fractional=True)


def _decimal(value: JsonValue) -> Decimal:
    return Decimal(value)  # type: ignore[arg-type]


def _counts(schema: dict[str, JsonValue], what: str, pointer: str, least: int, most: int | None,
            ) -> tuple[int, int | None]:
    """The bounds of so many `what`, met with those known. An upper bound that no answer reaches is none."""
    low, high = f"min{what}", f"max{what}"
    if low in schema:
        least = max(least, int(_decimal(schema[low])))
    if least > _MOST_LEAST:
        raise ConstraintTooLarge(f"{low} is above {_MOST_LEAST}: no answer is that long", keyword=low,
                                 where=f"{pointer}/{low}", fix="Use a smaller bound.")
    if high in schema and (bound := _decimal(schema[high])) < _ENDLESS:
        most = int(bound) if most is None else min(most, int(bound))
    return least, most


def _add_text(shape: Shape, schema: dict[str, JsonValue], pointer: str) -> None:
    shape.least_length, shape.most_length = _counts(
        schema, "Length", pointer, shape.least_length, shape.most_length)
    for keyword, found in (("pattern", shape.patterns), ("format", shape.formats),
                           (NOT_PATTERN, shape.excluded_patterns), (NOT_FORMAT, shape.excluded_formats)):
        if keyword in schema:
            found.append(Located(str(schema[keyword]), f"{pointer}/{keyword.lstrip(NOT_PATTERN[0])}"))


def _add_list(shape: Shape, document: Document, place: str, schema: dict[str, JsonValue]) -> None:
    shape.least_items, shape.most_items = _counts(
        schema, "Items", pointer_of(place), shape.least_items, shape.most_items)
    if schema.get("uniqueItems") is True:
        shape.unique = f"{pointer_of(place)}/uniqueItems"
    if NOT_UNIQUE in schema:
        shape.repeated = str(schema[NOT_UNIQUE])
    _add_some_items(shape, document, place, schema)
    prefix = schema.get("prefixItems")
    if prefix is not None or "items" in schema:
        count = len(prefix) if isinstance(prefix, list) else 0
        shape.lists.append(ListPart(
            tuple(_below(document, place, "prefixItems", str(i)) for i in range(count)),
            _below(document, place, "items") if "items" in schema else None,
        ))


def _add_some_items(shape: Shape, document: Document, place: str, schema: dict[str, JsonValue]) -> None:
    some: Any = schema.get(SOME_ITEM)
    if some is not None:
        where = _below(document, place, SOME_ITEM, "schema")
        shape.some_items.append(SomeItems(where, some["from"], 1, None, f"{pointer_of(place)}/items"))
    if "contains" in schema:
        least = int(_decimal(schema.get("minContains", 1)))
        most = int(_decimal(schema["maxContains"])) if "maxContains" in schema else None
        if least or most is not None:
            pointer = f"{pointer_of(place)}/contains"
            shape.some_items.append(SomeItems(_below(document, place, "contains"), 0, least, most, pointer))


def _add_object(shape: Shape, document: Document, place: str, schema: dict[str, JsonValue]) -> None:
    shape.least_properties, shape.most_properties = _counts(
        schema, "Properties", pointer_of(place), shape.least_properties, shape.most_properties)
    required = schema.get("required")
    if isinstance(required, list):
        shape.required.extend(str(name) for name in required if name not in shape.required)
    if "propertyNames" in schema:
        shape.names.append(_below(document, place, "propertyNames"))
    if SOME_PROPERTY in schema:
        shape.some_properties.append(_some_property(document, place, schema[SOME_PROPERTY]))
    if _PROPERTIES.isdisjoint(schema):
        return
    pointer = pointer_of(place) + "/patternProperties"
    shape.objects.append(ObjectPart(
        _children(document, place, schema, "properties"),
        tuple([(Located(text, pointer), below)
               for text, below in _children(document, place, schema, "patternProperties").items()]),
        _below(document, place, "additionalProperties") if "additionalProperties" in schema else None,
    ))


def _some_property(document: Document, place: str, some: Any) -> SomeProperty:
    pointer = pointer_of(place)
    return SomeProperty(
        frozenset(some.get("except", ())), tuple(Located(text, pointer) for text in some.get("patterns", ())),
        Located(some["only"], pointer) if "only" in some else None,
        _below(document, place, SOME_PROPERTY, "names") if "names" in some else None,
        _below(document, place, SOME_PROPERTY, "schema") if "schema" in some else None,
    )


def _children(document: Document, place: str, schema: dict[str, JsonValue], keyword: str) -> dict[str, str]:
    """The places of the schemas that a keyword has, by name."""
    if not isinstance(schema.get(keyword), dict):
        return {}
    return {name: document.alike(below) for name, below in document.children(place, keyword).items()}


def _below(document: Document, place: str, *tokens: str) -> str:
    """The place of a schema for a part of an instance."""
    return document.alike(document.child(place, *tokens))
