"""Plain Python types as schemas: int, list[str], Literal, dataclasses, enums, and containers of Pydantic classes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

import msgspec

from .errors import ProgramError

# What msgspec states more widely than it reads: any text for a decimal number and base64, leap seconds, months.
_READABLE = {
    ("format", "decimal"): r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,28})?$",
    ("contentEncoding", "base64"): "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    ("format", "date-time"): r"^.{17}[0-5][0-9](\.[0-9]{1,6})?([Zz]|[+-].{5})$",
    ("format", "time"): r"^.{6}[0-5][0-9](\.[0-9]{1,6})?([Zz]|[+-].{5})$",
    ("format", "duration"): "^P([0-9]{1,6}D)?(T([0-9]{1,6}[HMS]){1,3})?$",
}
_VALUES = ("default", "enum", "const", "examples")


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """schema: JSON schema of a type, its classes closed: no keys but their fields. read: text -> value of the type."""

    schema: dict[str, object]
    read: Callable[[str], Any]


def type_schema(annotation: Any) -> TypeSchema:
    """Raises ProgramError for what is no type that JSON can carry."""
    try:
        (schema,), components = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
        if annotation in (datetime, time):  # with a time zone or without one: of these msgspec states no format
            schema["format"] = "time" if annotation is time else "date-time"
        source = _with_closed(_readable(schema), {name: _readable(part) for name, part in components.items()})
        return TypeSchema(source, msgspec.json.Decoder(annotation).decode)
    except (TypeError, NameError) as error:
        adapted = _adapted(annotation)
        if adapted is not None:
            return adapted
        raise ProgramError(
            f"schema must be a Pydantic class, a type, a dict or JSON text, not {annotation!r}", where="schema",
            fix="Use types that JSON can carry.",
        ) from error


def _adapted(annotation: Any) -> TypeSchema | None:
    """By Pydantic, for types like list[Person]. Only when the program has loaded it: it is never imported here."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not hasattr(annotation, "__args__"):
        return None
    try:
        adapter = pydantic.TypeAdapter(annotation)
        schema = adapter.json_schema()
    except pydantic.errors.PydanticUserError:
        return None
    return TypeSchema(_with_closed(schema, schema.pop("$defs", {})), adapter.validate_json)


def _readable(schema: Any) -> Any:
    """With a pattern wherever a text may fit that msgspec would refuse to read."""
    if isinstance(schema, list):
        return [_readable(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    node = {key: part if key in _VALUES else _readable(part) for key, part in schema.items()}
    for (key, value), pattern in _READABLE.items():
        if node.get("type") == "string" and node.get(key) == value:
            node.setdefault("pattern", pattern)
    return node


def _with_closed(schema: dict[str, object], components: dict[str, dict[str, object]]) -> dict[str, object]:
    from ..grammars.schema import closed  # here, because programs without a schema do not need it

    return closed({**schema, "$defs": components} if components else schema)
