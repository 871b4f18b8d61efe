"""response_format: what an answer must be, and where in the body a refusal of it points."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from ...grammars.constraint import AnyObject, Choices, Content, Gbnf, JsonSchema, Lark, Regex
from ..errors import InvalidParameter
from .errors import MissingField, path_step
from .forms import Form

SCHEMA_ENCODER = msgspec.json.Encoder(decimal_format="number")
BODIES = ("json_schema", "regex", "choices", "lark", "gbnf")


class JsonSchemaFormat(Form):
    """strict makes no difference: a schema is enforced whole or refused, never weakened."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: Annotated[dict[str, object], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Form):
    """All but text and json_object have a member of their own name. regex, choices, lark and gbnf are our own."""

    type: Literal["text", "json_object", "json_schema", "regex", "choices", "lark", "gbnf"]
    json_schema: JsonSchemaFormat | None = None
    regex: str | None = None
    choices: Annotated[list[str], Field(min_length=1)] | None = None
    lark: str | None = None
    gbnf: str | None = None

    def check(self) -> None:
        """Raises MissingField, or InvalidParameter for the member of another type."""
        for name in BODIES:
            where = f"response_format.{name}"
            if name == self.type and getattr(self, name) is None:
                raise MissingField(f"type {name} needs its member {name}", where=where)
            if name != self.type and getattr(self, name) is not None:
                raise InvalidParameter(f"type {self.type} takes no {name}", where=where)

    def constraint(self) -> Content | None:
        """None for free text."""
        if self.json_schema is not None:
            return JsonSchema(schema_text(self.json_schema.schema_))
        if self.regex is not None:
            return Regex(self.regex)
        if self.choices is not None:
            return Choices(tuple(self.choices))
        if self.lark is not None:
            return Lark(self.lark)
        if self.gbnf is not None:
            return Gbnf(self.gbnf)
        return None if self.type == "text" else AnyObject()

    def place(self, where: str) -> str:
        """The path in the body of a place in the constraint."""
        if self.json_schema is not None:
            return schema_place("response_format.json_schema.schema", where)
        return f"response_format.{self.type}" if self.type in BODIES else "response_format"


def schema_text(schema: dict[str, object]) -> str:
    """With its numbers and the order of its keys as they were written."""
    return SCHEMA_ENCODER.encode(schema).decode()


def schema_place(base: str, pointer: str) -> str:
    """The path of a place in the schema that stands at `base`. pointer: a JSON pointer, maybe after '#', maybe followed
    by a column within a pattern, which has no place in a path."""
    pointer = re.sub(r"( line \d+)?( column \d+)?$", "", pointer)
    if not pointer.startswith(("/", "#")):
        return base
    tokens = pointer.lstrip("#").split("/")[1:]
    return base + "".join(path_step(token.replace("~1", "/").replace("~0", "~")) for token in tokens)
