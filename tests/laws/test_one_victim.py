"""Law 7 through the whole runtime: a request of every kind that fails, among eight good ones, which answer as alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from espalier.grammars.constraint import Choices, Constraint, JsonSchema, Regex
from espalier.grammars.errors import (
    BudgetTooSmall,
    ConstraintError,
    ConstraintTooLarge,
    EspalierError,
    InvalidConstraint,
    MissingByte,
    Unsatisfiable,
    UnsupportedKeyword,
)
from espalier.runtime.branch import GenerateSpec, Text, TokenIds
from espalier.runtime.config import EngineConfig
from espalier.runtime.constraints import Constraints
from espalier.runtime.conversation import Message
from espalier.runtime.errors import (
    EmptyPrompt,
    EngineFault,
    InvalidParameter,
    PromptTooLong,
    RequestAborted,
    TemplateError,
)
from espalier.runtime.loading import bind_grammars, compile_grammar
from espalier.runtime.runtime import Runtime
from espalier.runtime.session import Session
from tests.fakes import ByteTokenizer, scripted_runtime

from .asking import CONSTRAINTS, WORDS, Alone, Question, Said, WildModel, ask, new_tokenizer, read

POISON = "\x01poison"
CRASHES = Choices(("crash",))
LOSES = Regex("lost(a|b)+")
CONFIG = EngineConfig(page=4, pages=90, step_tokens=16, max_rows=8)
CONTEXT = 300


class Lost:
    """A matcher that fails at its third token."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._left = 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self._matcher, name)

    def accept(self, token: int) -> None:
        self._left -= 1
        if not self._left:
            raise KeyError("the matcher lost its place")
        self._matcher.accept(token)


class Losing:
    def __init__(self, grammar: Any) -> None:
        self._grammar = grammar
        self.min_tokens = grammar.min_tokens

    def matcher(self) -> Lost:
        return Lost(self._grammar.matcher())


def compile(constraint: Constraint) -> bytes:
    if constraint == CRASHES:
        raise RecursionError("the compiler fell over")
    return compile_grammar(constraint)


@contextmanager
def running() -> Iterator[Runtime]:
    """A runtime with little memory whose device, compiler and matchers fail for those that ask for it."""
    tokenizer = ByteTokenizer(WORDS, specials=("<end>", "<turn>", "<tool>"), missing=[4])
    wild, poison = WildModel(tokenizer), tuple(POISON.encode())

    def model(prefix: tuple[int, ...]) -> Sequence[float]:
        if any(prefix[at:at + len(poison)] == poison for at, token in enumerate(prefix) if token == 1):
            raise OSError("the device is on fire")
        return wild(prefix)

    grammars = bind_grammars(tokenizer, tokenizer.vocab_size, CONFIG)
    lost = compile_grammar(LOSES)

    def bind(grammar: bytes) -> Any:
        bound = grammars._bind(grammar)  # type: ignore[misc]
        return Losing(bound) if grammar == lost else bound

    runtime = scripted_runtime(
        model, tokenizer, CONFIG, constraints=Constraints(bind, grammars.rows), compile=compile, context=CONTEXT,
    )
    with closing(runtime):
        yield runtime


@dataclass(frozen=True, slots=True)
class Bad:
    """What a request does wrong, and the error that it alone must see, with some words of its message."""

    error: type[BaseException]
    words: str = "."
    text: str = "the name "
    max_tokens: int = 40
    constraint: Constraint | None = None
    min_tokens: int = 0


def schema(text: str) -> JsonSchema:
    return JsonSchema(text)


BAD = {
    "no schema": Bad(InvalidConstraint, "nonsense", constraint=schema('{"type":"nonsense"}')),
    "no JSON": Bad(InvalidConstraint, constraint=schema('{"type":')),
    "unsupported": Bad(UnsupportedKeyword, constraint=schema('{"pattern":"(a)\\\\1"}')),
    "unsatisfiable": Bad(Unsatisfiable, constraint=schema('{"type":"integer","minimum":3,"maximum":2}')),
    "too large": Bad(ConstraintTooLarge, constraint=Regex("(((a{99}b){99}c){99})")),
    "budget": Bad(BudgetTooSmall, "3 tokens", constraint=Regex("a{50}"), max_tokens=3),
    "byte of a constraint": Bad(MissingByte, "0x04", constraint=Choices(("a\x04",))),
    "byte of a prompt": Bad(MissingByte, "0x04", text="a\x04b"),
    "surrogate": Bad(ConstraintError, constraint=Choices(("\ud800",))),
    "too long": Bad(PromptTooLong, "context", text="z" * CONTEXT),
    "never fits the memory": Bad(PromptTooLong, "context", max_tokens=1 << 40),
    "empty": Bad(EmptyPrompt, text=""),
    "least and constraint": Bad(InvalidParameter, "min_tokens", constraint=Regex("a"), min_tokens=1),
    "compiler": Bad(EngineFault, "the compiler fell over", constraint=CRASHES),
    "matcher": Bad(EngineFault, "the matcher lost its place", constraint=LOSES),
    "device": Bad(EngineFault, "the device is on fire", text=POISON),
}


