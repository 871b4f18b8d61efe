"""Texts over characters and special tokens: how the delimiters of tags are cut, and the automaton that looks for them.

A symbol is a code point, or FIRST_SPECIAL + k for the k-th special token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..automata.dfa import Dfa, Edge
from ..limits import Meter

FIRST_SPECIAL = 0x110000
Symbols = tuple[int, ...]
_CHARACTERS = ((0, 0xD7FF), (0xE000, FIRST_SPECIAL - 1))


def symbols(text: str, specials: Sequence[str]) -> Symbols:
    """The text with its special tokens as symbols, the longest at each place. Raises ValueError for a surrogate."""
    longest_first = sorted(range(len(specials)), key=lambda k: -len(specials[k]))
    found: list[int] = []
    at = 0
    while at < len(text):
        here = next((k for k in longest_first if specials[k] and text.startswith(specials[k], at)), None)
        if here is None:
            if 0xD800 <= ord(text[at]) <= 0xDFFF:
                raise ValueError("a lone surrogate is not a character")
            found.append(ord(text[at]))
            at += 1
        else:
            found.append(FIRST_SPECIAL + here)
            at += len(specials[here])
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Search:
    """Free text up to the first of some patterns (Aho and Corasick, 1975).

    dfa: states below `inside` are in free text, none of whose prefixes holds a pattern. State inside + k is the end of
    pattern k. Special tokens are symbols of the edges.
    """

    dfa: Dfa
    inside: int


def search(patterns: Sequence[Symbols], forbidden: Sequence[Symbols], meter: Meter) -> Search:
    """No pattern may hold another. forbidden: free text does not hold these either, and nothing follows them."""
    trie: list[dict[int, int]] = [{}]
    ends: dict[int, int] = {}
    for number, pattern in enumerate((*patterns, *forbidden)):
        ends.setdefault(_insert(trie, pattern, meter), number if number < len(patterns) else -1)
    go: list[Mapping[int, int]] = [{} for _ in trie]
    go[0] = trie[0]
    queue = list(trie[0].values())
    fallback = dict.fromkeys(queue, 0)
    for state in queue:  # grows while it runs; shallower states come first
        below = fallback[state]
        if ends.get(below) is not None and ends.get(state) is None:
            ends[state] = ends[below]
        go[state] = {**go[below], **trie[state]}
        for symbol, target in trie[state].items():
            fallback[target] = go[below].get(symbol, 0)
            queue.append(target)
        meter.states(0)
    return _numbered(go, ends, len(patterns))


def _insert(trie: list[dict[int, int]], pattern: Symbols, meter: Meter) -> int:
    state = 0
    for symbol in pattern:
        if symbol not in trie[state]:
            trie[state][symbol] = len(trie)
            trie.append({})
            meter.states(1)
        state = trie[state][symbol]
    return state


def _numbered(go: Sequence[Mapping[int, int]], ends: Mapping[int, int], patterns: int) -> Search:
    """Free states first, then the ends of the patterns; edges into what is forbidden are left out."""
    free = [state for state in range(len(go)) if state not in ends]
    numbers = {state: i for i, state in enumerate(free)}
    targets = {state: numbers[state] if state in numbers else len(free) + ends[state] if ends[state] >= 0 else -1
               for state in range(len(go))}
    rows = [_row({symbol: targets[to] for symbol, to in go[state].items()}) for state in free]
    return Search(Dfa((*rows, *([()] * patterns)), frozenset(range(len(free)))), len(free))


def _row(moves: Mapping[int, int]) -> tuple[Edge, ...]:
    """All characters lead to state 0 where `moves` says nothing else; -1: nowhere."""
    row: list[Edge] = []
    ordered = sorted(moves)
    for first, last in _CHARACTERS:
        low = first
        for symbol in ordered:
            if first <= symbol <= last:
                if low < symbol:
                    row.append((low, symbol - 1, 0))
                if moves[symbol] >= 0:
                    row.append((symbol, symbol, moves[symbol]))
                low = symbol + 1
        if low <= last:
            row.append((low, last, 0))
    row += [(symbol, symbol, moves[symbol]) for symbol in ordered if symbol >= FIRST_SPECIAL and moves[symbol] >= 0]
    return tuple(row)
