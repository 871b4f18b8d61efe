"""The outermost layer: every answer gets its request id, and nothing that was raised leaves as text."""

from __future__ import annotations

import re
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import ClientGone
from .faults import Faults


class Edge:
    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        started = False

        async def signed(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, signed)
        except ClientGone:
            self._faults.gone()
        except Exception as cause:
            problem = self._faults.tell(cause, request_id)
            if started:
                raise  # the web server closes the connection: all that can still be said
            headers = [(name.encode(), value.encode()) for name, value in problem.headers.items()]
            headers.append((b"content-type", b"application/json"))
            await signed({"type": "http.response.start", "status": problem.status, "headers": headers})
            await signed({"type": "http.response.body", "body": problem.encode(), "more_body": False})


def _request_id(scope: Scope) -> str:
    """The caller's id, when it is short and plain; else a fresh one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    if re.fullmatch(rb"[A-Za-z0-9._:-]{1,128}", given):
        return str(given, "ascii")
    return f"req_{uuid.uuid4().hex}"
