"""A backend that answers from a script: for tests of programs, without a model, a clock or a thread of its own.

Text stands for tokens: one character is one token. Budgets are not modelled: a scripted answer is given whole, but it
is cut before a stop string. What a branch computed before counts as cached, in all sessions of the model.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, TypeVar

from ...grammars.constraint import Choices
from ..errors import BranchClosed, ProgramError
from ..loop import ended
from ..model import Model
from .base import Answer, Branch, Chunk, GenerateSpec, Piece, RoleClose, RoleOpen, Scores, Usage

T = TypeVar("T")
Kind = Literal["open", "branch", "extend", "fork", "generate", "choose", "prefill", "release", "close"]


class Gate:
    """Holds an operation of a script until it is opened."""

    def __init__(self) -> None:
        self._reached: Future[None] = Future()
        self._opened: Future[None] = Future()

    def open(self) -> None:
        self._opened.set_result(None)

    def wait_reached(self, timeout: float = 30.0) -> None:
        """Block until an operation stands here. Raises TimeoutError (seconds)."""
        self._reached.result(timeout)

    async def reached(self) -> None:
        """`wait_reached` for coroutines."""
        await ended(self._reached)

    async def passed(self) -> None:
        """Stand at the gate until it is open."""
        if not self._reached.done():
            self._reached.set_result(None)
        await ended(self._opened)


@dataclass(frozen=True, slots=True)
class Reply:
    """chunks: the answer as it streams. gate: wait here first. error: raised after the chunks."""

    chunks: tuple[str, ...] = ()
    gate: Gate | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """text: of the branch so far, roles as <user>...</user>. number: of this generation or choice in the model."""

    text: str
    number: int
    spec: GenerateSpec | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """What a session was asked. text: what an extend brought or a generation answered."""

    kind: Kind
    session: int
    branch: Branch = -1
    text: str = ""
    count: int = 0


Line = str | Exception | Reply
Answers = Sequence[Line] | Callable[[Asked], Line]
Totals = Sequence[Sequence[float]] | Callable[[Asked], Sequence[float]]


class _Tree(dict[str, "_Tree"]):
    """All texts that were computed, by character."""


class ScriptedModel(Model):
    """operations: everything that all sessions were asked. live: the text of every branch not yet released."""

    def __init__(self, answers: Answers = (), scores: Totals | None = None) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.live: dict[Branch, str] = {}
        self._answer = _in_order(answers, "answer")
        self._score = None if scores is None else _in_order(scores, "scores")
        self._sessions = itertools.count()
        self._branches = itertools.count()
        self._asked = itertools.count()
        self._tree = _Tree()

    def session(self) -> ScriptedSession:
        return ScriptedSession(self, next(self._sessions))

    def new_branch(self, text: str) -> Branch:
        branch = next(self._branches)
        self.live[branch] = text
        return branch

    def asked(self, branch: Branch, spec: GenerateSpec | None = None, choices: Sequence[str] = ()) -> Asked:
        return Asked(self.live[branch], next(self._asked), spec, tuple(choices))

    def line(self, asked: Asked) -> Reply:
        """The script's answer; without one, the first option of a choice."""
        constraint = asked.spec.constraint if asked.spec is not None else None
        line = self._answer(asked)
        if line is None and isinstance(constraint, Choices):
            line = constraint.options[0]
        if line is None:
            raise ProgramError("the script has no answer left", where=f"generation {asked.number}")
        if isinstance(line, Exception):
            return Reply(error=line)
        return Reply((line,)) if isinstance(line, str) else line

    def totals(self, asked: Asked) -> tuple[float, ...]:
        """The script's scores; without any, all choices are as likely as each other."""
        totals = self._score(asked) if self._score is not None else [0.0] * len(asked.choices)
        if totals is None or len(totals) != len(asked.choices):
            raise ProgramError("the script has no scores for these choices", where=f"choice {asked.number}")
        return tuple(totals)

    def compute(self, text: str) -> Usage:
        """Count the branch as computed."""
        tree, cached = self._tree, 0
        for depth, character in enumerate(text, 1):
            if character in tree:
                cached = depth
            tree = tree.setdefault(character, _Tree())
        return Usage(prompt=len(text), cached=cached, computed=len(text) - cached)


