"""The request of a chat completion: the fields that are served, and nothing beside them.

Every optional field takes null as unset. The role developer is read as system. Text parts of one message are joined as
they are. An assistant message may carry the null fields of an answer. OpenAI's fields that are not served are known by
name; what would change nothing is accepted, everything else is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, FailFast, Field, ValidationError

from ..errors import InvalidParameter
from .body import Json
from .complaints import Complaints
from .formats import JsonSchemaFormat, ResponseFormat
from .forms import MOST_TOKENS, Form, Name, SamplingForm, StreamOptions, names_of


def _as_parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class TextPart(Form):
    type: Literal["text"]
    text: str


class ChatMessage(Form):
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


class ChatRequest(SamplingForm):
    messages: Annotated[list[ChatMessage], FailFast(), Field(min_length=1, max_length=4096)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    response_format: ResponseFormat | None = None
    # Accepted with the values that change nothing.
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] | None = None
    logit_bias: Annotated[dict[str, float], Field(max_length=0)] | None = None
    logprobs: Literal[False] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=0)] | None = None
    tools: Annotated[list[object], Field(max_length=0)] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = None
    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    verbosity: Literal["medium"] | None = None
    metadata: Annotated[dict[Annotated[str, Field(max_length=64)], Name], Field(max_length=16)] | None = None
    prompt_cache_key: Name | None = None
    safety_identifier: Name | None = None
    # Known, and refused unless null.
    audio: None = None
    function_call: None = None
    functions: None = None
    moderation: None = None
    prediction: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    reasoning_effort: None = None
    web_search_options: None = None

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
    chat.check_stream()
    wanted = chat.response_format
    if wanted is None:
        return
    wanted.check()
    if wanted.type != "text" and chat.stop:
        raise InvalidParameter(
            "stop strings cannot be used beside a response_format that is enforced", where="stop", fix="Leave one out."
        )
