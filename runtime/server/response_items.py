"""The items of a response as they are written: thoughts, a message, calls; each begins, grows, ends, then the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType, structs

from .replies import CallDelta, Delta
from .response_reply import (
    FunctionCall,
    ItemEvent,
    OutputItem,
    OutputMessage,
    OutputText,
    Part,
    PartEvent,
    Reasoning,
    ReasoningText,
    Status,
    TextEvent,
    fresh,
)

Kind = Literal["reasoning", "message", "call"]
NAMES: dict[Kind, str] = {
    "reasoning": "response.reasoning_text", "message": "response.output_text",
    "call": "response.function_call_arguments",
}


@dataclass(slots=True)
class _Open:
    """The item that grows, without what was written of it so far."""

    kind: Kind
    item: OutputItem
    written: list[str] = field(default_factory=list)


class Items:
    """number: the next sequence number of the stream."""

    def __init__(self, number: Callable[[], int]) -> None:
        self._number = number
        self._done: list[OutputItem] = []
        self._open: _Open | None = None

    def push(self, deltas: Sequence[Delta]) -> Iterator[msgspec.Struct]:
        """The events of what came."""
        for delta in deltas:
            if delta.reasoning_content:
                yield from self._text("reasoning", delta.reasoning_content)
            if delta.content:
                yield from self._text("message", delta.content)
            for call in delta.tool_calls or ():
                yield from self._call(call)

    def finish(self, status: Status) -> Iterator[msgspec.Struct]:
        """Nothing follows: the last item has the status of the response. An answer of nothing is an empty message."""
        if self._open is None and not self._done:
            yield from self._begin("message", OutputMessage(fresh("msg"), "in_progress"))
        yield from self._end(status)

    @property
    def output(self) -> tuple[OutputItem, ...]:
        """After `finish`."""
        return tuple(self._done)

    def _text(self, kind: Kind, text: str) -> Iterator[msgspec.Struct]:
        if self._open is None or self._open.kind != kind:
            made = Reasoning(fresh("rs"), "in_progress") if kind == "reasoning" else (
                OutputMessage(fresh("msg"), "in_progress"))
            yield from self._begin(kind, made)
        yield from self._more(text)

    def _call(self, delta: CallDelta) -> Iterator[msgspec.Struct]:
        function = delta.function
        if function and delta.id:
            item = FunctionCall(fresh("fc"), "in_progress", delta.id, function.name or "")
            yield from self._begin("call", item)
        if function and function.arguments:
            yield from self._more(function.arguments)

    def _begin(self, kind: Kind, item: OutputItem) -> Iterator[msgspec.Struct]:
        yield from self._end("completed")
        self._open = _Open(kind, item)
        yield ItemEvent("response.output_item.added", self._number(), len(self._done), item)
        if kind != "call":
            yield self._part("response.content_part.added", item, _part(kind, ""))

    def _more(self, text: str) -> Iterator[msgspec.Struct]:
        opened = self._open
        if opened is not None:
            opened.written.append(text)
            yield self._event(opened, "delta", delta=text)

    def _end(self, status: Status) -> Iterator[msgspec.Struct]:
        opened, self._open = self._open, None
        if opened is None:
            return
        item, text = opened.item, "".join(opened.written)
        if isinstance(item, FunctionCall):
            yield self._event(opened, "done", name=item.name, arguments=text)
            whole: OutputItem = structs.replace(item, status=status, arguments=text)
        else:
            part = _part(opened.kind, text)
            yield self._event(opened, "done", text=text)
            yield self._part("response.content_part.done", item, part)
            whole = structs.replace(item, status=status, content=(part,))
        yield ItemEvent("response.output_item.done", self._number(), len(self._done), whole)
        self._done.append(whole)

    def _event(self, opened: _Open, what: Literal["delta", "done"], *, delta: str | UnsetType = UNSET,
               text: str | UnsetType = UNSET, name: str | UnsetType = UNSET, arguments: str | UnsetType = UNSET
               ) -> TextEvent:
        called = opened.kind == "call"
        return TextEvent(
            f"{NAMES[opened.kind]}.{what}", self._number(), opened.item.id, len(self._done),
            content_index=UNSET if called else 0, delta=delta, text=text, name=name, arguments=arguments,
            logprobs=() if opened.kind == "message" else UNSET,
        )

    def _part(self, type: str, item: OutputItem, part: Part) -> PartEvent:
        return PartEvent(type, self._number(), item.id, len(self._done), part)


def _part(kind: Kind, text: str) -> Part:
    return ReasoningText(text) if kind == "reasoning" else OutputText(text)
