"""What the server asks of a runtime. `runtime.Runtime` has it; tests may bring something smaller."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from ...grammars.constraint import Constraint
from ..branch import Answer, BranchId, Chunk, GenerateSpec, Piece
from ..call_format import CallFormat
from ..conversation import Message, Tool
from ..messages import Stats, TokenLogprob, Usage
from ..thinking import Thinking
from ..words import NO_SWITCHES, Switches


class Generation(Protocol):
    """Chunks as they come; `answer` once they ended. `aclose` before the end aborts the work and frees its memory."""

    @property
    def answer(self) -> Answer: ...

    def __aiter__(self) -> Generation: ...

    async def __anext__(self) -> Chunk: ...

    async def aclose(self) -> None: ...


class ChatSession(Protocol):
    """The owner of one request's branches. Closing it frees all that the request holds."""

    def branch(self) -> BranchId: ...

    def extend_chat(
        self, branch: BranchId, messages: Sequence[Message], generation_prompt: bool = True,
        tools: Sequence[Tool] = (), switches: Switches = NO_SWITCHES,
    ) -> None: ...

    def thinks(self, branch: BranchId, begin: bool = False) -> bool:
        """Whether the branch ends inside of thoughts. begin: they are begun where the model would begin them."""

    def length(self, branch: BranchId) -> int:
        """Tokens of the branch."""

    async def prefill(self, branch: BranchId) -> Usage:
        """Compute the branch, so that forks of it share the work."""

    def extend(self, branch: BranchId, pieces: Sequence[Piece]) -> None: ...

    def tokens(self, branch: BranchId) -> Sequence[int]: ...

    async def score(self, branch: BranchId, top: int = 0) -> tuple[TokenLogprob, ...]:
        """Of the branch's own tokens but the first, with so many alternatives."""

    def fork(self, branch: BranchId, count: int) -> Sequence[BranchId]: ...

    def generate(self, branch: BranchId, spec: GenerateSpec) -> Generation: ...

    def close(self) -> None: ...


class CompiledConstraint(Protocol):
    """notes: keywords outside the standard, which constrain nothing, with their places."""

    @property
    def notes(self) -> tuple[str, ...]: ...


class ChatRuntime(Protocol):
    """model_name: the name it is served under. context: most tokens of prompt and answer together."""

    @property
    def model_name(self) -> str: ...

    @property
    def context(self) -> int: ...

    @property
    def calls(self) -> CallFormat:
        """How the model writes calls of functions."""

    @property
    def thinking(self) -> Thinking | None:
        """How the model thinks before it answers; None: it is not known to."""

    @property
    def switches(self) -> Collection[str]:
        """By which the chat template is told whether it thinks."""

    def spelled(self, token: int) -> bytes:
        """The bytes of a token; a special one is spelled as templates write it."""

    def session(self, salt: str = "") -> ChatSession:
        """salt: sessions of two salts share nothing that is cached."""

    async def compile(self, constraint: Constraint) -> CompiledConstraint:
        """Raises ConstraintError."""

    async def load_weights(self, path: str | Path, *, end: bool = False) -> int:
        """How many weights there were so far. Raises WeightsError, Overloaded."""

    async def stats(self) -> Stats: ...
