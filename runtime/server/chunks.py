"""Answers as the events of a stream."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from ..branch import Answer, Chunk
from ..messages import Usage
from .logprobs import ChoiceLogprobs
from .replies import ChatChunk, ChunkChoice, Delta, fresh_id, usage_of
from .requests import ChatRequest
from .writing import ChoiceWriter

DONE = b"data: [DONE]\n\n"


def event(body: msgspec.Struct) -> bytes:
    """JSON has no raw line breaks, so that one data line is enough."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


class Chunks:
    """The chunks of all choices: same id and time in all, the role in the first of each choice only (before any text,
    in the order of the choices: clients make room for a choice when its first chunk comes), usage in the last only."""

    def __init__(self, form: ChatRequest, writers: Sequence[ChoiceWriter]) -> None:
        self._id = fresh_id()
        self._created = int(time.time())
        self._model = form.model
        self._writers = writers
        self._usage = bool(form.stream_options and form.stream_options.include_usage)
        self._opened = False

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        writer = self._writers[choice]
        return self._told(choice, writer.push(chunk.text), writer.logprobs(chunk))

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        writer = self._writers[choice]
        rest = self._told(choice, writer.finish(), None)
        last = ChunkChoice(choice, Delta(), writer.reason(answer), writer.last_logprobs(answer))
        return [*rest, *self._opening(), self._chunk(last)]

    def done(self, usage: Usage) -> list[bytes]:
        if not self._usage:
            return [DONE]
        return [event(ChatChunk(self._id, self._created, self._model, (), usage_of(usage))), DONE]

    def _told(self, choice: int, deltas: Sequence[Delta], logprobs: ChoiceLogprobs | None) -> list[bytes]:
        """Log-probabilities come with the first of what their tokens say, and alone where that is nothing yet."""
        if logprobs is not None and not deltas:
            deltas = [Delta()]
        if not deltas:
            return []
        first, *others = deltas
        told = [ChunkChoice(choice, first, logprobs=logprobs), *(ChunkChoice(choice, delta) for delta in others)]
        return [*self._opening(), *map(self._chunk, told)]

    def _opening(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        opening = Delta(role="assistant", content="")
        return [self._chunk(ChunkChoice(choice, opening)) for choice in range(len(self._writers))]

    def _chunk(self, choice: ChunkChoice) -> bytes:
        usage = None if self._usage else msgspec.UNSET
        return event(ChatChunk(self._id, self._created, self._model, (choice,), usage))
