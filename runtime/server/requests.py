"""The request of a chat completion: the fields that are served, and nothing beside them.

Every optional field takes null as unset. The role developer is read as system. Text parts of one message are joined as
they are. An assistant message may carry the null fields of an answer. OpenAI's fields that are not served are known by
name; what would change nothing is accepted, everything else is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import FailFast, Field

from ..conversation import Message
from ..errors import InvalidParameter
from .body import Json
from .complaints import Complaints
from .formats import JsonSchemaFormat, ResponseFormat
from .forms import MOST_TOKENS, Form, Name, Off, SamplingForm, StreamOptions, least_beside, names_of
from .messages import ChatMessage, TextPart, conversation
from .tools import ChoiceForm, FunctionForm, Offer, ToolChoice, ToolForm, ToolList

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class SwitchesForm(Form):
    """Whether the model thinks, as its template calls it."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


class ChatRequest(SamplingForm):
    messages: Annotated[list[ChatMessage], FailFast(), Field(min_length=1, max_length=4096)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    response_format: ResponseFormat | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    tools: ToolList | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: SwitchesForm | None = None
    reasoning_effort: Effort | None = None
    # Accepted with the values that change nothing.
    store: Off | None = None
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
    web_search_options: None = None

    @property
    def budget(self) -> int | None:
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


@dataclass(frozen=True, slots=True)
class Chat:
    """A request whose parts fit together."""

    form: ChatRequest
    messages: list[Message]
    offer: Offer

    @property
    def strict(self) -> bool:
        """An answer that begins as it likes would not do."""
        wanted = self.form.response_format
        return self.offer.strict or (wanted is not None and wanted.type != "text")

    def switches(self, known: Collection[str]) -> dict[str, bool]:
        """Of the chat template, which knows these. Raises InvalidParameter for one that it does not know."""
        given = self.form.chat_template_kwargs
        wanted: dict[str, bool] = {} if given is None else given.model_dump(exclude_none=True)
        for name in wanted:
            if name not in known:
                raise InvalidParameter("the chat template of this model has no such switch",
                                       where=f"chat_template_kwargs.{name}", fix="Leave it out.")
        return effort_switches(self.form.reasoning_effort, known, "reasoning_effort") | wanted


def effort_switches(effort: Effort | None, known: Collection[str], where: str) -> dict[str, bool]:
    """None turns thoughts off and any other turns them on. Raises InvalidParameter where no switch is known."""
    if effort is None:
        return {}
    if not known:
        raise InvalidParameter("the chat template of this model cannot be told to think or not", where=where,
                               fix="Leave it out.")
    return dict.fromkeys(known, effort != "none")


COMPLAINTS = Complaints(
    {
        "content": names_of(TextPart), "messages": names_of(ChatMessage), "json_schema": names_of(JsonSchemaFormat),
        "response_format": names_of(ResponseFormat), "stream_options": names_of(StreamOptions),
        "chat_template_kwargs": names_of(SwitchesForm),
        "tools": names_of(ToolForm), "function": names_of(FunctionForm), "tool_choice": names_of(ChoiceForm),
    },
    top=names_of(ChatRequest),
)


def parse_chat(body: Json) -> Chat:
    """Raises InvalidParameter (or UnknownField, MissingField) whose `where` is the path in the body."""
    form = COMPLAINTS.read(ChatRequest, body)
    chat = Chat(form, conversation(form.messages), Offer(
        [tool.function for tool in form.tools or ()], form.tool_choice, form.parallel_tool_calls))
    _check_together(chat)
    return chat


def _check_together(chat: Chat) -> None:
    form = chat.form
    limits = {form.max_tokens, form.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise InvalidParameter(
            "max_tokens and max_completion_tokens differ", where="max_tokens", fix="Send max_completion_tokens only."
        )
    form.check_stream()
    form.check_least(chat.form.budget)
    if form.top_logprobs and not form.logprobs:
        raise InvalidParameter("top_logprobs needs logprobs: true", where="top_logprobs")
    wanted = form.response_format
    if wanted is not None:
        wanted.check()
    free = wanted is None or wanted.type == "text"
    if form.min_tokens and (chat.offer.open or not free):
        raise least_beside("tools" if chat.offer.open else "a response_format that is enforced")
