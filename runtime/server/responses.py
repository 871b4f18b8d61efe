"""POST /v1/responses: the text, the JSON and the calls of a model as items; nothing is kept between requests."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ...grammars.errors import MissingByte
from ..branch import BranchId, Chunk
from ..conversation import Message, Tool
from ..errors import TemplateError
from ..words import Switches
from .asking import Enforced, Prompt, Question
from .body import Json
from .chat import enforced
from .choices import Choices
from .complaints import Complaints
from .contract import ChatRuntime, ChatSession
from .errors import ConstraintRefused
from .formats import SCHEMA_ENCODER
from .forms import least_beside, names_of
from .requests import effort_switches
from .response_events import ResponseEvents
from .response_form import (
    FlatChoice,
    FormatForm,
    FunctionTool,
    MessageItem,
    PartForm,
    ReasoningForm,
    ResponsesRequest,
    ResponseStreamOptions,
    TextForm,
)
from .response_input import conversation
from .response_reply import Response, fresh
from .settings import Settings
from .tools import Offer
from .writing import ChoiceWriter

COMPLAINTS = Complaints(
    {
        "input": names_of(MessageItem), "content": names_of(PartForm), "output": names_of(PartForm),
        "text": names_of(TextForm), "format": names_of(FormatForm), "tools": names_of(FunctionTool),
        "tool_choice": names_of(FlatChoice), "reasoning": names_of(ReasoningForm),
        "stream_options": names_of(ResponseStreamOptions),
    },
    top=names_of(ResponsesRequest),
    replaced={"messages": "input", "response_format": "text", "max_completion_tokens": "max_output_tokens",
              "reasoning_effort": "reasoning"},
)


class ResponsesJob:
    def __init__(self, runtime: ChatRuntime, settings: Settings, form: ResponsesRequest) -> None:
        self._runtime = runtime
        self._form = form
        self._offer = Offer(form.tools or (), form.tool_choice, form.parallel_tool_calls, inside="")
        self._format = None if form.text is None else form.text.format
        _check_together(form, self._offer, self._format)
        self._offer.check_beside(runtime.calls, runtime.thinking, self._format, "text.format")
        effort = None if form.reasoning is None else form.reasoning.effort
        switches = effort_switches(effort, runtime.switches, "reasoning.effort")
        strict = self._offer.strict or (self._format is not None and self._format.type != "text")
        self.question = Question(
            form=form, prompts=(_prompt(conversation(form), self._offer.told, switches),), where="input",
            budget=form.max_output_tokens, most=settings.default_tokens, enforced=self._enforced(),
            stop_until=runtime.calls.trigger if self._offer.open else "", thinking=runtime.thinking,
            think_first=strict,
        )

    @classmethod
    def read(cls, runtime: ChatRuntime, settings: Settings, body: Json) -> ResponsesJob:
        """Raises InvalidParameter."""
        return cls(runtime, settings, COMPLAINTS.read(ResponsesRequest, body))

    def _enforced(self) -> Enforced | None:
        runtime = self._runtime
        wanted = (self._offer.enforced(runtime.calls, self._format) if self._offer.open
                  else enforced(self._format, runtime.thinking))
        return None if wanted is None else Enforced(
            wanted.constraint, wanted.place, wanted.behind, budget="max_output_tokens")

    def reply(self, choices: Choices) -> Response:
        events = self.events(choices)
        events.told(Chunk(choices.answer(0).text))
        return events.complete(choices.answer(0), choices.usage())

    def events(self, choices: Choices) -> ResponseEvents:
        offer, opened = self._offer, choices.prompts[0].opened
        writer = ChoiceWriter(self._runtime.calls if offer.open else None, named=offer.mode == "named",
                              thoughts=self.question.thoughts(opened), whole=offer.whole(self._format) is not None)
        return ResponseEvents(begun(self._form, offer), writer)


def begun(form: ResponsesRequest, offer: Offer) -> Response:
    """Nothing of it is written yet."""
    tools = [tool.model_dump(by_alias=True) for tool in form.tools or ()]
    choice = None if form.tool_choice is None else form.tool_choice.model_dump(by_alias=True, exclude_none=True)
    plain = "auto" if choice is None else choice["type"] if len(choice) == 1 else choice
    text = {"format": {"type": "text"}} if form.text is None else form.text.model_dump(by_alias=True, exclude_none=True)
    reasoning = {} if form.reasoning is None else form.reasoning.model_dump()
    return Response(
        fresh("resp"), int(time.time()), "in_progress", (), model=form.model, instructions=form.instructions,
        max_output_tokens=form.max_output_tokens, temperature=1.0 if form.temperature is None else form.temperature,
        top_p=1.0 if form.top_p is None else form.top_p, parallel_tool_calls=form.parallel_tool_calls is not False,
        tools=_raw(tools), tool_choice=_raw(plain), text=_raw(text), reasoning=_raw(reasoning),
        metadata=_raw(form.metadata or {}), user=form.user,
    )


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(SCHEMA_ENCODER.encode(value))


def _prompt(messages: Sequence[Message], tools: Sequence[Tool], switches: Switches) -> Prompt:
    def append(session: ChatSession, branch: BranchId) -> None:
        try:
            session.extend_chat(branch, messages, tools=tools, switches=switches)
        except TemplateError as error:
            raise TemplateError(error.message, where="input", fix=error.fix) from error
        except MissingByte as error:
            raise ConstraintRefused(error, "input") from error

    return append


def _check_together(form: ResponsesRequest, offer: Offer, wanted: FormatForm | None) -> None:
    form.check_stream()
    form.check_least(form.max_output_tokens)
    if wanted is not None:
        wanted.check()
    free = wanted is None or wanted.type == "text"
    if form.min_tokens and (offer.open or not free):
        raise least_beside("tools" if offer.open else "a text.format that is enforced")
