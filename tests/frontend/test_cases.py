"""Failures seen elsewhere, re-created small; each number names the case."""

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Asked, Reply

from .conftest import Script


def test_225_fork_before_anything_was_added(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        f = s.fork(2)
        for i in range(2):
            f[i] += "Q" + esp.gen("a", max_tokens=4)
        s += f[0]["a"] + f[1]["a"]

    assert program.run(backend=script(["1", "2"])).text() == "12"


def test_227_choices_need_no_temperature(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += "Colour? " + esp.gen("h", choices=["red", "blue"])
        return s["h"]

    assert program.run(backend=script()).result in {"red", "blue"}


@pytest.mark.parametrize(
    ("totals", "best"),
    [
        ((-0.1, -0.2, -0.3), "abc"),  # nearly every text that begins with a goes on to abc
        ((-0.1, -4.0, -5.0), "a"),
        ((-0.5, -0.6, -3.0), "ab"),
    ],
)
def test_228_a_choice_does_not_win_by_being_a_prefix(
    script: Script, totals: tuple[float, ...], best: str
) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += esp.select("c", ["a", "ab", "abc"])
        return s["c"]

    state = program.run(backend=script(scores=[totals]))
    assert state.result == best
    assert list(state.scores("c").values()) == list(totals)


def test_230_a_prompt_ending_in_a_blank_keeps_exactly_one(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "Answer: " + esp.select("c", ["yes", "no"])
        s += " http:" + esp.gen("u", regex="//[a-z]+")

    assert program.run(backend=script(["//x"])).text() == "Answer: yes http://x"


@pytest.mark.parametrize("made", ['"', ' "', ' "more', '"END'])
def test_231_a_stop_in_the_very_first_token(script: Script, made: str) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "text: " + esp.gen("v", stop='"') + "END"

    state = program.run(backend=script([Reply((made,))]))
    assert state["v"] == made[: made.index('"')]
    assert state.text() == "text: " + state["v"] + "END"
    answer = state.answer("v")
    assert answer is not None
    assert answer.stop == '"'


def test_233_a_batch_of_forks_keeps_order_and_values_apart(script: Script) -> None:
    @esp.function
    def program(s: esp.State, k: int) -> list[str]:
        s += f"{k}:"
        forks = s.fork(3)
        forks += lambda i: f"{i}" + esp.gen("x")
        return [branch["x"] for branch in forks.join()]

    def answer(asked: Asked) -> str:
        return asked.text.upper()

    states = program.run_batch([{"k": k} for k in range(64)], backend=script(answer), concurrency=8)
    assert [state.result for state in states] == [[f"{k}:{i}" for i in range(3)] for k in range(64)]


def test_234_a_stop_followed_by_the_same_literal(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "Pros: " + esp.gen("p", stop="Best=", max_tokens=60) + "Best=" + esp.gen("b", regex="[0-9]+")

    state = program.run(backend=script([Reply(("light, ", "Be", "st=7")), "42"]))
    assert state["p"] == "light, "
    assert state.text() == "Pros: light, Best=42"
