"""The keywords of JSON Schema 2020-12: what each value must look like, and what becomes of each keyword."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

from ..errors import InvalidConstraint, UnsupportedKeyword
from . import support
from .document import Link, pointer_of
from .json_text import JsonValue

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

ANNOTATIONS = frozenset(name for names in support.ANNOTATIONS for name in names)
# What derived schemas say beyond the standard. No schema text can hold these names: the reader refuses lone surrogates.
NOT_PATTERN = "\udfffpattern"
NOT_INTEGER = "\udfffinteger"
NOT_FORMAT = "\udfffformat"
NOT_MULTIPLE = "\udfffmultipleOf"
NOT_UNIQUE = "\udfffuniqueItems"  # the pointer of what is negated: some two items are equal
# {"from": n, "schema": S}: some item at n or later fits S.
SOME_ITEM = "\udfffitems"
# {"except": names, "patterns": patterns, "only": pattern, "names": schema, "schema": S}: some property whose key is
# none of the names, matches none of the patterns, matches `only` and fits `names` has a value that fits S.
SOME_PROPERTY = "\udfffproperties"
BRANCHES = support.names_of("branch")
ASSERTIONS = support.names_of("assertion") | {
    NOT_PATTERN, NOT_INTEGER, NOT_FORMAT, NOT_MULTIPLE, NOT_UNIQUE, SOME_ITEM, SOME_PROPERTY}
# These are rewritten before a schema is read as branches and assertions; where they still stand, they are refused.
REFUSED = support.names_of("evaluated") | {"dependencies"}


_SCHEMA_TYPES = (bool, dict, Link)  # a union of types is made anew each time that it is named


def is_number(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: JsonValue) -> bool:
    return is_number(value) and value >= 0 and value == Decimal(value).to_integral_value()  # type: ignore


def is_schema(value: object) -> bool:
    return isinstance(value, _SCHEMA_TYPES)


def _is_schemas(value: JsonValue) -> bool:
    return isinstance(value, list) and bool(value) and all(is_schema(item) for item in value)


def _is_schema_map(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(is_schema(item) for item in value.values())


def _is_names(value: JsonValue) -> bool:
    return (isinstance(value, list) and all(isinstance(item, str) for item in value)
            and len(set(map(str, value))) == len(value))


def _is_type(value: JsonValue) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _is_names_map(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(_is_names(item) for item in value.values())


_COUNT = (_is_count, "a whole number that is not negative")
_NUMBER = (is_number, "a number")
_SCHEMA = (is_schema, "a schema")
_SCHEMAS = (_is_schemas, "a list of schemas, not empty")
_SCHEMA_MAP = (_is_schema_map, "an object of schemas")
_TEXT = (lambda value: isinstance(value, str), "a text")

FORMS: dict[str, tuple[Callable[[JsonValue], bool], str]] = {
    "type": (_is_type, "one of " + ", ".join(TYPES) + ", or a list of them"),
    "enum": (lambda value: isinstance(value, list), "a list"),
    "const": (lambda value: True, "a value"),
    "minimum": _NUMBER, "maximum": _NUMBER, "exclusiveMinimum": _NUMBER, "exclusiveMaximum": _NUMBER,
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above zero"),  # type: ignore[operator]
    "minLength": _COUNT, "maxLength": _COUNT, "minItems": _COUNT, "maxItems": _COUNT,
    "minProperties": _COUNT, "maxProperties": _COUNT, "minContains": _COUNT, "maxContains": _COUNT,
    "pattern": _TEXT, "format": _TEXT, "$ref": _TEXT, "$dynamicRef": _TEXT, "$recursiveRef": _TEXT,
    "$schema": _TEXT, "$id": _TEXT,
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "items": _SCHEMA, "contains": _SCHEMA, "additionalProperties": _SCHEMA, "propertyNames": _SCHEMA, "not": _SCHEMA,
    "if": _SCHEMA, "then": _SCHEMA, "else": _SCHEMA, "unevaluatedItems": _SCHEMA, "unevaluatedProperties": _SCHEMA,
    "prefixItems": _SCHEMAS, "allOf": _SCHEMAS, "anyOf": _SCHEMAS, "oneOf": _SCHEMAS,
    "properties": _SCHEMA_MAP, "patternProperties": _SCHEMA_MAP, "dependentSchemas": _SCHEMA_MAP, "$defs": _SCHEMA_MAP,
    "definitions": (lambda value: isinstance(value, dict), "an object"),
    "required": (_is_names, "a list of different texts"),
    "dependentRequired": (_is_names_map, "an object of lists of different texts"),
}


def check_form(keyword: str, value: JsonValue, place: str) -> None:
    """Raises InvalidConstraint when a standard keyword of the schema at `place` holds what it may not."""
    form = FORMS.get(keyword)
    if form is not None and not form[0](value):
        shown = json.dumps(value, ensure_ascii=False, default=float)
        raise InvalidConstraint(
            f"{keyword} must be {form[1]}, not {shown if len(shown) <= 60 else shown[:57] + '...'}",
            keyword=keyword, where=f"{pointer_of(place)}/{keyword}",
        )


def is_idle(keyword: str, schema: dict[str, JsonValue]) -> bool:
    """The keyword is there and says nothing, whatever the instance."""
    value = schema[keyword]
    if keyword in ("unevaluatedItems", "unevaluatedProperties"):
        return value is True or value == {}
    return keyword == "dependencies" and value == {}


def refuse(keyword: str, pointer: str, why: str = "is not supported yet") -> UnsupportedKeyword:
    return UnsupportedKeyword(f"{keyword} {why}", keyword=keyword, where=pointer,
                              fix="Remove the keyword, or say the same with supported ones.")
