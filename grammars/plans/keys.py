"""Automata over the free keys of an object: which schemas the value of a key must fit is told by where the key ends."""

from __future__ import annotations

from ..automata.dfa import Dfa, explore, overlay, trim
from ..automata.minimise import minimise
from ..limits import Meter


def labelled(parts: list[Dfa], meter: Meter) -> tuple[Dfa, dict[int, tuple[bool, ...]]]:
    """The texts of the first part, with the verdicts of all parts for each final state."""
    if len(parts) == 1:
        return parts[0], dict.fromkeys(parts[0].finals, (True,))
    order: list[tuple[int, ...]] = []

    def step(states: tuple[int, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
        order.append(states)
        rows = [parts[i].edges[s] if s >= 0 else () for i, s in enumerate(states)]
        return [arc for arc in overlay(rows) if arc[2][0] >= 0]

    dfa = explore((0,) * len(parts), step, lambda states: states[0] in parts[0].finals, meter)
    verdicts = {i: tuple(s in parts[k].finals for k, s in enumerate(order[i])) for i in dfa.finals}
    return dfa, verdicts


def relabel(dfa: Dfa, labels: dict[int, int]) -> tuple[Dfa, dict[int, int]]:
    """Keep only the labelled finals, trimmed and minimised with the labels told apart."""
    # A private symbol per label, above all characters, keeps finals of different labels apart.
    end = len(dfa.edges)
    rows = [list(row) for row in dfa.edges]
    for state, label in labels.items():
        rows[state].append((0x110000 + label, 0x110000 + label, end))
    marked = minimise(trim(Dfa(tuple(tuple(row) for row in [*rows, []]), frozenset([end]))))
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
