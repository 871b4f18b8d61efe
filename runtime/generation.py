"""One answer as it is generated: an async iterator of chunks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from .answering import Cut, Writer
from .branch import Answer, Chunk
from .errors import EngineFault, RequestAborted
from .messages import Abort, Command, Event, Finished, Tokens, Usage
from .router import Mailbox, Router


@dataclass(frozen=True, slots=True)
class Started:
    """box: where the events of the request come."""

    box: Mailbox
    writer: Writer


class Generation:
    """Starts at the first `__anext__`. `answer` is there once the iterator is exhausted.

    Until then the branch is busy. An answer that fails or is closed early leaves the branch as it was before; closing
    it aborts the work and frees its memory within one step.
    """

    def __init__(self, *, start: Callable[[], Awaitable[Started]], settle: Callable[[Cut | None], None],
                 send: Callable[[Command], None], router: Router) -> None:
        """start: sends the request. settle: the branch takes over what stays of the answer (None: nothing)."""
        self._start = start
        self._settle = settle
        self._send = send
        self._router = router
        self._started: Started | None = None
        self._ended = False
        self._stopping = False
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """Raises RequestAborted while the answer is not there."""
        if self._answer is None:
            raise RequestAborted("the answer is not complete", fix="Read the generation to its end first.")
        return self._answer

    def __aiter__(self) -> Generation:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ended:
            try:
                chunk = await self._next()
            except Exception:
                self._give_up()
                raise
            if chunk is not None:
                return chunk
        raise StopAsyncIteration

    async def _next(self) -> Chunk | None:
        """One event; the first call sends the request."""
        if self._started is None:
            self._started = await self._start()
        return self._digest(await self._started.box.get(), self._started.writer)

    async def aclose(self) -> None:
        self._give_up()

    def __del__(self) -> None:
        """Dropped without `aclose`: the work is aborted all the same (law 7)."""
        self._give_up()

    def _give_up(self) -> None:
        """Failed, or left: nothing of the answer stays."""
        if not self._ended:
            self._ended = True
            if self._started is not None:
                self._send(Abort(self._started.box.request))
                self._router.close(self._started.box)
            self._settle(None)

    def _digest(self, event: Event, writer: Writer) -> Chunk | None:
        if isinstance(event, Tokens):
            chunk = writer.push(event.tokens, event.logprobs)
            if writer.stop is not None and not self._stopping:
                self._stopping = True
                self._send(Abort(event.request))  # its Finished brings the usage
            return chunk
        if isinstance(event, Finished):
            return self._finish(event, writer)
        raise EngineFault(f"a generation was sent {type(event).__name__}", where="session")

    def _finish(self, event: Finished, writer: Writer) -> Chunk | None:
        if event.reason == "aborted" and writer.stop is None:
            raise RequestAborted("the request was aborted")
        chunk = writer.finish()
        cut = writer.cut()
        finish: Literal["stop", "length"] = "length" if event.reason == "length" and writer.stop is None else "stop"
        self._settle(cut)
        self._answer = Answer(
            text=writer.text, tokens=cut.tokens, finish=finish, usage=_usage(event, writer), stop=writer.stop,
            closed=event.closed and writer.stop is None, logprobs=cut.logprobs,
        )
        self._ended = True
        if self._started is not None:
            self._router.close(self._started.box)
        return chunk


def _usage(event: Finished, writer: Writer) -> Usage:
    """How far the engine ran past a stop string before it heard of it depends on timing: that is not counted."""
    generated = event.usage.generated if writer.stop is None else writer.read
    return structs.replace(event.usage, generated=generated, thoughts=writer.thoughts)
