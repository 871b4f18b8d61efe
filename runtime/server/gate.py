"""Who is inside: how many requests are held, and how the door closes at shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.types import Receive

from ..errors import Overloaded
from .errors import ClientGone, ShuttingDown

T = TypeVar("T")


class Gate:
    """At most `capacity` answers at once (one request alone may have more). After `drain` began, nobody comes in; those
    inside may finish in time."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._expired = asyncio.Event()
        self.closing = False

    @contextmanager
    def enter(self, places: int = 1) -> Iterator[None]:
        """places: as many as the request has choices. Raises ShuttingDown or Overloaded."""
        if self.closing:
            raise ShuttingDown
        if self._inside and self._inside + places > self._capacity:
            raise Overloaded(f"{self._inside} requests are being held already", fix="Try again later.")
        self._inside += places
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= places
            if self._inside == 0:
                self._empty.set()

    async def drain(self, seconds: float) -> None:
        """Close the door and wait; what is still running after `seconds` fails with ShuttingDown."""
        self.closing = True
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            self.expire()
            await self._empty.wait()

    def expire(self) -> None:
        """What is running fails now."""
        self._expired.set()

    async def attend(self, work: Coroutine[Any, Any, T], receive: Receive) -> T:
        """The result of `work`, as long as somebody waits for it: raises ClientGone when the client closed its
        connection first, and ShuttingDown when the door's time is up. `work` has ended when this returns."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnect(receive))
        late = asyncio.ensure_future(self._expired.wait())
        try:
            await asyncio.wait({task, gone, late}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone if gone.done() else ShuttingDown
        finally:
            for each in (task, gone, late):
                each.cancel()
            await asyncio.gather(task, gone, late, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
