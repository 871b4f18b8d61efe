"""Random programs against a naive model of the language: one thread, strings, no queues."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

import espalier as esp
from espalier.frontend.backends.scripted import Asked

Op = tuple[str, object]
names = st.sampled_from(["x", "y", "z"])
ops = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("text"), st.text("ab", max_size=3)),
        st.tuples(st.just("gen"), names),
        st.tuples(st.just("bad"), names),
        st.tuples(st.just("select"), names),
        st.tuples(st.just("fork"), st.lists(programs, min_size=1, max_size=3)),
    )
)
programs = st.lists(ops, max_size=5)


class Broken(Exception):
    pass


def says(text: str) -> str:
    return f"<{len(text)}>"


@dataclass
class Naive:
    """The text, the values, and whether an operation has failed: then nothing later happens."""

    text: str = ""
    values: dict[str, str | None] = field(default_factory=dict)
    failed: bool = False
    forks: list[list[Naive]] = field(default_factory=list)

    def run(self, program: list[Op]) -> Naive:
        for kind, what in program:
            if kind == "fork":
                branches = [Naive(self.text, dict(self.values), self.failed) for _ in what]
                self.forks.append([branch.run(inner) for branch, inner in zip(branches, what, strict=True)])
            elif kind == "text":
                self.text += "" if self.failed else str(what)
            else:
                self.failed = self.failed or kind == "bad"
                value = None if self.failed else "no" if kind == "select" else says(self.text + "?")
                self.text += "" if self.failed else "?" + str(value)
                self.values[str(what)] = value
        return self


def write(s: esp.State, program: list[Op]) -> list[list[esp.State]]:
    """The same program in the language; the branches of its forks, not joined."""
    forks = []
    for kind, what in program:
        if kind == "fork":
            branches = s.fork(len(what))
            for branch, inner in zip(branches, what, strict=True):
                branch.nested = write(branch, inner)
            forks.append(list(branches))
        elif kind == "text":
            s += what
        elif kind == "select":
            s += "?" + esp.select(what, ["yes", "no"])
        else:
            s += "?" + esp.gen(what, stop="!" if kind == "bad" else None)
    return forks


def answer(asked: Asked) -> str | Exception:
    return Broken() if asked.spec is not None and asked.spec.stop else says(asked.text)


def value_of(s: esp.State, name: str) -> str | None:
    try:
        return str(s[name])
    except (Broken, esp.BranchFailed):
        return None


def agree(s: esp.State, forks: list[list[esp.State]], naive: Naive, alone: bool = True) -> None:
    """alone: no sibling can cancel this branch, so what it could finish it did."""
    for name, expected in naive.values.items():
        assert value_of(s, name) == expected if alone else value_of(s, name) in (expected, None)
    if alone and not naive.failed:
        assert s.text() == naive.text
    for states, branches in zip(forks, naive.forks, strict=True):
        well = alone and not any(branch.failed for branch in branches)
        for state, branch in zip(states, branches, strict=True):
            agree(state, state.nested, branch, well)


def test_a_program_means_what_the_naive_model_says() -> None:
    @esp.function
    def body(s: esp.State, program: list[Op]) -> list[list[esp.State]]:
        return write(s, program)

    @settings(max_examples=80, deadline=None)
    @given(programs)
    def check(program: list[Op]) -> None:
        naive = Naive().run(program)
        state = body.run(program, backend=model)
        assert model.live == {}
        assert state.ok is not _fails(naive)
        agree(state, state.result, naive)

    with esp.scripted(answer, scores=lambda asked: [-2.0, -1.0]) as model:
        check()


def _fails(naive: Naive) -> bool:
    return naive.failed or any(_fails(branch) for branches in naive.forks for branch in branches)
