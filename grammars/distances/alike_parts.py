"""What is told of a list in which two items must be equal before any answer: what its states are, its cheapest ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..binding.flat import SOURCE, TARGET
from ..binding.tables import (
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
from ..ir import AGAIN, ANYWAY, COPY, NOTHING, Unlike


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
    before: dict[int, list[int]] = {}
    for source, targets in ways.items():
        for target in targets:
            before.setdefault(target, []).append(source)
    cheapest: dict[int, int] = {}  # of the items that may come again, by the state before them
    for call in rule.calls:
        states[start + call.target, PART] = parts[call.action]
        if call.action in (AGAIN, COPY):
            cost = int(tables.distance[states[int(tables.rules[call.rule, START]), BASE]])
            cheapest[call.source] = min(cost, cheapest.get(call.source, FAR))
        else:
            before.setdefault(call.target, []).append(call.source)
    for cost in sorted(set(cheapest.values()), reverse=True):
        for state in _behind([state for state, least in cheapest.items() if least == cost], before):
            states[start + state, SAME], states[start + state, BOTH] = cost, FAR
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
