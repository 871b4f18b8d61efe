"""Answers as the events of a stream."""

from __future__ import annotations

import time

import msgspec

from ..branch import Answer, Chunk
from ..messages import Usage
from .replies import ChatChunk, ChunkChoice, Delta, FinishReason, finish_of, fresh_id, usage_of
from .requests import ChatRequest

DONE = b"data: [DONE]\n\n"


def event(body: msgspec.Struct) -> bytes:
    """JSON has no raw line breaks, so that one data line is enough."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


class Chunks:
    """The chunks of all choices: same id and time in all, the role in the first of each choice only (before any text,
    in the order of the choices: clients make room for a choice when its first chunk comes), usage in the last only."""

    def __init__(self, chat: ChatRequest) -> None:
        self._id = fresh_id()
        self._created = int(time.time())
        self._model = chat.model
        self._count = chat.n or 1
        self._usage = bool(chat.stream_options and chat.stream_options.include_usage)
        self._opened = False

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        return [*self._opening(), self._chunk(choice, Delta(content=chunk.text))] if chunk.text else []

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        return [*self._opening(), self._chunk(choice, Delta(), finish_of(answer))]

    def done(self, usage: Usage) -> list[bytes]:
        if not self._usage:
            return [DONE]
        return [event(ChatChunk(self._id, self._created, self._model, (), usage_of(usage))), DONE]

    def _opening(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        return [self._chunk(choice, Delta(role="assistant", content="")) for choice in range(self._count)]

    def _chunk(self, choice: int, delta: Delta, reason: FinishReason | None = None) -> bytes:
        usage = None if self._usage else msgspec.UNSET
        return event(ChatChunk(self._id, self._created, self._model, (ChunkChoice(choice, delta, reason),), usage))
