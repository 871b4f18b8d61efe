"""What is wrong with a request, said with the path of the place in its body and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..errors import InvalidParameter
from .body import Json
from .errors import MissingField, UnknownField, path_step

REPLACED = MappingProxyType({
    "guided_json": "response_format", "guided_regex": "response_format", "guided_choice": "response_format",
    "guided_grammar": "response_format", "structured_outputs": "response_format", "json_schema": "response_format",
    "regex": "response_format", "ebnf": "response_format", "grammar": "response_format", "choice": "response_format",
    "max_new_tokens": "max_tokens",
})


Asked = TypeVar("Asked", bound=BaseModel)


class Complaints:
    def __init__(self, fields: Mapping[str, tuple[str, ...]], *, top: tuple[str, ...],
                 replaced: Mapping[str, str] = REPLACED) -> None:
        """fields: the known fields of the object (or the objects of the list) that stands under a name; top: those of
        the body. replaced: fields of others -> what they are called here."""
        self._fields = fields
        self._top = top
        self._replaced = replaced

    def read(self, form: type[Asked], body: Json) -> Asked:
        """Raises InvalidParameter (or UnknownField, MissingField) whose `where` is the path in the body."""
        if not isinstance(body, dict):
            raise InvalidParameter("the body must be a JSON object")
        try:
            return form.model_validate(body)
        except ValidationError as cause:
            raise self.of(_telling(cause.errors(include_url=False)), body) from None

    def of(self, error: ErrorDetails, body: dict[str, Json]) -> InvalidParameter:
        loc = error["loc"]
        path, value = _locate(loc, body)
        name = str(loc[-1])[:64]
        match error["type"]:
            case "extra_forbidden":
                return UnknownField(f"the field {name!r} is not known here", where=path, fix=self._nearest(loc, name))
            case "missing":
                return MissingField(f"the field {name!r} is missing", where=path)
            case "none_required":
                return InvalidParameter(f"the field {name!r} is not supported here", where=path, fix="Leave it out.")
            case "literal_error" if name == "type" and "content" in loc:
                return InvalidParameter(f"parts of type {_short(value)} are not supported, only text", where=path)
            case "union_tag_invalid" if isinstance(value, dict):
                return InvalidParameter(f"items of type {_short(value.get('type'))} are not supported", where=path)
            case "string_pattern_mismatch" if name == "[key]":
                return InvalidParameter(f"{path}: keys are token ids in decimal digits", where=path)
            case "list_type" if name == "content":
                wanted = "should be a text or a list of text parts"
                return InvalidParameter(f"{path}: {wanted}, not {_short(value)}", where=path)
            case "too_short" if isinstance(value, list):
                return InvalidParameter(f"{path} is empty", where=path, fix="Send at least one.")
        return InvalidParameter(f"{path}: {_wanted(error)}, not {_short(value)}", where=path)

    def _nearest(self, loc: tuple[int | str, ...], name: str) -> str:
        if len(loc) == 1 and name in self._replaced:
            return f"Did you mean {self._replaced[name]!r}?"
        names = (self._fields[step] for step in reversed(loc[:-1]) if isinstance(step, str) and step in self._fields)
        known = next(names, self._top)
        near = difflib.get_close_matches(name, known, n=1)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        return f"{guess}Known fields are {', '.join(known)}."


def _telling(errors: Sequence[ErrorDetails]) -> ErrorDetails:
    """The first; a wrong type of the same object tells more than what the object lacks for the type it is taken for."""
    place = errors[0]["loc"][:-1]
    kinds = (error for error in errors if error["type"] == "literal_error" and error["loc"] == (*place, "type"))
    return next(kinds, errors[0])


def _locate(loc: tuple[int | str, ...], body: Json) -> tuple[str, Json]:
    """The path of an error, and the value there. Steps that the body does not have (the text of a message seen as its
    only part) are left out, except a last one: that is a missing field."""
    path, value = "", body
    for at, step in enumerate(loc):
        if isinstance(value, dict) and step in value:
            value = value[str(step)]
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        elif at < len(loc) - 1 or not isinstance(value, dict):
            continue
        path += path_step(step)
    return path.removeprefix(".")[:256], value


def _wanted(error: ErrorDetails) -> str:
    """What should stand there, in the words of JSON."""
    context = error.get("ctx", {})
    match error["type"]:
        case "dict_type" | "model_type" | "model_attributes_type":
            return "should be an object"
        case "list_type":
            return "should be a list"
        case "string_too_short" | "string_too_long" | "too_long":
            short = "min_length" in context
            bound = context["min_length" if short else "max_length"]
            kind = "character" if error["type"].startswith("string") else "item"
            return f"should have at {'least' if short else 'most'} {bound} {kind}{'' if bound == 1 else 's'}"
        case "literal_error" if context.get("expected") in ("True", "False"):
            return f"should be {context['expected'].lower()}"
    return error["msg"].removeprefix("Input ")


def _short(value: Json) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
