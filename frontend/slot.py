"""The place of one value: written once by the interpreter, read by anyone, from any thread or loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .backends.base import Answer
from .loop import ended

if TYPE_CHECKING:
    from .partial import Partial

Reader = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What an operation wrote. answer: of a gen. scores: of a select, log-probability by choice."""

    text: str
    answer: Answer | None = None
    scores: Mapping[str, float] | None = None


class Slot:
    """Writers call `add` for each piece as it comes, then `write` or `fail`; the first of these calls counts. Waiting
    raises the cause of a failure. json: what is written is JSON."""

    __slots__ = ("_future", "_json", "_listeners", "_pieces", "_read", "_values")

    def __init__(self, read: Reader = str, *, json: bool = False) -> None:
        self._future: Future[Written] = Future()
        self._read = read
        self._json = json
        self._values: list[Any] = []
        self._pieces: list[str] = []
        self._listeners: list[asyncio.Queue[str | None]] = []

    @classmethod
    def holding(cls, value: Any) -> Slot:
        """A slot that has its value already."""
        slot = cls()
        slot._values.append(value)
        slot._future.set_result(Written(str(value)))
        return slot

    @property
    def done(self) -> bool:
        return self._future.done()

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        for listener in self._listeners:
            listener.put_nowait(piece)

    def write(self, written: Written) -> None:
        if not self._future.done():
            self._future.set_result(written)
            self._end()

    def fail(self, cause: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(cause)
            self._end()

    def _end(self) -> None:
        for listener in self._listeners:
            listener.put_nowait(None)
        self._pieces, self._listeners = [], []

    def listen(self) -> asyncio.Queue[str | None]:
        """The pieces so far and those that come, then None. Called on the event loop that writes."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        for piece in self._pieces:
            queue.put_nowait(piece)
        if self._future.done():
            queue.put_nowait(None)
        else:
            self._listeners.append(queue)
        return queue

    def partial(self) -> Partial:
        """Reads the pieces as they come."""
        from .partial import PartialJson, PartialText  # here, because few programs watch an answer grow

        return PartialJson() if self._json else PartialText()

    def wait(self) -> Written:
        """Blocks. Never called on the event loop that writes."""
        return self._future.result()

    async def written(self) -> Written:
        await self.settled()
        return self._future.result()

    async def settled(self) -> None:
        """Wait for the write or the failure; raise neither."""
        await ended(self._future)

    def value(self) -> Any:
        """The typed value of a slot that is done; read once, in the thread of the first reader.

        Raises what the reader raises, for example a validator of the user's own class.
        """
        if not self._values:
            self._values.append(self._read(self._future.result().text))
        return self._values[0]
