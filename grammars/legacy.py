"""Schemas that declare an older draft, rewritten to mean the same in 2020-12. Without `$schema` nothing is guessed."""

from __future__ import annotations

from .json_text import JsonValue

_DRAFT_4 = ("draft-03", "draft-04")
_BEFORE_2019 = (*_DRAFT_4, "draft-05", "draft-06", "draft-07")
_BEFORE_2020 = (*_BEFORE_2019, "2019-09")
_SCHEMAS = ("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames",
            "then", "allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def modernised(schema: JsonValue) -> JsonValue:
    """Draft 4's exclusive bounds, item lists before 2020-12 and `dependencies` before 2019-09. Only where a schema
    stands: a property may be called `dependencies`. What unknown keywords hold stays as it is."""
    draft = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(draft, str) or not any(name in draft for name in _BEFORE_2020):
        return schema
    stack: list[JsonValue] = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(_below(value))
            if any(name in draft for name in _DRAFT_4):
                _exclusive(value)
            _items(value)
            if any(name in draft for name in _BEFORE_2019):
                _dependencies(value)
    return schema


def _below(schema: dict[str, JsonValue]) -> list[JsonValue]:
    """The subschemas of a schema."""
    found: list[JsonValue] = []
    for keyword in _SCHEMAS:
        value = schema.get(keyword)
        found.extend(value if isinstance(value, list) else [value])
    for keyword in _MAPS:
        value = schema.get(keyword)
        found.extend(value.values() if isinstance(value, dict) else [])
    return found


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
    if names:
        schema["dependentRequired"] = names
    if schemas:
        schema["dependentSchemas"] = schemas
