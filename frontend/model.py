"""A handle on the place where programs run. It owns the event loop of its programs and opens a session for each run."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from .backends.base import Backend
from .loop import LoopThread


class Model(ABC):
    """Serves any number of runs at once, from any thread. Use as a context manager, or call `close`."""

    def __init__(self) -> None:
        self.loop = LoopThread()

    @abstractmethod
    def session(self) -> Backend:
        """A new session, not yet open. Called on the model's loop."""

    async def shut_down(self) -> None:
        """Free what the handle itself holds; all sessions are closed by then. Nothing, unless a subclass says so."""
        return

    def close(self) -> None:
        """Abort all runs, free everything. Does nothing the second time."""
        self.loop.close(self.shut_down)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
