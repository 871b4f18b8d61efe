"""The text of a schema from whatever a caller has: JSON text, a dict or a Pydantic class. Light: the language uses it.

A Pydantic class is closed: its objects take no other keys, unless its configuration allows extra ones or the field is
a dict[str, T]. A raw schema means what the standard says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from .errors import InvalidConstraint

# Keywords whose values are subschemas, lists of them, or maps to them.
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")
_MAPS = ("properties", "$defs", "definitions", "patternProperties")


def schema_text(source: object) -> str:
    """JSON text of a schema. `source`: JSON text, a mapping, true or false, or a class with `model_json_schema`.

    Raises InvalidConstraint when the source is none of these or is not JSON.
    """
    if isinstance(source, str):
        return source
    make = getattr(source, "model_json_schema", None)
    if callable(make):
        return _dump(closed(make()))
    if isinstance(source, Mapping | bool):
        return _dump(source)
    raise InvalidConstraint(
        f"a schema is JSON text, a dict or a Pydantic class, not {type(source).__name__}", keyword="schema",
        where="#", fix="Pass one of these.",
    )


def _dump(schema: object) -> str:
    try:
        return json.dumps(dict(schema) if isinstance(schema, Mapping) else schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidConstraint(f"the schema is not JSON: {error}", keyword="json", where="#") from error


def closed(schema: Mapping[str, object]) -> dict[str, object]:
    """A copy in which every object with declared properties that says nothing about other keys forbids them."""
    return _closed(dict(schema))


def _closed(schema: object) -> dict[str, object]:
    if not isinstance(schema, Mapping):
        raise InvalidConstraint("a subschema must be an object", keyword="schema", where="#")
    copy = {str(keyword): _below(str(keyword), value) for keyword, value in schema.items()}
    is_object = copy.get("type") == "object" or "properties" in copy
    # A free-form dict says additionalProperties itself; a model without fields is an object with empty properties.
    if is_object and "properties" in copy and "additionalProperties" not in copy:
        copy["additionalProperties"] = False
    return copy


def _below(keyword: str, value: object) -> object:
    if keyword in _ONE:
        return _closed(value) if isinstance(value, Mapping) else value
    if keyword in _LISTS and isinstance(value, list):
        return [_closed(item) if isinstance(item, Mapping) else item for item in value]
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: _closed(item) if isinstance(item, Mapping) else item for name, item in value.items()}
    return value
