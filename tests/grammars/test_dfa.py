"""Automata: minimising keeps the language and leaves no two states that nothing tells apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.automata.charset import ALL
from espalier.grammars.automata.dfa import Dfa, combine, trim
from espalier.grammars.automata.minimise import minimise
from espalier.grammars.limits import Limits, Meter
from espalier.grammars.regular.regex import compile_regex

SYMBOLS = 6


@st.composite
def automata(draw: st.DrawFn) -> Dfa:
    size = draw(st.integers(1, 8))
    rows = []
    for _ in range(size):
        targets = draw(st.lists(st.integers(-1, size - 1), min_size=SYMBOLS, max_size=SYMBOLS))
        rows.append(tuple((symbol, symbol, target) for symbol, target in enumerate(targets) if target >= 0))
    return trim(Dfa(tuple(rows), frozenset(draw(st.sets(st.integers(0, size - 1))))))


def follow(dfa: Dfa, state: int) -> list[int]:
    return [next((t for low, high, t in dfa.edges[state] if low <= symbol <= high), -1) for symbol in range(SYMBOLS)]


def classes(dfa: Dfa) -> int:
    """How many states a least automaton needs: Moore's refinement, symbol by symbol."""
    known = [int(state in dfa.finals) for state in range(len(dfa.edges))]
    while True:
        keys = [(known[s], *(known[t] if t >= 0 else -1 for t in follow(dfa, s))) for s in range(len(known))]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        if len(numbers) == len(set(known)):
            return len(numbers)
        known = [numbers[key] for key in keys]


def same(one: Dfa, other: Dfa) -> bool:
    return combine([one, other], lambda verdicts: verdicts[0] != verdicts[1], Meter(Limits())).empty


@settings(max_examples=300, deadline=None)
@given(automata())
def test_minimising_keeps_the_language_and_is_least(dfa: Dfa) -> None:
    least = minimise(dfa)
    assert same(least, dfa)
    assert len(least.edges) == classes(dfa)


def test_a_long_chain_is_minimised_in_one_go() -> None:
    chain = Dfa((*(((97, 122, i + 1),) for i in range(10_000)), ()), frozenset([10_000]))
    assert minimise(chain) == chain


ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", r"\w", ".", "-", r"\b", r"\B", "^", "$", "é"])
PATTERNS = st.recursive(ATOMS, lambda inner: st.one_of(
    st.tuples(inner, inner).map("".join),
    st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
    st.tuples(inner, st.sampled_from(["*", "+", "?", "{2,3}", "{0,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
), max_leaves=8)


@settings(max_examples=200, deadline=None)
@given(PATTERNS, st.booleans())
def test_a_look_ahead_that_asks_nothing_changes_nothing(pattern: str, search: bool) -> None:
    """Two constructions: sets of positions, and threads that owe look-aheads."""
    meter = Meter(Limits())
    plain = compile_regex(pattern, meter, search=search)
    looking = compile_regex(f"(?=)(?:{pattern})", meter, search=search)
    assert same(plain, looking)
    assert len(plain.edges) == len(looking.edges)
    assert all(any(low <= a and b <= high for low, high in ALL) for row in plain.edges for a, b, _ in row)
