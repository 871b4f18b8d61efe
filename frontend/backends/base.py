"""The branch protocol: what a backend must do for a program. Everything is async; a branch is an int.

extend appends and computes nothing. fork copies a branch, O(1) whatever its length. generate streams. choose scores.
release gives the branch back. Operations carry only what is new: no text is sent twice.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol

import msgspec

from ...grammars.constraint import Constraint

Branch = int
Role = Literal["system", "user", "assistant"]


class Text(msgspec.Struct, frozen=True, tag="text"):
    """Literal text, appended."""

    text: str


class RoleOpen(msgspec.Struct, frozen=True, tag="role_open"):
    role: Role


class RoleClose(msgspec.Struct, frozen=True, tag="role_close"):
    role: Role


class ChosenText(msgspec.Struct, frozen=True, tag="chosen"):
    """A scored choice. tokens: the ids that were scored, appended as they are; () when the backend has none."""

    text: str
    tokens: tuple[int, ...] = ()


Literals = Text | RoleOpen | RoleClose
Piece = Literals | ChosenText


class GenerateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """seed None: a fresh random one. stop: the answer is cut before the earliest of these strings. stop_ids: tokens
    that end it and are no part of it. min_tokens: nothing ends it before; not beside a constraint. logit_bias: (token
    id, what is added to its logit), each id once."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: Constraint | None = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens: of the branch when the call began, of them reused, of them computed, generated, of them forced."""

    prompt: int = 0
    cached: int = 0
    computed: int = 0
    generated: int = 0
    forced: int = 0


class Chunk(msgspec.Struct, frozen=True):
    text: str


class Answer(msgspec.Struct, frozen=True):
    """The whole text. closed: the budget ended a constrained answer early; it still fits its constraint."""

    text: str
    finish: Literal["stop", "length"]
    usage: Usage = Usage()
    stop: str | None = None
    closed: bool = False


class Scores(msgspec.Struct, frozen=True):
    """totals[k]: log-probability of choice k. best: the first maximum. tokens[k]: its ids; () when there are none."""

    totals: tuple[float, ...]
    best: int
    usage: Usage = Usage()
    tokens: tuple[tuple[int, ...], ...] = ()


class Backend(Protocol):
    """One session: the owner of its branches. Closing it frees everything. All calls come from one event loop."""

    async def open(self) -> None: ...

    async def branch(self) -> Branch: ...

    async def extend(self, branch: Branch, pieces: Sequence[Piece]) -> None: ...

    async def fork(self, branch: Branch, count: int) -> list[Branch]: ...

    def generate(self, branch: Branch, spec: GenerateSpec) -> AsyncGenerator[Chunk | Answer, None]:
        """Chunks as they come, then exactly one Answer. Closing the iterator aborts the generation."""

    async def choose(self, branch: Branch, choices: Sequence[str]) -> Scores: ...

    async def prefill(self, branch: Branch) -> Usage:
        """Compute the branch, so that forks of it share the work."""

    async def release(self, branch: Branch) -> None: ...

    async def close(self) -> None: ...
