"""The place of one value: written once by the interpreter, read by anyone, from any thread or loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from .backends.base import Answer
from .loop import ended

Reader = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Written:
    """What an operation wrote. answer: of a gen. scores: of a select, log-probability by choice."""

    text: str
    answer: Answer | None = None
    scores: Mapping[str, float] | None = None


class Slot:
    """Writers call `write` or `fail`; the first call counts. Waiting raises the cause of a failure."""

    __slots__ = ("_future", "_read", "_values")

    def __init__(self, read: Reader = str) -> None:
        self._future: Future[Written] = Future()
        self._read = read
        self._values: list[Any] = []

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

    def write(self, written: Written) -> None:
        if not self._future.done():
            self._future.set_result(written)

    def fail(self, cause: Exception) -> None:
        if not self._future.done():
            self._future.set_exception(cause)

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
