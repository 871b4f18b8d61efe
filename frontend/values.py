"""From what a user writes (schema=Person, regex=..., choices=[...]) to a constraint, and from the answer back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from ..grammars.constraint import Choices, Constraint, Content, Gbnf, JsonSchema, Lark, Regex, Spacing, Tag, Tags
from .errors import ProgramError
from .slot import Reader
from .types import type_schema

_IGNORECASE, _DOTALL, _UNICODE, _ASCII = 2, 16, 32, 256  # re's flags


@dataclass(frozen=True, slots=True)
class Kind:
    """What an answer must fit, and how it is read."""

    constraint: Constraint | None
    read: Reader


def kind_of(
    *, regex: object = None, schema: object = None, choices: object = None, lark: object = None, gbnf: object = None,
    tags: object = None, spacing: Spacing = "compact",
) -> Kind:
    """Raises ProgramError when more than one is given or one has the wrong type."""
    kinds = {"regex": regex, "schema": schema, "choices": choices, "lark": lark, "gbnf": gbnf, "tags": tags}
    given = [name for name, value in kinds.items() if value is not None]
    if spacing not in get_args(Spacing):
        raise ProgramError(f"spacing must be one of {', '.join(get_args(Spacing))}, not {spacing!r}", where="spacing")
    if len(given) > 1:
        raise ProgramError(f"{' and '.join(given)} cannot be given together", where=given[1], fix="Keep one of them.")
    if regex is not None:
        return Kind(Regex(_pattern(regex)), str)
    if choices is not None:
        return Kind(Choices(options(choices)), str)
    if lark is not None:
        return Kind(Lark(_grammar(lark, "lark")), str)
    if gbnf is not None:
        return Kind(Gbnf(_grammar(gbnf, "gbnf")), str)
    if tags is not None:
        return Kind(_tags(tags), str)
    if schema is not None:
        return _schema_kind(schema, spacing)
    return Kind(None, str)


def tag(
    begin: str, end: str = "", *, regex: str | None = None, schema: Any = None, choices: Sequence[str] | None = None,
    lark: str | None = None, gbnf: str | None = None, spacing: Spacing = "compact",
) -> Tag:
    """A delimited part of an answer, for `gen(tags=[...])`: `begin`, what it holds, `end`. The other arguments are
    those of `gen`, at most one of them; without any it holds every text up to the first `end`."""
    for name, text in (("begin", begin), ("end", end)):
        if not isinstance(text, str):
            raise ProgramError(f"{name} must be a string, not {type(text).__name__}", where=name)
        spelled(text, name)
    held = kind_of(regex=regex, schema=schema, choices=choices, lark=lark, gbnf=gbnf, spacing=spacing).constraint
    content: Content | None = None if isinstance(held, Tags) else held
    return Tag(begin, content, end)


def _tags(tags: object) -> Tags:
    if isinstance(tags, Tags):
        return tags
    if not isinstance(tags, (list, tuple)) or not all(isinstance(one, Tag) for one in tags):
        raise ProgramError("tags must be a list of tags, or Tags", where="tags", fix="Make each with tag(begin, end).")
    return Tags(tuple(tags))


def spelled(text: str, where: str) -> str:
    """The text itself. Raises ProgramError for a lone surrogate, which no tokenizer can be given."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ProgramError(
            f"character {error.start} of the text is a lone surrogate, which UTF-8 cannot carry", where=where,
            fix="Decode the bytes that it came from with errors='replace'.",
        ) from None
    return text


def options(choices: object) -> tuple[str, ...]:
    """At least one string. Raises ProgramError naming the choice that is none."""
    if isinstance(choices, str) or not isinstance(choices, (list, tuple)):
        raise ProgramError(f"choices must be a list of strings, not {type(choices).__name__}", where="choices")
    if not choices:
        raise ProgramError("choices is empty", where="choices", fix="Give at least one string.")
    for k, choice in enumerate(choices):
        if not isinstance(choice, str):
            raise ProgramError(f"a choice must be a string, not {type(choice).__name__}", where=f"choices[{k}]")
        spelled(choice, f"choices[{k}]")
    return tuple(choices)


def _pattern(regex: object) -> str:
    pattern, flags = getattr(regex, "pattern", regex), getattr(regex, "flags", 0)  # of an re.Pattern, without re
    if not isinstance(pattern, str):
        raise ProgramError(f"regex must be a string, not {type(regex).__name__}", where="regex")
    return spelled(_flagged(pattern, flags), "regex")


def _flagged(pattern: str, flags: int) -> str:
    """The pattern with the flags of a compiled one written at its beginning, where some may stand already."""
    if flags & ~(_IGNORECASE | _DOTALL | _ASCII | _UNICODE):
        raise ProgramError("of a compiled pattern only the flags I, S, A and U can be kept", where="regex",
                           fix="Write the pattern without the other ones.")
    letters = ("i" if flags & _IGNORECASE else "") + ("s" if flags & _DOTALL else "")
    if not letters:
        return pattern
    inline, closed, rest = pattern.removeprefix("(?").partition(")")
    written = pattern.startswith("(?") and closed and inline.isalpha()
    return f"(?{letters}){rest if written else pattern}"


def _grammar(text: object, where: str) -> str:
    if not isinstance(text, str):
        raise ProgramError(f"{where} must be a string, not {type(text).__name__}", where=where)
    return spelled(text, where)


def _is_model(schema: object) -> bool:
    """A Pydantic class, known by its face: Pydantic itself is never imported here."""
    return isinstance(schema, type) and hasattr(schema, "model_json_schema") and hasattr(schema, "model_validate_json")


def _schema_kind(schema: Any, spacing: Spacing) -> Kind:
    if isinstance(schema, JsonSchema):
        if spacing != "compact":
            raise ProgramError("a JsonSchema has a spacing of its own", where="spacing", fix="Say it there.")
        return Kind(schema, json.loads)
    source: Any = schema
    read: Reader = json.loads
    if _is_model(schema):
        read = schema.model_validate_json
    elif not isinstance(schema, (Mapping, str, bool)):
        typed = type_schema(schema)
        source, read = typed.schema, typed.read
    from ..grammars.schema import schema_text  # here, because programs without a schema do not need it

    return Kind(JsonSchema(schema_text(source), spacing), read)
