"""The request of a chat completion: the fields that are served, and nothing beside them.

Every optional field takes null as unset. `user` is accepted and has no effect. The role developer is read as system.
Text parts of one message are joined as they are. An assistant message may carry the null fields of an answer.
"""

from __future__ import annotations

import difflib
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import ErrorDetails

from ..errors import InvalidParameter
from .body import Json
from .errors import MissingField, UnknownField, path_step

MOST_TOKENS = 2**31 - 1
REPLACED = {
    "guided_json": "response_format", "guided_regex": "response_format", "guided_choice": "response_format",
    "guided_grammar": "response_format", "structured_outputs": "response_format", "json_schema": "response_format",
    "functions": "response_format", "tools": "response_format", "max_new_tokens": "max_tokens",
}


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


def _as_float(value: object) -> object:
    return float(value) if isinstance(value, Decimal) else value


Fraction = Annotated[float, BeforeValidator(_as_float), Field(allow_inf_nan=False)]
StopString = Annotated[str, Field(min_length=1, max_length=256)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TextPart(_Form):
    type: Literal["text"]
    text: str


class ChatMessage(_Form):
    role: Literal["developer", "system", "user", "assistant"]
    content: Annotated[list[TextPart], FailFast(), Field(min_length=1, max_length=1024), BeforeValidator(_as_parts)]
    name: None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    tool_calls: None = None
    function_call: None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)

    @property
    def template_role(self) -> str:
        return "system" if self.role == "developer" else self.role


class JsonSchemaFormat(_Form):
    """strict makes no difference: a schema is enforced whole or refused, never weakened."""

    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str | None = None
    schema_: Annotated[dict[str, object], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(_Form):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchemaFormat | None = None


class StreamOptions(_Form):
    include_usage: bool | None = None


class ChatRequest(_Form):
    model: str
    messages: Annotated[list[ChatMessage], FailFast(), Field(min_length=1, max_length=4096)]
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    temperature: Annotated[Fraction, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Fraction, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: Annotated[list[StopString], BeforeValidator(_as_list), Field(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    user: Annotated[str, Field(max_length=512)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = None

    @property
    def budget(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


def parse_chat(body: Json) -> ChatRequest:
    """Raises InvalidParameter (or UnknownField, MissingField) whose `where` is the path in the body."""
    if not isinstance(body, dict):
        raise InvalidParameter("the body must be a JSON object")
    try:
        chat = ChatRequest.model_validate(body)
    except ValidationError as cause:
        raise _complaint(cause.errors(include_url=False, include_context=True)[0], body) from None
    _check_together(chat)
    return chat


def _check_together(chat: ChatRequest) -> None:
    limits = {chat.max_tokens, chat.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise InvalidParameter(
            "max_tokens and max_completion_tokens differ", where="max_tokens", fix="Send max_completion_tokens only."
        )
    if chat.stream_options is not None and not chat.stream:
        raise InvalidParameter("stream_options needs stream: true", where="stream_options")
    _check_format(chat)


def _check_format(chat: ChatRequest) -> None:
    wanted = chat.response_format
    if wanted is None:
        return
    if wanted.type == "json_schema" and wanted.json_schema is None:
        raise MissingField("type json_schema needs the object json_schema", where="response_format.json_schema")
    if wanted.type != "json_schema" and wanted.json_schema is not None:
        raise InvalidParameter(f"type {wanted.type} takes no json_schema", where="response_format.json_schema")
    if wanted.type != "text" and chat.stop:
        raise InvalidParameter(
            "stop strings cannot be used beside a response_format that is enforced", where="stop", fix="Leave one out."
        )


def _complaint(error: ErrorDetails, body: dict[str, Json]) -> InvalidParameter:
    path, value = _locate(error["loc"], body)
    name = str(error["loc"][-1])[:64]
    match error["type"]:
        case "extra_forbidden":
            return UnknownField(f"the field {name!r} is not known here", where=path, fix=_nearest(error["loc"]))
        case "missing":
            return MissingField(f"the field {name!r} is missing", where=path)
        case "none_required":
            return InvalidParameter(f"the field {name!r} is not supported here", where=path, fix="Leave it out.")
        case "literal_error" if name == "type" and "content" in error["loc"]:
            return InvalidParameter(f"message parts of type {_short(value)} are not supported, only text", where=path)
    return InvalidParameter(f"{path}: {_plain(error['msg'])}, not {_short(value)}", where=path)


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


def _nearest(loc: tuple[int | str, ...]) -> str:
    known = _fields_at(loc[:-1])
    name = str(loc[-1])[:64]
    if len(loc) == 1 and name in REPLACED:
        return f"Did you mean {REPLACED[name]!r}?"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0)
    return f"Did you mean {near[0]!r}? Known fields are {', '.join(sorted(known))}."


def _fields_at(loc: tuple[int | str, ...]) -> list[str]:
    forms: dict[str, type[_Form]] = {
        "content": TextPart, "messages": ChatMessage, "json_schema": JsonSchemaFormat,
        "response_format": ResponseFormat, "stream_options": StreamOptions,
    }
    inner = next((forms[step] for step in reversed(loc) if isinstance(step, str) and step in forms), ChatRequest)
    return [field.alias or name for name, field in inner.model_fields.items()]


def _plain(message: str) -> str:
    return message.removeprefix("Input ")


def _short(value: Json) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
