"""Answers as the events of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from ..branch import Answer, Chunk
from ..messages import Usage
from .envelope import Envelope
from .logprobs import ChoiceLogprobs
from .replies import ChatChunk, ChunkChoice, Delta, fresh_id
from .requests import ChatRequest
from .writing import ChoiceWriter


class Chunks:
    """The chunks of all choices: the role in the first of each choice only (before any text, in the order of the
    choices: clients make room for a choice when its first chunk comes)."""

    def __init__(self, form: ChatRequest, writers: Sequence[ChoiceWriter]) -> None:
        self._envelope = Envelope(ChatChunk, fresh_id(), form)
        self._writers = writers
        self._opened = False

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        writer = self._writers[choice]
        return self._told(choice, writer.push(chunk.text), writer.logprobs(chunk))

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        writer = self._writers[choice]
        rest = self._told(choice, writer.finish(), None)
        last = ChunkChoice(choice, Delta(), writer.reason(answer), writer.last_logprobs(answer))
        return [*rest, *self._opening(), self._envelope.chunk(last)]

    def done(self, usage: Usage) -> list[bytes]:
        return self._envelope.done(usage)

    def _told(self, choice: int, deltas: Sequence[Delta], logprobs: ChoiceLogprobs | None) -> list[bytes]:
        """Log-probabilities come with the first of what their tokens say, and alone where that is nothing yet."""
        if logprobs is not None and not deltas:
            deltas = [Delta()]
        if not deltas:
            return []
        first, *others = deltas
        told = [ChunkChoice(choice, first, logprobs=logprobs), *(ChunkChoice(choice, delta) for delta in others)]
        return [*self._opening(), *map(self._envelope.chunk, told)]

    def _opening(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        opening = Delta(role="assistant", content="")
        return [self._envelope.chunk(ChunkChoice(choice, opening)) for choice in range(len(self._writers))]
