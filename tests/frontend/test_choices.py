"""select: exact sequence log-probability, the first wins ties, and a prefix is no advantage."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import espalier as esp
from espalier.frontend.backends.base import Scores
from espalier.frontend.choices import winner

from .conftest import Script


@pytest.mark.parametrize(
    ("totals", "best"), [([-1.0, -2.0], 0), ([-2.0, -1.0], 1), ([-1.0, -1.0], 0), ([-3.0, -1.0, -1.0], 1)]
)
def test_the_likeliest_wins_and_the_first_of_equals(script: Script, totals: list[float], best: int) -> None:
    choices = ["red", "blue", "green"][: len(totals)]

    @esp.function
    def program(s: esp.State) -> str:
        s += "Colour? " + esp.select("c", choices)
        return s["c"]

    state = program.run(backend=script(scores=[totals]))
    assert state.result == choices[best]
    assert state.scores("c") == dict(zip(choices, totals, strict=True))
    assert state.text() == "Colour? " + choices[best]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5, unique=True),
    st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
)
def test_the_winner_is_the_likeliest_reading_of_a_random_text(choices: list[str], weights: list[float]) -> None:
    """The naive model: texts of independent letters a, b or another one; a text reads as the longest choice it begins
    with. `winner` must pick the choice that the most of the probability reads as."""
    p = {letter: weight / sum(weights) for letter, weight in zip("ab.", weights, strict=True)}
    texts = {x + y + z: p[x] * p[y] * p[z] for x in p for y in p for z in p}
    reads = [
        sum(q for text, q in texts.items() if max((c for c in choices if text.startswith(c)), key=len, default="") == c)
        for c in choices
    ]
    totals = tuple(math.log(math.prod(p[letter] for letter in choice)) for choice in choices)
    best = winner(Scores(totals, 0, tokens=tuple(tuple(map(ord, choice)) for choice in choices)))
    assert reads[best] == pytest.approx(max(reads))


def test_without_token_ids_the_backend_decides() -> None:
    assert winner(Scores((-2.0, -1.0), 1)) == 1
