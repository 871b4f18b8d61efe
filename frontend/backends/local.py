"""The engine in this process. The one file of the language that imports the runtime, when a model is opened."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from ..errors import BranchClosed, ProgramError
from ..model import Model
from .base import (
    Answer,
    Branch,
    ChosenText,
    Chunk,
    GenerateSpec,
    Piece,
    RoleClose,
    RoleOpen,
    Scores,
    Text,
    Usage,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ...runtime import branch as engine
    from ...runtime.config import EngineConfig
    from ...runtime.messages import Stats
    from ...runtime.messages import Usage as EngineUsage
    from ...runtime.runtime import Runtime
    from ...runtime.session import Session


def local(
    model: str | Path, *, config: EngineConfig | None = None, salt: str = "", adapter: str = "", process: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LocalModel:
    """Load a model and keep it until the handle is closed.

    model: a name of the catalogue (fetched once), or the path of a .gguf file or of a folder in the form of Hugging
    Face. salt: the part of the prefix tree that its programs use. adapter: refused unless empty. process: run the
    engine in a process of its own instead of a thread. progress: told in words what is being done (default:
    standard error, when that is a terminal).
    Raises ProgramError for another config, runtime.errors.ModelError when the model cannot be used.
    """
    from ...runtime.config import EngineConfig
    from ...runtime.runtime import Runtime

    if adapter:
        raise ProgramError("adapters of weights are not computed here", where="adapter",
                           fix="Merge the adapter into the weights and give those.")
    if config is not None and not isinstance(config, EngineConfig):
        raise ProgramError(f"config must be an EngineConfig, not {type(config).__name__}", where="config",
                           fix="Make one: from espalier.runtime.config import EngineConfig.")
    runtime = Runtime.load(str(model), config or EngineConfig(), process=process, progress=progress or teller())
    return LocalModel(runtime, salt)


def teller() -> Callable[[str], None] | None:
    """Who is told what loading does when the caller named nobody: loading takes seconds, a first fetch longer."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None
    return lambda words: print(words, file=stream, flush=True)


class LocalModel(Model):
    """Programs on a runtime. Closing the handle closes the runtime."""

    def __init__(self, runtime: Runtime, salt: str = "") -> None:
        super().__init__()
        self.runtime = runtime
        self._salt = salt

    def session(self) -> LocalSession:
        return LocalSession(self.runtime, self._salt)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text. Raises MissingByte when the vocabulary cannot spell it."""
        return self.runtime.tokenizer.encode_parts((text,))

    def stats(self) -> Stats:
        """Counters of the engine since it started, and its pages now."""
        return self.loop.call(self.runtime.stats)

    def load_weights(self, path: str | Path, *, end: bool = False) -> int:
        """Go on with the weights of another file or folder of this model; waits until they are used. Generations that
        have begun are finished with the old weights, or fail with WeightsReplaced (end). Nothing that was cached of
        the old ones is used again; programs keep their texts. Returns how many weights there were so far, the first
        included.

        Raises runtime.errors.WeightsError for another shape, tokenizer or chat template; the old ones stay.
        """
        return self.loop.call(lambda: self.runtime.load_weights(path, end=end))

    async def shut_down(self) -> None:
        self.runtime.close()


class LocalSession:
    """The branch protocol on a session of the runtime."""

    def __init__(self, runtime: Runtime, salt: str) -> None:
        self._runtime = runtime
        self._salt = salt
        self._session: Session | None = None

    async def open(self) -> None:
        self._session = self._runtime.session(salt=self._salt)

    async def branch(self) -> Branch:
        return self._open.branch()

    async def extend(self, branch: Branch, pieces: Sequence[Piece]) -> None:
        self._open.extend(branch, [_engine_piece(piece) for piece in pieces])

    async def fork(self, branch: Branch, count: int) -> list[Branch]:
        return list(self._open.fork(branch, count))

    async def generate(self, branch: Branch, spec: GenerateSpec) -> AsyncGenerator[Chunk | Answer, None]:
        stream = self._open.generate(branch, _engine_spec(spec))
        try:
            async for chunk in stream:
                yield Chunk(chunk.text)
        finally:
            await stream.aclose()
        answer = stream.answer
        yield Answer(answer.text, answer.finish, _usage(answer.usage), answer.stop, answer.closed)

    async def choose(self, branch: Branch, choices: Sequence[str]) -> Scores:
        scores = await self._open.choose(branch, choices)
        return Scores(scores.totals, scores.best, _usage(scores.usage), scores.tokens)

    async def prefill(self, branch: Branch) -> Usage:
        return _usage(await self._open.prefill(branch))

    async def release(self, branch: Branch) -> None:
        self._open.release(branch)

    async def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise BranchClosed("the session is not open")
        return self._session


def _engine_piece(piece: Piece) -> engine.Piece:
    from ...runtime import branch as engine

    match piece:
        case Text(text):
            return engine.Text(text)
        case RoleOpen(role):
            return engine.Opening(role)
        case RoleClose(role):
            return engine.Closing(role)
        case ChosenText(_, tokens):
            return engine.TokenIds(tokens)


def _engine_spec(spec: GenerateSpec) -> engine.GenerateSpec:
    from ...runtime import branch as engine

    return engine.GenerateSpec(**asdict(spec))


def _usage(usage: EngineUsage) -> Usage:
    return Usage(usage.prompt, usage.cached, usage.computed, usage.generated, usage.forced)
