"""Plain Python types as schemas: int, list[str], Literal, dataclasses, enums, and containers of Pydantic classes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from .errors import ProgramError


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """schema: JSON schema of a type, its classes closed: no keys but their fields. read: text -> value of the type."""

    schema: dict[str, object]
    read: Callable[[str], Any]


def type_schema(annotation: Any) -> TypeSchema:
    """Raises ProgramError for what is no type that JSON can carry."""
    try:
        (schema,), components = msgspec.json.schema_components([annotation], ref_template="#/$defs/{name}")
        return TypeSchema(_with_closed(schema, components), msgspec.json.Decoder(annotation).decode)
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


def _with_closed(schema: dict[str, object], components: dict[str, dict[str, object]]) -> dict[str, object]:
    from ..grammars.schema import closed  # here, because programs without a schema do not need it

    return closed({**schema, "$defs": components} if components else schema)
