"""The request of a chat completion: the fields that are served, and nothing beside them.

Every optional field takes null as unset. `user` is accepted and has no effect. The role developer is read as system.
Text parts of one message are joined as they are. An assistant message may carry the null fields of an answer.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError

from ..errors import InvalidParameter
from .body import Json
from .complaints import Complaints
from .errors import MissingField

MOST_TOKENS = 2**31 - 1


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


def names_of(form: type[_Form]) -> tuple[str, ...]:
    """The fields of a form as they are written in a body."""
    return tuple(sorted(field.alias or name for name, field in form.model_fields.items()))


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


COMPLAINTS = Complaints(
    {
        "content": names_of(TextPart), "messages": names_of(ChatMessage), "json_schema": names_of(JsonSchemaFormat),
        "response_format": names_of(ResponseFormat), "stream_options": names_of(StreamOptions),
    },
    top=names_of(ChatRequest),
)


def parse_chat(body: Json) -> ChatRequest:
    """Raises InvalidParameter (or UnknownField, MissingField) whose `where` is the path in the body."""
    if not isinstance(body, dict):
        raise InvalidParameter("the body must be a JSON object")
    try:
        chat = ChatRequest.model_validate(body)
    except ValidationError as cause:
        raise COMPLAINTS.of(cause.errors(include_url=False)[0], body) from None
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
