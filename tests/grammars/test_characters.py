"""Characters written out: exactly the spellings of those of each edge, as themselves and escaped, and no dead ends."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.grammars.binding.characters import written_out
from espalier.grammars.binding.flat import Flat
from espalier.grammars.binding.verify import BrokenGrammar, verify
from espalier.grammars.ir import CHARACTER, COUNT, Counter, Grammar, Rule, pack_edges

CODES = st.one_of(st.integers(0, 0x7F), st.integers(0, 0xD7FF), st.integers(0xE000, 0xFFFF),
                  st.integers(0x10000, 0x10FFFF), st.sampled_from([0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]))
ROWS = st.lists(st.tuples(CODES, CODES, st.integers(0, 2)), max_size=6)
LETTERS = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def _row(drawn: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Disjoint ascending ranges without halves of pairs."""
    found, last = [], -1
    for first, second, target in sorted((min(a, b), max(a, b), target) for a, b, target in drawn):
        for low, high in ((max(first, last + 1), min(second, 0xD7FF)), (max(first, last + 1, 0xE000), second)):
            if low <= high:
                found.append((low, high, target))
                last = max(last, high)
    return found


def _grammar(rows: list[list[tuple[int, int, int]]]) -> Grammar:
    """A rule for each row: its characters in state 0, which lead to states 1 to 3."""
    return Grammar(tuple(
        Rule(f"row {k}", "", 4, pack_edges([(0, 0x22, 0x22, 1, COUNT), *(
            (0, CHARACTER + low, CHARACTER + high, 1 + target, COUNT) for low, high, target in row)]), (), (1, 2, 3),
            Counter(0, 9)) for k, row in enumerate(rows)), 0)


def _spellings(code: int) -> list[str]:
    character = chr(code)
    units = character.encode("utf-16-be").hex()
    long = "".join(f"\\u{units[k: k + 4]}" for k in range(0, len(units), 4))
    mixed = "".join(c.upper() if k % 2 and c in "abcdef" else c for k, c in enumerate(long))
    itself = [] if code < 0x20 or character in '"\\' else [character]
    return [*itself, long, long.replace("\\u", "\\U").upper().replace("\\U", "\\u"), mixed,
            *([f"\\{LETTERS[character]}"] if character in LETTERS else [])]


def _read(flat: Flat, rule: int, text: str) -> int:
    """The state after the text, -1 for none."""
    state, edges = 0, flat.edges_of(rule).tolist()
    for byte in text.encode():
        state = next((target for _, here, low, high, target, _ in edges if here == state and low <= byte <= high), -1)
    return state


@given(st.lists(ROWS, min_size=1, max_size=3), st.lists(CODES, max_size=4))
def test_a_text_is_read_exactly_when_the_character_that_it_means_is_in_the_row(drawn, codes):
    rows = [_row(row) for row in drawn]
    flat = written_out(verify(_grammar(rows)))
    for rule, row in enumerate(rows):
        ends = [code for low, high, _ in row for code in (low, high)]
        near = [code + step for code in ends for step in (-1, 1) if code + step in range(0x110000)]
        for code in {*codes, *ends, *near} - {*range(0xD800, 0xE000)}:
            wanted = next((1 + target for low, high, target in row if low <= code <= high), -1)
            for text in _spellings(code):
                assert json.loads(f'"{text}"') == chr(code)
                assert _read(flat, rule, text) == wanted, (text, row)


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_written_out_rules_stay_verified_and_every_new_state_leads_on(drawn):
    flat = written_out(verify(_grammar([_row(row) for row in drawn])))
    assert (np.diff(flat.edges[:, 0]) >= 0).all()
    for rule, states in enumerate(flat.states.tolist()):
        edges = flat.edges_of(rule)
        assert edges[:, 3].max(initial=0) < CHARACTER
        assert edges[:, [1, 4]].max(initial=0) < states
        assert {*edges[:, 1].tolist()} >= {*range(4, states)}
        assert {*edges[:, 4].tolist()} >= {*range(4, states)}
        assert (edges[edges[:, 1] == 0, 5] == COUNT).all()
        assert (edges[edges[:, 1] != 0, 5] == 0).all()
        for state in range(states):
            taken = [byte for _, _, low, high, _, _ in edges[edges[:, 1] == state].tolist()
                     for byte in range(low, high + 1)]
            assert len(taken) == len(set(taken))


def test_equal_rows_of_a_rule_share_their_states():
    row = [(0, 0xD7FF, 0), (0xE000, 0x10FFFF, 0)]
    edges = [(s, CHARACTER + low, CHARACTER + high, 1, 0) for s in (0, 1) for low, high, _ in row]
    rule = Rule("twice", "", 2, pack_edges(edges), (), (1,))
    alone = Rule("once", "", 2, pack_edges(edges[:2]), (), (1,))
    twice, once = (written_out(verify(Grammar((one,), 0))) for one in (rule, alone))
    assert twice.states.tolist() == once.states.tolist()


@pytest.mark.parametrize("edges", [
    [(0, CHARACTER + 0xD800, CHARACTER + 0xD800, 1, 0)],
    [(0, CHARACTER, CHARACTER + 0x110000, 1, 0)],
    [(0, 0xFF, CHARACTER, 1, 0)],
    [(0, 0x41, 0x41, 1, 0), (0, CHARACTER + 0x42, CHARACTER + 0x42, 1, 0)],
    [(0, 0xE3, 0xE3, 1, 0), (0, CHARACTER + 0x42, CHARACTER + 0x42, 1, 0)],
    [(0, 0x5C, 0x5C, 1, 0), (0, CHARACTER + 0x41, CHARACTER + 0x41, 1, 0)],
    [(0, CHARACTER + 0x41, CHARACTER + 0x43, 1, 0), (0, CHARACTER + 0x43, CHARACTER + 0x44, 1, 0)],
    [(0, CHARACTER + 0x41, CHARACTER + 0x41, 1, 0), (0, CHARACTER + 0x43, CHARACTER + 0x43, 1, COUNT)],
])
def test_characters_that_could_be_misread_are_refused(edges):
    with pytest.raises(BrokenGrammar):
        verify(Grammar((Rule("r", "", 2, pack_edges(edges), (), (1,), Counter(0, 9)),), 0))
