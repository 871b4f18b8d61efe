"""A response as it is written: the events of a stream, and the whole of it."""

from __future__ import annotations

import itertools

import msgspec
from msgspec import structs

from ..branch import Answer, Chunk
from ..messages import Usage
from .replies import finish_of
from .response_items import Items
from .response_reply import Incomplete, Response, ResponseEvent, Status, response_usage
from .writing import ChoiceWriter


class ResponseEvents:
    """The blocks of a stream, each with its number."""

    def __init__(self, response: Response, writer: ChoiceWriter) -> None:
        self._numbers = itertools.count()
        self._response = response
        self._writer = writer
        self._items = Items(lambda: next(self._numbers))
        self._opened = False
        self._answer: Answer | None = None

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        return [*self._opening(), *map(block, self.told(chunk))]

    def told(self, chunk: Chunk) -> list[msgspec.Struct]:
        return list(self._items.push(self._writer.push(chunk.text)))

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        self._answer = answer
        return [*self._opening(), *map(block, self._ended(answer))]

    def _ended(self, answer: Answer) -> list[msgspec.Struct]:
        status: Status = "completed" if finish_of(answer) == "stop" else "incomplete"
        return [*self._items.push(self._writer.finish()), *self._items.finish(status)]

    def complete(self, answer: Answer, usage: Usage) -> Response:
        """Of an answer that was told to its last chunk."""
        self._ended(answer)
        return self._whole(answer, usage)

    def _whole(self, answer: Answer, usage: Usage) -> Response:
        cut = finish_of(answer) == "length"
        return structs.replace(
            self._response, status="incomplete" if cut else "completed", output=self._items.output,
            usage=response_usage(usage), incomplete_details=Incomplete() if cut else None,
        )

    def done(self, usage: Usage) -> list[bytes]:
        if self._answer is None:
            return []
        whole = self._whole(self._answer, usage)
        return [block(ResponseEvent(f"response.{whole.status}", next(self._numbers), whole))]

    def _opening(self) -> list[bytes]:
        if self._opened:
            return []
        self._opened = True
        kinds = ("response.created", "response.in_progress")
        return [block(ResponseEvent(kind, next(self._numbers), self._response)) for kind in kinds]


def block(event: msgspec.Struct) -> bytes:
    """Named, as OpenAI's are; JSON has no raw line breaks, so that one data line is enough."""
    name: str = event.type  # type: ignore[attr-defined]
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
