"""Law 2 with all the others at once: cache, chunks, forks, company, parking, streams, stops, constraints and forced
text change nothing that an answer says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.runtime.branch import GenerateSpec
from espalier.runtime.config import EngineConfig

from .asking import CONSTRAINTS, Alone, Question, ask_all, opened

ROOTS = ("the name of abc, the name", "the name of abc, x-x-x-x- and a long way to go --é--é--", "x")
OWN = st.text(st.sampled_from("abcx-é漢,"), min_size=1, max_size=12)
EDITS: tuple[dict[str, Any], ...] = (
    {}, {}, {"frequency_penalty": 0.6, "logit_bias": ((97, 2.0), (120, -1.0))},
    {"presence_penalty": 1.1, "repetition_penalty": 1.3}, {"frequency_penalty": -0.3, "repetition_penalty": 0.8},
)
STOPS = st.lists(st.sampled_from(["x-", "ab", "abc", "é", "c,", ":::", "漢b", "a"]), max_size=3).map(tuple)


@pytest.fixture(scope="module")
def alone() -> Alone:
    return Alone()


@st.composite
def questions(draw: st.DrawFn) -> Question:
    constraint = draw(st.none() | st.sampled_from(CONSTRAINTS))
    need = Alone().grammar(constraint).min_tokens if constraint is not None else 1
    spec = GenerateSpec(
        max_tokens=need + draw(st.integers(0, 30)), temperature=draw(st.sampled_from([0.0, 0.7, 1.0, 5.0])),
        seed=draw(st.integers(0, 3)), stop=draw(STOPS),
        logprobs=draw(st.none() | st.integers(0, 3)), constraint=constraint, **draw(st.sampled_from(EDITS)),
    )
    more = draw(st.just("") | st.just(" c, more"))
    return Question((draw(st.sampled_from(ROOTS)), draw(OWN)), spec, more)


def pages_of(asked: list[Question], page: int) -> int:
    """The fewest with which each of them can run."""
    tokens = [len("".join(one.literals) + one.more) * 3 + 2 * one.spec.max_tokens for one in asked]
    return max(2, -(-max(tokens) // page) + 1)


@settings(max_examples=30, deadline=None)
@given(asked=st.lists(questions(), min_size=1, max_size=6), step_tokens=st.sampled_from([1, 7, 64, 512]),
       page=st.sampled_from([1, 3, 4, 16]), spare=st.sampled_from([0, 3, 400]), rows=st.sampled_from([1, 2, 8]),
       at_once=st.booleans(), forks=st.booleans(), again=st.booleans())
def test_an_answer_is_what_the_model_says_alone(
    alone: Alone, asked: list[Question], step_tokens: int, page: int, spare: int, rows: int, at_once: bool,
    forks: bool, again: bool,
) -> None:
    config = EngineConfig(page=page, pages=pages_of(asked, page) + spare, step_tokens=step_tokens, max_rows=rows)
    expected = [alone.answer(question) for question in asked]
    with opened(config) as runtime:
        for _ in range(1 + again):  # the second time the cache is warm
            assert ask_all(runtime, asked, at_once=at_once, forks=forks) == expected


@settings(max_examples=10, deadline=None)
@given(asked=st.lists(questions(), min_size=8, max_size=8), rows=st.sampled_from([1, 8]))
def test_masks_that_are_forgotten_and_found_again_change_nothing(
    alone: Alone, asked: list[Question], rows: int
) -> None:
    """With room for hardly more masks than requests that run at once draw from."""
    with opened(EngineConfig(page=4, pages=600, step_tokens=64, max_rows=rows), mask_rows=2 * rows + 9) as runtime:
        assert ask_all(runtime, asked, at_once=True, forks=False) == [alone.answer(question) for question in asked]
