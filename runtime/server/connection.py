"""A connection of uvicorn's that does not wait for ever for the head of a request.

uvicorn bounds only the silence between two requests: who sends half a head, or nothing, would keep a socket until the
process has no more of them.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


def connection_class(seconds: float) -> type[H11Protocol]:
    """seconds: from the beginning of the connection, or the end of the answer before, to the end of a head."""

    class Connection(H11Protocol):
        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()  # half a head may be there already

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Its time is not prolonged by more bytes."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._unwatch()
            elif self._patience is None and not self.transport.is_closing():
                self._patience = self.loop.call_later(seconds, self.transport.abort)

        def _unwatch(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

    return Connection
