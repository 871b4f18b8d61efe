"""Automata over the free keys of an object: which schemas the value of a key must fit is told by where the key ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..automata import charset
from ..automata.dfa import Dfa, explore, overlay, trim
from ..automata.minimise import minimise
from ..limits import Meter
from ..schemas.strings import ANY_CHARACTERS

_Arc = tuple[int, int, tuple[int, ...]]


def labelled(parts: list[Dfa], meter: Meter) -> tuple[Dfa, dict[int, tuple[bool, ...]]]:
    """The texts of the first part, with the verdicts of all parts for each final state."""
    if len(parts) == 1:
        return parts[0], dict.fromkeys(parts[0].finals, (True,))
    if parts[0] is ANY_CHARACTERS:
        return _told_apart(parts[1:], meter)
    order: list[tuple[int, ...]] = []

    def step(states: tuple[int, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
        order.append(states)
        rows = [parts[i].edges[s] if s >= 0 else () for i, s in enumerate(states)]
        return [arc for arc in overlay(rows) if arc[2][0] >= 0]

    dfa = explore((0,) * len(parts), step, lambda states: states[0] in parts[0].finals, meter)
    verdicts = {i: tuple(s in parts[k].finals for k, s in enumerate(order[i])) for i in dfa.finals}
    return dfa, verdicts


def _told_apart(parts: Sequence[Dfa], meter: Meter) -> tuple[Dfa, dict[int, tuple[bool, ...]]]:
    """All texts, with the verdicts of these parts, and before them True, for each state. No state is like another
    where the parts are minimal."""
    order: list[tuple[int, ...]] = []
    dead = (-1,) * len(parts)

    def step(states: tuple[int, ...]) -> list[_Arc]:
        order.append(states)
        rows = [part.edges[s] if s >= 0 else () for part, s in zip(parts, states, strict=True)]
        return _everywhere(overlay(rows), dead)

    dfa = explore((0,) * len(parts), step, lambda states: True, meter)
    finals = [part.finals for part in parts]
    return dfa, {i: (True, *[s in ends for s, ends in zip(states, finals, strict=True)])
                 for i, states in enumerate(order)}


def _everywhere(arcs: Iterable[_Arc], dead: tuple[int, ...]) -> list[_Arc]:
    """Arcs for all characters: these, and between them such that no part reads."""
    found: list[_Arc] = []
    at = 0
    for low, high, targets in arcs:
        if at < low:
            found += [(max(at, a), min(low - 1, b), dead) for a, b in charset.ALL if a < low and b >= at]
        found.append((low, high, targets))
        at = high + 1
    found += [(max(at, a), b, dead) for a, b in charset.ALL if b >= at]
    return found


def relabel(dfa: Dfa, labels: dict[int, int], *, apart: bool = False) -> tuple[Dfa, dict[int, int]]:
    """Keep only the labelled finals, trimmed and minimised with the labels told apart. apart: of no two states the
    same can follow, so nothing is left to minimise."""
    # A private symbol per label, above all characters, keeps finals of different labels apart.
    end = len(dfa.edges)
    rows = [list(row) for row in dfa.edges]
    for state, label in labels.items():
        rows[state].append((0x110000 + label, 0x110000 + label, end))
    marked = trim(Dfa(tuple(tuple(row) for row in [*rows, []]), frozenset([end])))
    if not apart:
        marked = minimise(marked)
    found: dict[int, int] = {}
    plain: list[tuple[tuple[int, int, int], ...]] = []
    for state, row in enumerate(marked.edges):
        plain.append(tuple(edge for edge in row if edge[0] < 0x110000))
        for low, _, _ in row:
            if low >= 0x110000:
                found[state] = low - 0x110000
    return Dfa(tuple(plain), frozenset(found)), found


def words_of(dfa: Dfa, limit: int) -> list[tuple[str, int]] | None:
    """All texts of a finite automaton with the state each ends in; None when there are more than `limit`."""
    found: list[tuple[str, int]] = []
    stack = [("", 0)]
    while stack:
        text, state = stack.pop()
        if state in dfa.finals:
            found.append((text, state))
        for low, high, target in reversed(dfa.edges[state]):
            if high - low >= limit:
                return None
            stack.extend((text + chr(code), target) for code in range(high, low - 1, -1))
        if len(found) > limit or len(stack) > limit * 4:
            return None
    return found