async def fail(session: Session, bad: Bad) -> None:
    branch = session.branch()
    session.extend(branch, [Text(bad.text)])
    spec = GenerateSpec(max_tokens=bad.max_tokens, constraint=bad.constraint, min_tokens=bad.min_tokens, seed=1)
    with pytest.raises(bad.error, match=bad.words):
        await read(session, branch, spec)
    assert session.text(branch) == bad.text
    session.extend(branch, [Text("x")])  # the branch is not busy


async def leave(session: Session, how: str) -> None:
    branch = session.branch()
    session.extend(branch, [Text("the name, going away")])
    generation = session.generate(branch, GenerateSpec(max_tokens=150, seed=1, ignore_end=True))
    if how == "cancelled while waiting":
        task = asyncio.ensure_future(anext(generation))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await generation.aclose()
        return
    await anext(generation)
    if how == "closed":
        await generation.aclose()
    elif how == "released":
        session.release(branch)
        with pytest.raises(RequestAborted):
            [chunk async for chunk in generation]
    elif how == "session closed":
        session.close()
        with pytest.raises(RequestAborted):
            [chunk async for chunk in generation]
    else:
        assert how == "dropped"


LEAVING = ("closed", "released", "session closed", "dropped", "cancelled while waiting")

GOOD = tuple(
    Question(("the name of abc, ", f"x-{index}"), GenerateSpec(
        max_tokens=50, temperature=1.0, seed=index, constraint=CONSTRAINTS[index % 8] if index % 8 < 6 else None,
        logprobs=2 if index % 3 == 0 else None,
    ))
    for index in range(8)
)


@pytest.fixture(scope="module")
def expected() -> list[list[Said]]:
    return [Alone().answer(question) for question in GOOD]


async def among_good_ones(runtime: Runtime, victim: Callable[[Session], Awaitable[None]]) -> list[list[Said]]:
    session, other = runtime.session(), runtime.session()
    good = [asyncio.ensure_future(ask(session, session.branch(), question)) for question in GOOD]
    await asyncio.sleep(0)
    await asyncio.gather(*(victim(other) for _ in range(3)))
    answers = list(await asyncio.gather(*good))
    session.close()
    other.close()
    stats = await runtime.stats()
    assert (stats.running, stats.waiting, stats.pages_held) == (0, 0, 0)
    assert stats.pages_free + stats.pages_cached == stats.pages_total
    return answers


@pytest.mark.parametrize("kind", BAD)
def test_who_fails_fails_alone_with_its_cause(kind: str, expected: list[list[Said]]) -> None:
    with running() as runtime:
        assert asyncio.run(among_good_ones(runtime, lambda session: fail(session, BAD[kind]))) == expected


@pytest.mark.parametrize("how", LEAVING)
def test_who_leaves_leaves_alone(how: str, expected: list[list[Said]]) -> None:
    with running() as runtime:

        async def victim(session: Session) -> None:
            await leave(runtime.session() if how == "session closed" else session, how)

        assert asyncio.run(among_good_ones(runtime, victim)) == expected


def test_all_of_them_together(expected: list[list[Said]]) -> None:
    with running() as runtime:

        async def everything(session: Session) -> None:
            await asyncio.gather(*(fail(session, bad) for bad in BAD.values()),
                                 *(leave(runtime.session(), how) for how in LEAVING))

        assert asyncio.run(among_good_ones(runtime, everything)) == expected


def test_wrong_ids_and_roles_are_refused_before_they_reach_the_engine() -> None:
    with running() as runtime:
        session = runtime.session()
        branch = session.branch()
        for wrong in (-1, runtime.tokenizer.vocab_size, 1 << 70):
            with pytest.raises(InvalidParameter):
                session.extend(branch, [TokenIds((wrong,))])
        with pytest.raises(TemplateError):
            session.extend_chat(branch, [Message("oracle", "x")])
        with pytest.raises(EspalierError):
            session.generate(branch, GenerateSpec(max_tokens=1))
        session.close()


def test_a_slow_compilation_keeps_nobody_waiting() -> None:
    slow, release = Choices(("slow",)), threading.Event()
    tokenizer = new_tokenizer()

    def compile(constraint: Constraint) -> bytes:
        if constraint == slow:
            release.wait(30)
        return compile_grammar(constraint)

    async def go(runtime: Runtime) -> None:
        session = runtime.session()
        question = Question(("x",), GenerateSpec(max_tokens=40, constraint=slow, seed=1))
        waiting = asyncio.ensure_future(ask(session, session.branch(), question))
        for good in GOOD[:6]:
            assert await ask(session, session.branch(), good) == Alone().answer(good)
        assert not waiting.done()
        release.set()
        assert (await waiting)[0].text == "slow"
        session.close()

    runtime = scripted_runtime(
        WildModel(tokenizer), tokenizer, CONFIG, compile=compile,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, CONFIG),
    )
    with closing(runtime):
        asyncio.run(go(runtime))
