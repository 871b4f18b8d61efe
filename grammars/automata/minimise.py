"""An equivalent automaton with fewer states."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .dfa import Dfa, Edge, merged_row

# Edges looked at; beyond this much work the automaton stays as it is, which is correct and only larger.
_MINIMISE_WORK = 2_000_000


def minimise(dfa: Dfa) -> Dfa:
    """An equivalent automaton with as few states as is cheap to find. Takes a trimmed one.

    Refinement after Hopcroft (1971): of a class that falls apart the largest part keeps its number, so that a state is
    renumbered, and what leads to it looked at again, at most log2(states) times.
    """
    size = len(dfa.edges)
    classes = [1 if s in dfa.finals else 0 for s in range(size)]
    members = [{s for s in range(size) if classes[s] == kind} for kind in (0, 1)]
    backward: list[list[int]] = [[] for _ in dfa.edges]
    for source, row in enumerate(dfa.edges):
        for target in {target for _, _, target in row}:
            backward[target].append(source)
    work, changed = 0, set(range(size))
    while changed:
        touched: dict[int, list[int]] = {}
        for state in changed:
            touched.setdefault(classes[state], []).append(state)
        moved: list[Collection[int]] = []
        for kind, states in touched.items():
            if len(members[kind]) > 1:
                work += sum(len(dfa.edges[s]) for s in states)
                moved.extend(_leaving(dfa, classes, members, kind, states))
        if work > _MINIMISE_WORK:
            return dfa
        # Numbers change only now: until here all rows were read with the old ones.
        changed = set()
        for part in moved:
            for state in part:
                classes[state] = len(members)
                changed.update(backward[state])
            members.append(set(part))
    return _quotient(dfa, _by_appearance(classes)) if sum(map(bool, members)) < size else dfa


def _leaving(dfa: Dfa, classes: Sequence[int], members: list[set[int]], kind: int,
             states: Sequence[int]) -> list[Collection[int]]:
    """Parts of a class that leave it, when the rows of `states` may have changed; those of its others are alike."""
    whole = members[kind]
    groups: dict[tuple[Edge, ...], list[int]] = {}
    for state in states:
        groups.setdefault(tuple(merged_row(dfa.edges[state], classes)), []).append(state)
    others = len(whole) - len(states)
    if others:
        fresh = set(states)
        like_others = tuple(merged_row(dfa.edges[next(s for s in whole if s not in fresh)], classes))
        joined = groups.pop(like_others, [])
        parts: list[Collection[int]] = [*groups.values()]
        if others + len(joined) >= max(map(len, parts), default=0):
            whole.difference_update(*parts)
            return parts
        parts.append(whole.difference(*parts))
    else:
        parts = [*groups.values()]
    parts.sort(key=len)
    members[kind] = set(parts.pop())
    return parts


def _by_appearance(classes: Sequence[int]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(kind, len(numbers)) for kind in classes]


def _quotient(dfa: Dfa, classes: Sequence[int]) -> Dfa:
    # The first state of a class speaks for it; classes are numbered by first appearance, so the start is class 0.
    rows: dict[int, tuple[Edge, ...]] = {}
    for state, kind in enumerate(classes):
        if kind not in rows:
            rows[kind] = tuple(merged_row(dfa.edges[state], classes))
    return Dfa(tuple(rows[k] for k in range(len(rows))), frozenset(classes[s] for s in dfa.finals))
