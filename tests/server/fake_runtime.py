"""A runtime without a model: the last message names the script that the answer follows. Each token is one chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from espalier.grammars.constraint import Constraint
from espalier.runtime.branch import Answer, Chunk, GenerateSpec, Piece, Text
from espalier.runtime.call_format import OWN, CallFormat
from espalier.runtime.conversation import Message, Tool
from espalier.runtime.errors import EngineFault
from espalier.runtime.messages import Stats, TokenLogprob, Usage
from espalier.runtime.thinking import Thinking
from espalier.runtime.words import NO_SWITCHES

CONTEXT = 512


@dataclass(frozen=True, slots=True)
class Script:
    """pieces: one a token. then: raised after them (before the first one when there are none). endless: the pieces come
    again and again. wait: seconds before each piece. closed: the budget ended it."""

    pieces: tuple[str, ...] = ("Hello", " there", "!")
    then: Exception | None = None
    endless: bool = False
    wait: float = 0.0
    closed: bool = False


@dataclass(slots=True)
class Call:
    """What the server handed over."""

    messages: list[tuple[str, str]]
    spec: GenerateSpec


@dataclass(slots=True)
class FakeRuntime:
    scripts: Mapping[str, Script] = field(default_factory=dict)
    model_name: str = "org/tiny"
    context: int = CONTEXT
    calls: CallFormat = OWN
    thinking: Thinking | None = None
    switches: frozenset[str] = frozenset()
    asked: list[Call] = field(default_factory=list)
    open_sessions: int = 0
    running: int = 0
    dead: bool = False
    notes: tuple[str, ...] = ()

    def spelled(self, token: int) -> bytes:
        return b"%d" % token

    def session(self, salt: str = "") -> FakeSession:
        self.open_sessions += 1
        return FakeSession(self)

    async def compile(self, constraint: Constraint) -> FakeRuntime:
        return self

    async def stats(self) -> Stats:
        if self.dead:
            raise EngineFault("CANARY the engine is gone")
        return Stats(
            request=0, pages_free=5, pages_cached=2, pages_held=1, pages_total=8, running=self.running, waiting=0,
            steps=3, tokens_in=10, tokens_cached=4, tokens_computed=6, tokens_out=7, tokens_forced=2, host_s=0.5,
            model_s=1.5,
        )


class FakeSession:
    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime
        self._messages: list[tuple[str, str]] = []

    def branch(self) -> int:
        return 1

    def extend_chat(
        self, branch: int, messages: Sequence[Message], generation_prompt: bool = True, tools: Sequence[Tool] = (),
        switches: Mapping[str, bool] = NO_SWITCHES,
    ) -> None:
        messages = self._runtime.calls.folded(messages, tools)
        self._messages += [(message.role, message.content) for message in messages]

    def thinks(self, branch: int, begin: bool = False) -> bool:
        return False

    def length(self, branch: int) -> int:
        return sum(len(content.split()) + 1 for _, content in self._messages)

    async def prefill(self, branch: int) -> Usage:
        return Usage(prompt=self.length(branch), cached=3)

    def extend(self, branch: int, pieces: Sequence[Piece]) -> None:
        self._messages += [("prompt", piece.text) for piece in pieces if isinstance(piece, Text) and piece.text]

    def tokens(self, branch: int) -> list[int]:
        return list(range(self.length(branch)))

    async def score(self, branch: int, top: int = 0) -> tuple[TokenLogprob, ...]:
        return tuple(TokenLogprob(-1.0) for _ in range(self.length(branch) - 1))

    def fork(self, branch: int, count: int) -> list[int]:
        return [branch] * count

    def generate(self, branch: int, spec: GenerateSpec) -> FakeGeneration:
        self._runtime.asked.append(Call(self._messages, spec))
        script = self._runtime.scripts.get(self._messages[-1][1], Script())
        return FakeGeneration(self._runtime, script, spec, self.length(branch))

    def close(self) -> None:
        self._runtime.open_sessions -= 1


class FakeGeneration:
    def __init__(self, runtime: FakeRuntime, script: Script, spec: GenerateSpec, prompt: int) -> None:
        self._runtime = runtime
        self._script = script
        self._spec = spec
        self._prompt = prompt
        self._written: list[str] = []
        self._ended = False
        runtime.running += 1

    @property
    def answer(self) -> Answer:
        whole = not self._script.endless and len(self._written) == len(self._script.pieces)
        usage = Usage(prompt=self._prompt, cached=3, generated=len(self._written), forced=1)
        return Answer("".join(self._written), (), "stop" if whole else "length", usage, closed=self._script.closed)

    def __aiter__(self) -> FakeGeneration:
        return self

    async def __anext__(self) -> Chunk:
        script, at = self._script, len(self._written)
        await asyncio.sleep(script.wait)
        if at < self._spec.max_tokens and (script.endless or at < len(script.pieces)):
            self._written.append(script.pieces[at % len(script.pieces)])
            return Chunk(self._written[-1], (at,))
        await self.aclose()
        if script.then is not None:
            raise script.then
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if not self._ended:
            self._ended = True
            self._runtime.running -= 1
