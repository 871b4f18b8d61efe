"""POST /v1/chat/completions: one request, one session, one branch.

A prompt that leaves too little room for max_tokens is refused (context_length_exceeded), not cut. Without max_tokens
the answer may use what is left of the context, at most Settings.default_tokens. json_object does not ask for the word
JSON in the messages. finish_reason is 'length' also for an answer that the budget closed: it fits its schema, yet was
cut.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...grammars.constraint import AnyObject, Constraint, JsonSchema
from ..branch import GenerateSpec
from ..errors import PromptTooLong, UnknownModel
from .body import parse, read_body
from .chunks import Chunks
from .contract import ChatRuntime, Generation
from .faults import Faults
from .gate import Gate
from .metrics import Metrics, Watch
from .replies import ChatCompletion, Choice, Message, finish_of, fresh_id, usage_of
from .requests import ChatRequest, ResponseFormat, parse_chat
from .settings import Settings
from .stream import EventStream

SMALL_BODY = 64 << 10  # bytes; what takes longer to parse is parsed off the loop, which other streams need
MOST_HEADER = 2048
LEAST_TOP_P = 1e-9  # OpenAI takes 0, a sampler needs something to choose from
SCHEMA_ENCODER = msgspec.json.Encoder(decimal_format="number")


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
        headers = await self._gate.attend(self._headers(chat), request.receive)
        if chat.stream:
            return self._stream(request, chat, watch, headers)
        reply = await self._gate.attend(self._whole(chat, watch), request.receive)
        return Response(msgspec.json.encode(reply), media_type="application/json", headers=headers)

    async def _read(self, request: Request) -> ChatRequest:
        raw = await read_body(request, self._settings)
        if len(raw) <= SMALL_BODY:
            return parse_chat(parse(raw))
        return await asyncio.to_thread(lambda: parse_chat(parse(raw)))

    async def _headers(self, chat: ChatRequest) -> dict[str, str]:
        """Compiles the constraint, so that a bad one is refused before a stream begins, whatever the queue."""
        constraint = _constraint(chat.response_format)
        if constraint is None:
            return {}
        with self._gate.enter():
            notes = (await self._runtime.compile(constraint)).notes
        return {"x-espalier-notes": _header_text("; ".join(notes))} if notes else {}

    async def _whole(self, chat: ChatRequest, watch: Watch) -> ChatCompletion:
        async with self._generation(chat) as generation:
            async for _ in generation:
                watch.text()
            answer = generation.answer
        watch.finished(answer)
        choice = Choice(Message(answer.text), finish_of(answer))
        return ChatCompletion(fresh_id(), int(time.time()), chat.model, (choice,), usage_of(answer))

    def _stream(self, request: Request, chat: ChatRequest, watch: Watch, headers: dict[str, str]) -> EventStream:
        return EventStream(
            self._events(chat, watch), gate=self._gate, settings=self._settings,
            describe=lambda cause: self._faults.tell(cause, request.state.request_id), headers=headers,
        )

    async def _events(self, chat: ChatRequest, watch: Watch) -> AsyncGenerator[bytes, None]:
        chunks = Chunks(chat)
        async with self._generation(chat) as generation:
            async for chunk in generation:
                watch.text()
                for block in chunks.text(chunk.text):
                    yield block
            answer = generation.answer
        watch.finished(answer)
        for block in chunks.end(answer):
            yield block

    @asynccontextmanager
    async def _generation(self, chat: ChatRequest) -> AsyncIterator[Generation]:
        """Whatever way the scope is left, the session is closed and its memory is free."""
        with self._gate.enter():
            session = self._runtime.session()
            try:
                branch = session.branch()
                told = [{"role": message.template_role, "content": message.text} for message in chat.messages]
                await asyncio.to_thread(session.extend_chat, branch, told)  # renders a template: not on the loop
                spec = self._spec(chat, session.length(branch))
                async with aclosing(session.generate(branch, spec)) as generation:
                    yield generation
            finally:
                session.close()

    def _spec(self, chat: ChatRequest, prompt: int) -> GenerateSpec:
        return GenerateSpec(
            max_tokens=self._budget(chat.budget, prompt),
            temperature=1.0 if chat.temperature is None else chat.temperature,
            top_p=1.0 if chat.top_p is None else max(chat.top_p, LEAST_TOP_P),
            seed=chat.seed,
            stop=tuple(chat.stop or ()),
            constraint=_constraint(chat.response_format),
        )

    def _budget(self, wanted: int | None, prompt: int) -> int:
        room = self._runtime.context - prompt
        if room < (wanted or 1):
            raise PromptTooLong(
                f"the prompt has {prompt} tokens and the answer may have {wanted or 1}, but the context is "
                f"{self._runtime.context} tokens",
                where="messages", fix="Shorten the messages or lower max_tokens.",
            )
        return wanted if wanted is not None else min(room, self._settings.default_tokens)


def _constraint(wanted: ResponseFormat | None) -> Constraint | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.json_schema is None:
        return AnyObject()
    return JsonSchema(SCHEMA_ENCODER.encode(wanted.json_schema.schema_).decode())


def _header_text(text: str) -> str:
    """Notes quote the caller's keys: no line break or foreign letter of theirs may reach a header as it is."""
    return text.encode("unicode_escape").decode("ascii")[:MOST_HEADER].strip()
