"""POST /v1/chat/completions: one request, one session, a branch for each choice.

A prompt that leaves too little room for max_tokens is refused (context_length_exceeded), not cut. Without max_tokens
the answer may use what is left of the context, at most Settings.default_tokens. json_object does not ask for the word
JSON in the messages. finish_reason is 'length' also for an answer that the budget closed: it fits its schema, yet was
cut.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, nullcontext

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ..errors import UnknownModel
from .asking import Enforced, Question
from .body import parse, read_body
from .choices import Choices, answering
from .chunks import Chunks
from .contract import ChatRuntime
from .faults import Faults
from .formats import ResponseFormat
from .gate import Gate
from .metrics import Metrics, Watch
from .replies import ChatCompletion, Choice, Message, finish_of, fresh_id, usage_of
from .requests import ChatRequest, parse_chat
from .settings import Settings
from .stream import EventStream

SMALL_BODY = 64 << 10  # bytes; what takes longer to parse is parsed off the loop, which other streams need
MOST_HEADER = 2048


class ChatService:
    def __init__(
        self, runtime: ChatRuntime, settings: Settings, metrics: Metrics, faults: Faults, gate: Gate
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._metrics = metrics
        self._faults = faults
        self._gate = gate

    async def chat(self, request: Request) -> Response:
        watch = self._metrics.watch()
        chat = await self._read(request)
        if chat.model != self._runtime.model_name:
            raise UnknownModel(
                "there is no model of this name here", where="model", fix=f"Use {self._runtime.model_name!r}."
            )
        question = self._question(chat)
        headers = await self._gate.attend(self._headers(question), request.receive)
        if chat.stream:
            return self._stream(request, chat, question, watch, headers)
        reply = await self._gate.attend(self._whole(chat, question, watch), request.receive)
        return Response(msgspec.json.encode(reply), media_type="application/json", headers=headers)

    async def _read(self, request: Request) -> ChatRequest:
        raw = await read_body(request, self._settings)
        if len(raw) <= SMALL_BODY:
            return parse_chat(parse(raw))
        return await asyncio.to_thread(lambda: parse_chat(parse(raw)))

    async def _headers(self, question: Question) -> dict[str, str]:
        """Compiles the constraint, so that a bad one is refused before a stream begins, whatever the queue."""
        if question.enforced is None:
            return {}
        with self._gate.enter(), question.enforced.refusals():
            notes = (await self._runtime.compile(question.enforced.constraint)).notes
        return {"x-espalier-notes": _header_text("; ".join(notes))} if notes else {}

    async def _whole(self, chat: ChatRequest, question: Question, watch: Watch) -> ChatCompletion:
        async with self._answering(question) as choices, aclosing(choices.chunks()) as chunks:
            async for _ in chunks:
                watch.text()
            answers, usage = choices.answers, choices.usage()
        watch.finished(answers)
        told = tuple(Choice(k, Message(answer.text), finish_of(answer)) for k, answer in enumerate(answers))
        return ChatCompletion(fresh_id(), int(time.time()), chat.model, told, usage_of(usage))

    def _stream(
        self, request: Request, chat: ChatRequest, question: Question, watch: Watch, headers: dict[str, str]
    ) -> EventStream:
        return EventStream(
            self._events(chat, question, watch), gate=self._gate, settings=self._settings,
            describe=lambda cause: self._faults.tell(cause, request.state.request_id), headers=headers,
        )

    async def _events(self, chat: ChatRequest, question: Question, watch: Watch) -> AsyncGenerator[bytes, None]:
        events = Chunks(chat)
        async with self._answering(question) as choices, aclosing(choices.chunks()) as chunks:
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

    def _question(self, chat: ChatRequest) -> Question:
        told = [{"role": message.template_role, "content": message.text} for message in chat.messages]
        return Question(
            form=chat, prompt=lambda session, branch: session.extend_chat(branch, told), where="messages",
            budget=chat.budget, most=self._settings.default_tokens, enforced=_enforced(chat.response_format),
        )


def _enforced(wanted: ResponseFormat | None) -> Enforced | None:
    constraint = None if wanted is None else wanted.constraint()
    return None if wanted is None or constraint is None else Enforced(constraint, wanted.place)


def _header_text(text: str) -> str:
    """Notes quote the caller's keys: no line break or foreign letter of theirs may reach a header as it is."""
    return text.encode("unicode_escape").decode("ascii")[:MOST_HEADER].strip()
