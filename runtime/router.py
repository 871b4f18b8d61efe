"""Events of the engine to whoever waits for them, each on its own event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence

from ..grammars.errors import EspalierError
from .errors import EngineFault
from .faults import unpack
from .messages import EngineStopped, Event, Failed


class Mailbox:
    """The events of one request, in order. `get` raises the error of a failed request."""

    def __init__(self, request: int) -> None:
        self.request = request
        self.loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event | EspalierError] = asyncio.Queue()

    def put(self, event: Event | EspalierError) -> None:
        """Called on the mailbox's own loop."""
        self._queue.put_nowait(event)

    async def get(self) -> Event:
        event = await self._queue.get()
        if isinstance(event, Failed):
            raise unpack(event)
        if isinstance(event, EspalierError):
            raise event
        return event


class Router:
    """`open` before the command is sent; `close` when nobody listens any more (later events are dropped)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boxes: dict[int, Mailbox] = {}
        self._ids = itertools.count(1)
        self._stopped: str | None = None

    def next_id(self) -> int:
        with self._lock:
            return next(self._ids)

    def open(self) -> Mailbox:
        """Raises EngineFault when the engine has ended."""
        with self._lock:
            if self._stopped is not None:
                raise EngineFault(self._stopped, where="engine", fix="Load the model again.")
            box = Mailbox(next(self._ids))
            self._boxes[box.request] = box
            return box

    def close(self, box: Mailbox) -> None:
        with self._lock:
            self._boxes.pop(box.request, None)

    def deliver(self, events: Sequence[Event]) -> None:
        """Called from a thread of the link: one wake-up per loop, whatever the number of events."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Mailbox, Event | EspalierError]]] = {}
        with self._lock:
            for event in events:
                for box, news in self._addressed(event):
                    by_loop.setdefault(box.loop, []).append((box, news))
        for loop, post in by_loop.items():
            try:
                loop.call_soon_threadsafe(_put_all, post)
            except RuntimeError:  # the loop was closed and its waiters with it: nobody is left to hear
                for box, _ in post:
                    self.close(box)

    def _addressed(self, event: Event) -> list[tuple[Mailbox, Event | EspalierError]]:
        if isinstance(event, EngineStopped):
            self._stopped = self._stopped or event.message  # the first cause is the true one
            return [(box, EngineFault(event.message, where="engine")) for box in self._boxes.values()]
        box = self._boxes.get(event.request)
        return [(box, event)] if box else []


def _put_all(post: Sequence[tuple[Mailbox, Event | EspalierError]]) -> None:
    for box, event in post:
        box.put(event)
