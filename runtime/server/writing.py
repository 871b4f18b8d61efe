"""One choice as it is generated: its deltas, and the message that they make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from ..branch import Answer, Chunk
from ..call_format import CallFormat
from ..thinking import Part, ThoughtReader, Thoughts
from .call_reader import Arguments, Begun, CallReader, Content, News
from .logprobs import ChoiceLogprobs, Spelled, told
from .replies import (
    CallDelta,
    CalledFunction,
    Delta,
    FinishReason,
    FunctionDelta,
    Message,
    ToolCall,
    finish_of,
    fresh_call_id,
)


@dataclass(slots=True)
class _Written:
    """A call, as far as it came."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class ChoiceWriter:
    """calls: how calls are read; None: everything is content. named: the request names the one function that is
    called, which OpenAI does not count as the model's decision to call."""

    def __init__(
        self, calls: CallFormat | None, *, named: bool = False, spelled: Spelled | None = None,
        thoughts: Thoughts | None = None, whole: bool = False,
    ) -> None:
        """spelled: of tokens, where their log-probabilities are told. thoughts: how the answer thinks first. whole: one
        with calls has no content."""
        self._parted = None if thoughts is None else ThoughtReader(thoughts)
        self._thoughts: list[str] = []
        self._reader = None if calls is None else CallReader(calls, whole=whole)
        self._named = named
        self._spelled = spelled
        self._told = 0  # tokens whose log-probabilities a stream has told
        self._content: list[str] = []
        self._calls: list[_Written] = []

    def push(self, text: str) -> list[Delta]:
        return self._read(text) if self._parted is None else self._of(self._parted.push(text))

    def finish(self) -> list[Delta]:
        """No text follows."""
        last = [] if self._parted is None else self._of(self._parted.finish())
        return last + ([] if self._reader is None else self._deltas(self._reader.finish()))

    def _of(self, parts: Sequence[Part]) -> list[Delta]:
        deltas: list[Delta] = []
        for part in parts:
            if part.kind == "thoughts":
                self._thoughts.append(part.text)
                deltas.append(Delta(reasoning_content=part.text))
            elif part.kind == "content":
                deltas += self._read(part.text)
        return deltas

    def _read(self, text: str) -> list[Delta]:
        return self._deltas([Content(text)] if self._reader is None else self._reader.push(text))

    def _deltas(self, news: Sequence[News]) -> list[Delta]:
        return [delta for one in news if (delta := self._delta(one)) is not None]

    def _delta(self, news: News) -> Delta | None:
        match news:
            case Content(text):
                self._content.append(text)
                return Delta(content=text) if text else None
            case Begun(index, name):
                call = _Written(fresh_call_id(), name)
                self._calls.append(call)
                return Delta(tool_calls=(CallDelta(index, call.id, "function", FunctionDelta(name, "")),))
            case Arguments(index, text):
                self._calls[index].arguments.append(text)
                return Delta(tool_calls=(CallDelta(index, function=FunctionDelta(arguments=text)),))

    def logprobs(self, chunk: Chunk) -> ChoiceLogprobs | None:
        """Those of a stream's next chunk."""
        if self._spelled is None or not chunk.tokens:
            return None
        self._told += len(chunk.tokens)
        return told(chunk.tokens, chunk.logprobs, self._spelled)

    def last_logprobs(self, answer: Answer) -> ChoiceLogprobs | None:
        """Those that no chunk had: tokens held back before a stop string."""
        if self._spelled is None or len(answer.tokens) <= self._told:
            return None
        return told(answer.tokens[self._told:], answer.logprobs[self._told:], self._spelled)

    def all_logprobs(self, answer: Answer) -> ChoiceLogprobs | None:
        return None if self._spelled is None else told(answer.tokens, answer.logprobs, self._spelled)

    def message(self) -> Message:
        """After `finish`."""
        content = "".join(self._content)
        calls = tuple(ToolCall(call.id, CalledFunction(call.name, "".join(call.arguments))) for call in self._calls)
        return Message(None if calls and not content else content, tool_calls=calls or UNSET,
                       reasoning_content="".join(self._thoughts) or UNSET)

    def reason(self, answer: Answer) -> FinishReason:
        reason = finish_of(answer)
        return "tool_calls" if reason == "stop" and self._calls and not self._named else reason
