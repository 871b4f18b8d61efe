"""What is told of a list in which two items must be equal before any answer: what its states are, its cheapest ones."""

from __future__ import annotations

from collections.abc import Sequence

from .flat import SOURCE, TARGET
from .ir import AGAIN, ANYWAY, COPY, NOTHING, Unlike
from .tables import (
    ALIKE,
    BASE,
    BOTH,
    COPIED,
    FAR,
    FREELY,
    LASTLY,
    MAYBE,
    PART,
    SAME,
    START,
    TWICE,
    Layout,
    Tables,
)


def mark_alike(tables: Tables, layout: Layout) -> None:
    """Fills ALIKE of the rules of such lists, and PART, SAME and BOTH of their states in place. Distances are known."""
    for index, rule in enumerate(layout.rules):
        if isinstance(rule.register, Unlike) and rule.register.alike and rule.calls:
            tables.rules[index, ALIKE] = 1
            _mark_parts(tables, layout, index)


def _mark_parts(tables: Tables, layout: Layout, index: int) -> None:
    rule, start, states = layout.rules[index], layout.offsets[index], tables.states
    parts = {AGAIN: TWICE, COPY: COPIED, ANYWAY: FREELY, NOTHING: LASTLY}
    ways: dict[int, list[int]] = {}
    for source, target in layout.flat.edges_of(index)[:, [SOURCE, TARGET]].tolist():
        ways.setdefault(source, []).append(target)
    new: dict[int, list[int]] = {}  # by the rule of an item that may come again, where it leads
    for call in rule.calls:
        states[start + call.target, PART] = parts[call.action]
        if call.action == NOTHING:
            new.setdefault(call.rule, []).append(call.target)
    if len({call.rule for call in rule.calls}) > 1:
        for call in rule.calls:
            if call.action == ANYWAY:
                ways.setdefault(call.source, []).append(call.target)
    for called, targets in new.items():
        cheapest = int(tables.distance[states[int(tables.rules[called, START]), BASE]])
        for state in _behind(targets, ways):
            states[start + state, SAME], states[start + state, BOTH] = cheapest, FAR
    if len({call.rule for call in rule.calls}) == 1:
        _mark_both(tables, layout, index, ways)


def _mark_both(tables: Tables, layout: Layout, index: int, ways: dict[int, list[int]]) -> None:
    """Where all items are of one rule, each of two that are equal may be the next."""
    calls, start = layout.rules[index].calls, layout.offsets[index]
    sources, new = {call.source for call in calls}, {call.source for call in calls if call.action == NOTHING}
    for target in {call.target for call in calls if call.action == NOTHING}:
        behind = _behind([target], ways)
        if new.isdisjoint(behind):
            continue
        comma = min(far for state, far in behind.items() if state in sources)
        tables.states[start + target, PART] = MAYBE
        for state in behind:
            row = tables.states[start + state]
            row[BOTH] = min(FAR, 2 * int(row[SAME]) + comma)


def _behind(starts: Sequence[int], ways: dict[int, list[int]]) -> dict[int, int]:
    """The states behind these, and how far."""
    far = dict.fromkeys(starts, 0)
    for state in (queue := list(far)):  # grows while it runs
        for follower in ways.get(state, ()):
            if follower not in far:
                far[follower] = far[state] + 1
                queue.append(follower)
    return far
