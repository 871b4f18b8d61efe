"""Law 5 through the whole runtime: forced text appended without a draw, or drawn under its mask, is the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from espalier.grammars.constraint import Constraint
from espalier.runtime.branch import GenerateSpec
from espalier.runtime.config import EngineConfig
from espalier.runtime.runtime import Runtime

from .asking import CONSTRAINTS, Alone, Question, answered, opened


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with opened(EngineConfig(page=4, pages=1024, step_tokens=64, max_rows=16)) as runtime:
        yield runtime


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda constraint: repr(constraint)[:50])
@pytest.mark.parametrize("spare", [0, 1, 5, 40])
def test_the_shortcut_changes_nothing(runtime: Runtime, constraint: Constraint, spare: int) -> None:
    """Against draws under the mask, in the runtime and without it. Log-probabilities turn the shortcut off."""
    alone = Alone()
    for seed in range(4):
        spec = GenerateSpec(
            max_tokens=alone.grammar(constraint).min_tokens + spare, temperature=2.0, seed=seed, constraint=constraint,
        )
        short, drawn = answered(runtime, spec), answered(runtime, replace(spec, logprobs=0))
        assert short.tokens == drawn.tokens == alone.answer(Question(("the name ",), spec))[0].tokens
        assert (short.text, short.finish, short.closed) == (drawn.text, drawn.finish, drawn.closed)
        assert drawn.usage.forced == 0
        assert short.usage.generated == drawn.usage.generated == len(short.tokens)


def test_forced_text_needs_no_step_of_its_own(runtime: Runtime) -> None:
    """A text that is forced to its last token takes fewer steps than it has tokens."""
    spec = GenerateSpec(max_tokens=100, temperature=0.0, constraint=CONSTRAINTS[4])
    before = asyncio.run(runtime.stats())
    answer = answered(runtime, spec)
    after = asyncio.run(runtime.stats())
    assert answer.usage.forced > len(answer.tokens) // 2
    assert after.steps - before.steps < len(answer.tokens)
    assert after.tokens_forced - before.tokens_forced == answer.usage.forced