def _in_order(script: Sequence[T] | Callable[[Asked], T], what: str) -> Callable[[Asked], T | None]:
    if callable(script):
        return script
    if isinstance(script, str):
        raise ProgramError(f"a script is a list or a function, not one {what}", where=what)
    lines: Iterator[T] = iter(script)
    return lambda asked: next(lines, None)


class ScriptedSession:
    def __init__(self, model: ScriptedModel, number: int) -> None:
        self._model = model
        self._number = number
        self._own: set[Branch] = set()

    async def open(self) -> None:
        self._note("open")

    async def branch(self) -> Branch:
        branch = self._adopt(self._model.new_branch(""))
        self._note("branch", branch)
        return branch

    async def extend(self, branch: Branch, pieces: Sequence[Piece]) -> None:
        text = "".join(map(_rendered, pieces))
        self._append(branch, text)
        self._note("extend", branch, text)

    async def fork(self, branch: Branch, count: int) -> list[Branch]:
        text = self._text(branch)
        self._note("fork", branch, count=count)
        return [self._adopt(self._model.new_branch(text)) for _ in range(count)]

    async def generate(self, branch: Branch, spec: GenerateSpec) -> AsyncGenerator[Chunk | Answer, None]:
        usage = self._model.compute(self._text(branch))
        reply = self._model.line(self._model.asked(branch, spec))
        if reply.gate is not None:
            await reply.gate.passed()
        whole = "".join(reply.chunks)
        text, stop = _cut(whole, spec.stop)
        for chunk in _within(reply.chunks, len(text)):
            self._append(branch, chunk)
            yield Chunk(chunk)
        self._note("generate", branch, text)
        if reply.error is not None:
            raise reply.error
        self._model.compute(self._text(branch))
        generated = Usage(usage.prompt, usage.cached, usage.computed, len(text))
        yield Answer(text, "stop", generated, stop)

    async def choose(self, branch: Branch, choices: Sequence[str]) -> Scores:
        usage = self._model.compute(self._text(branch))
        self._note("choose", branch, count=len(choices))
        totals = self._model.totals(self._model.asked(branch, choices=choices))
        tokens = tuple(tuple(map(ord, choice)) for choice in choices)
        return Scores(totals, totals.index(max(totals)), usage, tokens)

    async def prefill(self, branch: Branch) -> Usage:
        self._note("prefill", branch)
        return self._model.compute(self._text(branch))

    async def release(self, branch: Branch) -> None:
        self._text(branch)
        self._own.remove(branch)
        del self._model.live[branch]
        self._note("release", branch)

    async def close(self) -> None:
        for branch in self._own:
            del self._model.live[branch]
        self._own.clear()
        self._note("close")

    def _adopt(self, branch: Branch) -> Branch:
        self._own.add(branch)
        return branch

    def _text(self, branch: Branch) -> str:
        if branch not in self._own:
            raise BranchClosed(f"branch {branch} is not open in this session")
        return self._model.live[branch]

    def _append(self, branch: Branch, text: str) -> None:
        self._model.live[branch] = self._text(branch) + text

    def _note(self, kind: Kind, branch: Branch = -1, text: str = "", count: int = 0) -> None:
        self._model.operations.append(Operation(kind, self._number, branch, text, count))


def _rendered(piece: Piece) -> str:
    if isinstance(piece, RoleOpen):
        return f"<{piece.role}>"
    if isinstance(piece, RoleClose):
        return f"</{piece.role}>"
    return piece.text


def _cut(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The text before the earliest stop string, and that string."""
    found = [(text.index(stop), stop) for stop in stops if stop in text]
    place, stop = min(found, default=(len(text), None), key=lambda pair: pair[0])
    return text[:place], stop


def _within(chunks: Sequence[str], length: int) -> Iterator[str]:
    for chunk in chunks:
        if length > 0:
            yield chunk[:length]
        length -= len(chunk)


def scripted(answers: Answers = (), scores: Totals | None = None) -> ScriptedModel:
    """A model that answers from a script.

    answers: what each gen is answered, in order, or a function of what was asked: a text, an exception to fail with, or
    a Reply. scores: one list of log-probabilities for each select, or a function; none: the first choice wins.
    """
    return ScriptedModel(answers, scores)
