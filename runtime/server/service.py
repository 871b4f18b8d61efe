"""From a request to its reply or stream, the same for every endpoint that generates: one request, one session, a
branch for each choice.

A prompt that leaves too little room for max_tokens is refused (context_length_exceeded), not cut. finish_reason is
'length' also for an answer that the budget closed: it fits its constraint, yet was cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..branch import Answer, Chunk
from ..errors import UnknownModel
from ..messages import Usage
from .asking import Question
from .body import Bodies, Json, parse
from .choices import Choices, answering
from .contract import ChatRuntime
from .faults import Faults
from .gate import Gate
from .metrics import Metrics, Watch
from .settings import Settings
from .stream import EventStream

SMALL_BODY = 64 << 10  # bytes; what takes longer to parse is parsed off the loop, which other streams need
MOST_HEADER = 2048


class Events(Protocol):
    """The blocks of a stream."""

    def text(self, choice: int, chunk: Chunk) -> list[bytes]: ...
    def end(self, choice: int, answer: Answer) -> list[bytes]: ...
    def done(self, usage: Usage) -> list[bytes]: ...


class Job(Protocol):
    """A request that was read, and how its answers are told."""

    @property
    def question(self) -> Question: ...

    def reply(self, choices: Choices) -> msgspec.Struct:
        """Once all choices are complete."""

    def events(self, choices: Choices) -> Events: ...


class Service:
    def __init__(
        self, runtime: ChatRuntime, settings: Settings, metrics: Metrics, faults: Faults, gate: Gate
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._metrics = metrics
        self._faults = faults
        self._gate = gate
        self._bodies = Bodies(settings)

    async def answer(self, request: Request, read: Callable[[Json], Job]) -> Response:
        watch = self._metrics.watch()
        job = await self._read(request, read)
        form = job.question.form
        if form.model != self._runtime.model_name:
            raise UnknownModel(
                "there is no model of this name here", where="model", fix=f"Use {self._runtime.model_name!r}."
            )
        headers = await self._gate.attend(self._headers(job.question), request.receive)
        if form.stream:
            return EventStream(
                self._events(job, watch), gate=self._gate, settings=self._settings,
                describe=lambda cause: self._faults.tell(cause, request.state.request_id), headers=headers,
            )
        reply = await self._gate.attend(self._whole(job, watch), request.receive)
        return Response(msgspec.json.encode(reply), media_type="application/json", headers=headers)

    async def _read(self, request: Request, read: Callable[[Json], Job]) -> Job:
        raw = await self._bodies.read(request)
        if len(raw) <= SMALL_BODY:
            return read(parse(raw))
        return await asyncio.to_thread(lambda: read(parse(raw)))

    async def _headers(self, question: Question) -> dict[str, str]:
        """Compiles the constraint, so that a bad one is refused before a stream begins, whatever the queue."""
        if question.enforced is None:
            return {}
        with self._gate.enter(), question.enforced.refusals():
            notes = (await self._runtime.compile(question.enforced.constraint)).notes
        return {"x-espalier-notes": _header_text("; ".join(notes))} if notes else {}

    async def _whole(self, job: Job, watch: Watch) -> msgspec.Struct:
        async with self._answering(job.question) as choices, aclosing(choices.chunks()) as chunks:
            async for _ in chunks:
                watch.text()
            watch.finished(choices.answers)
            return job.reply(choices)

    async def _events(self, job: Job, watch: Watch) -> AsyncGenerator[bytes, None]:
        async with self._answering(job.question) as choices, aclosing(choices.chunks()) as chunks:
            events = job.events(choices)
            async for choice, chunk in chunks:
                watch.text()
                told = events.end(choice, choices.answer(choice)) if chunk is None else events.text(choice, chunk)
                for block in told:
                    yield block
            answers, usage = choices.answers, choices.usage()
        watch.finished(answers)
        for block in events.done(usage):
            yield block

    @asynccontextmanager
    async def _answering(self, question: Question) -> AsyncIterator[Choices]:
        with question.enforced.refusals() if question.enforced else nullcontext():
            async with answering(self._runtime, self._gate, question) as choices:
                yield choices


def _header_text(text: str) -> str:
    """Notes quote the caller's keys: no line break or foreign letter of theirs may reach a header as it is."""
    return text.encode("unicode_escape").decode("ascii")[:MOST_HEADER].strip()
