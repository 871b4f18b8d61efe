"""Server-sent events: one block an event, comments while nothing happens, an error event when it fails midway.

The status line waits for the first event, so that a request that fails at once gets a status of its own; after one
heartbeat of silence the stream opens anyway. Nothing is compressed: a compressor would hold tokens back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import ClientGone, Problem
from .gate import Gate
from .settings import Settings

COMMENT = b": waiting\n\n"


class EventStream(Response):
    """Sends `events` (not begun yet: nothing is held when this response is never sent). describe: what the client is
    told about a failure after the start."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[bytes, None], *, gate: Gate, settings: Settings,
        describe: Callable[[Exception], Problem], headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self._events = events
        self._gate = gate
        self._settings = settings
        self._describe = describe
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._gate.attend(self._pump(send), receive)
        except ClientGone:
            raise
        except Exception as cause:
            if not self._started:
                raise
            await self._send(send, b"data: " + self._describe(cause).encode() + b"\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        heartbeat = self._settings.heartbeat_seconds
        async with aclosing(self._events), aclosing(paced(self._events, heartbeat)) as blocks:
            async for block in blocks:
                await self._send(send, COMMENT if block is None else block)

    async def _send(self, send: Send, block: bytes) -> None:
        """A client that does not read holds memory of the engine: after a while it counts as gone."""
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await send({"type": "http.response.body", "body": block, "more_body": True})
        except TimeoutError:
            raise ClientGone from None


async def paced(events: AsyncIterator[bytes], seconds: float) -> AsyncGenerator[bytes | None, None]:
    """The events, and None for every `seconds` without one."""
    while True:
        pending = asyncio.ensure_future(_next(events))
        try:
            while not (await asyncio.wait({pending}, timeout=seconds))[0]:
                yield None
            block = pending.result()
        finally:
            pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
        if block is None:
            return
        yield block


async def _next(events: AsyncIterator[bytes]) -> bytes | None:
    return await anext(events, None)
