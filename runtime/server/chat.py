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
from .gate import Gate
from .metrics import Metrics, Watch
from .replies import ChatCompletion, Choice, fresh_id, usage_of
from .requests import Chat, ChatRequest, parse_chat
from .settings import Settings
from .stream import EventStream
from .writing import ChoiceWriter

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
        if chat.form.model != self._runtime.model_name:
            raise UnknownModel(
                "there is no model of this name here", where="model", fix=f"Use {self._runtime.model_name!r}."
            )
        question = self._question(chat)
        headers = await self._gate.attend(self._headers(question), request.receive)
        if chat.form.stream:
            return self._stream(request, chat, question, watch, headers)
        reply = await self._gate.attend(self._whole(chat, question, watch), request.receive)
        return Response(msgspec.json.encode(reply), media_type="application/json", headers=headers)

    async def _read(self, request: Request) -> Chat:
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

    async def _whole(self, chat: Chat, question: Question, watch: Watch) -> ChatCompletion:
        writers = self._writers(chat)
        async with self._answering(question) as choices, aclosing(choices.chunks()) as chunks:
            async for choice, chunk in chunks:
                watch.text()
                if chunk is not None:
                    writers[choice].push(chunk.text)
            answers, usage = choices.answers, choices.usage()
        watch.finished(answers)
        for writer in writers:
            writer.finish()
        told = tuple(Choice(k, writer.message(), writer.reason(answer), writer.all_logprobs(answer))
                     for k, (writer, answer) in enumerate(zip(writers, answers, strict=True)))
        return ChatCompletion(fresh_id(), int(time.time()), chat.form.model, told, usage_of(usage))

    def _stream(
        self, request: Request, chat: Chat, question: Question, watch: Watch, headers: dict[str, str]
    ) -> EventStream:
        return EventStream(
            self._events(chat, question, watch), gate=self._gate, settings=self._settings,
            describe=lambda cause: self._faults.tell(cause, request.state.request_id), headers=headers,
        )

    async def _events(self, chat: Chat, question: Question, watch: Watch) -> AsyncGenerator[bytes, None]:
        events = Chunks(chat.form, self._writers(chat))
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

    def _writers(self, chat: Chat) -> list[ChoiceWriter]:
        calls = self._runtime.calls if chat.offer.open else None
        named, spelled = chat.offer.mode == "named", self._runtime.spelled if chat.form.logprobs else None
        return [ChoiceWriter(calls, named=named, spelled=spelled) for _ in range(chat.form.n or 1)]

    def _question(self, chat: Chat) -> Question:
        told, tools = chat.messages, chat.offer.told
        return Question(
            form=chat.form, prompt=lambda session, branch: session.extend_chat(branch, told, tools=tools),
            where="messages", budget=chat.form.budget, most=self._settings.default_tokens,
            enforced=chat.offer.enforced(self._runtime.calls) if chat.offer.open else _enforced(chat.form),
            logprobs=(chat.form.top_logprobs or 0) if chat.form.logprobs else None,
        )


def _enforced(form: ChatRequest) -> Enforced | None:
    wanted = form.response_format
    constraint = None if wanted is None else wanted.constraint()
    return None if wanted is None or constraint is None else Enforced(constraint, wanted.place)


def _header_text(text: str) -> str:
    """Notes quote the caller's keys: no line break or foreign letter of theirs may reach a header as it is."""
    return text.encode("unicode_escape").decode("ascii")[:MOST_HEADER].strip()
