"""One answer as the events of a stream."""

from __future__ import annotations

import time

import msgspec

from ..branch import Answer
from .replies import ChatChunk, ChunkChoice, Delta, FinishReason, finish_of, fresh_id, usage_of
from .requests import ChatRequest

DONE = b"data: [DONE]\n\n"


def event(body: msgspec.Struct) -> bytes:
    """JSON has no raw line breaks, so that one data line is enough."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


class Chunks:
    """The chunks of one answer: same id and time in all, the role in the first only, usage in the last only."""

    def __init__(self, chat: ChatRequest) -> None:
        self._id = fresh_id()
        self._created = int(time.time())
        self._model = chat.model
        self._usage = bool(chat.stream_options and chat.stream_options.include_usage)
        self._opened = False

    def text(self, text: str) -> list[bytes]:
        return [*self._opening(), self._chunk(Delta(content=text))] if text else []

    def end(self, answer: Answer) -> list[bytes]:
        blocks = [*self._opening(), self._chunk(Delta(), finish_of(answer))]
        if self._usage:
            blocks.append(event(ChatChunk(self._id, self._created, self._model, (), usage_of(answer))))
        return [*blocks, DONE]

    def _opening(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        return [self._chunk(Delta(role="assistant", content=""))]

    def _chunk(self, delta: Delta, reason: FinishReason | None = None) -> bytes:
        usage = None if self._usage else msgspec.UNSET
        return event(ChatChunk(self._id, self._created, self._model, (ChunkChoice(delta, reason),), usage))
