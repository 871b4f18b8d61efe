"""What is told of a list in which two items must be equal before any answer: what its states are, its cheapest item."""

from __future__ import annotations

from .flat import SOURCE, TARGET
from .ir import AGAIN, ANYWAY, COPY, Unlike
from .tables import (
    BASE,
    CHEAPEST,
    COPIED,
    FAR,
    FREELY,
    LASTLY,
    MAYBE,
    PART,
    START,
    TWICE,
    TWO,
    Layout,
    Tables,
)


def mark_alike(tables: Tables, layout: Layout) -> None:
    """Fills CHEAPEST and TWO of the rules of such lists and PART of their states in place. Distances are known."""
    for index, rule in enumerate(layout.rules):
        if not isinstance(rule.register, Unlike) or not rule.register.alike:
            continue
        again = [call for call in rule.calls if call.action in (AGAIN, COPY)]
        if not again:
            continue
        start = int(tables.rules[again[0].rule, START])
        cheapest = int(tables.distance[tables.states[start, BASE]])
        tables.rules[index, CHEAPEST] = cheapest
        comma = _mark_parts(tables, layout, index)
        tables.rules[index, TWO] = min(FAR, 2 * cheapest + comma)


def _mark_parts(tables: Tables, layout: Layout, index: int) -> int:
    """Returns the bytes between two items."""
    rule, start = layout.rules[index], layout.offsets[index]
    parts, comma = {AGAIN: TWICE, COPY: COPIED, ANYWAY: FREELY}, 0
    new = {call.source for call in rule.calls if call.action not in parts}
    ways: dict[int, list[int]] = {}
    for source, target in layout.flat.edges_of(index)[:, [SOURCE, TARGET]].tolist():
        ways.setdefault(source, []).append(target)
    sources = {call.source for call in rule.calls}
    for call in rule.calls:
        if call.action in parts:
            tables.states[start + call.target, PART] = parts[call.action]
            continue
        far = {call.target: 0}
        for state in (queue := [call.target]):  # grows while it runs
            for target in ways.get(state, ()) if state not in sources else ():
                if target not in far:
                    far[target] = far[state] + 1
                    queue.append(target)
        before = next(state for state in queue if state in sources)
        comma = far[before]
        for state in queue:
            tables.states[start + state, PART] = MAYBE if before in new else LASTLY
    return comma
