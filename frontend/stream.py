"""A running program as a series of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

from .errors import ProgramError
from .interpreter import Emit, Event
from .loop import LoopThread, ended
from .state import State


class Stream:
    """Iterate it with `for` or `async for`, once. Ends by raising what failed; leaving it early cancels the run."""

    def __init__(self, loop: LoopThread, begin: Callable[[Emit], Coroutine[Any, Any, State]]) -> None:
        self._loop = loop
        self._begin = begin
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._iterated = False
        self._job = loop.start(self._fill)

    async def _fill(self) -> State:
        try:
            return await self._begin(self._events.put_nowait)
        finally:
            self._events.put_nowait(None)

    def _begin_once(self) -> None:
        if self._iterated:
            raise ProgramError("the stream was iterated before", fix="Keep its events in a list, or start another run.")
        self._iterated = True

    def __iter__(self) -> Iterator[Event]:
        self._begin_once()
        try:
            while (event := self._loop.call(self._events.get)) is not None:
                yield event
            self._raise_failure()
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[Event]:
        self._begin_once()
        try:
            while (event := await self._loop.acall(self._events.get)) is not None:
                yield event
            self._raise_failure()
        finally:
            await self.aclose()

    @property
    def state(self) -> State:
        """The final state; waits for the end of the run."""
        return self._job.outcome.result()

    def close(self) -> None:
        """Cancel what still runs, and wait until it has given everything back."""
        self._job.cancel()
        if not self._loop.is_current():  # there, waiting would stop the clean-up itself
            self._job.outcome.exception()

    async def aclose(self) -> None:
        self._job.cancel()
        await ended(self._job.outcome)

    def _raise_failure(self) -> None:
        state = self.state
        if state.error is not None:
            raise state.error
