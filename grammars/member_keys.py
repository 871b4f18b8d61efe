"""What can be told of an object in any order (ir.Members) from its automaton alone: which states lie inside keys, and
which declared keys can still be finished from each."""

from __future__ import annotations

from typing import Any, NamedTuple

from .ir import CLOSE_KEY, KEY, NOTHING, OPEN_KEY, WRITTEN, Call, Members

# where a state lies
OUTSIDE, INSIDE, BEHIND = 0, 1, 2  # between properties; inside a key; behind a key, up to the end of the value


class MemberKeys(NamedTuple):
    """parts[state]. reach[state]: (declared key, bytes up to its closing quote, included), of those that can be spelled
    in bytes that are tokens. ends[j]: the state behind declared key j, -1 for none. start: before the first character
    of a key, -1 when there are no keys. after: behind a value. free: whether free keys may be written."""

    parts: list[int]
    reach: list[list[tuple[int, int]]]
    ends: list[int]
    start: int
    after: int
    free: bool


def member_keys(register: Members, edges: Any, calls: tuple[Call, ...], states: int, single: Any) -> MemberKeys:
    """edges: of the rule, as flat.py has them; states: how many. single: [256], 1 for bytes that are tokens alone."""
    edges = edges[:, 1:].tolist()
    declared = len(register.required)
    plain: list[list[int]] = [[] for _ in range(states)]
    backward: list[list[int]] = [[] for _ in range(states)]
    for source, low, high, target, action in edges:
        if action == NOTHING:
            plain[source].append(target)
            if any(single[byte] for byte in range(low, high + 1)):
                backward[target].append(source)
    parts = [OUTSIDE] * states
    starts = [target for _, _, _, target, action in edges if action == OPEN_KEY]
    _spread(starts, plain, parts, INSIDE)
    _spread([target for _, _, _, target, action in edges if action == CLOSE_KEY or action >= KEY], plain, parts, BEHIND)
    ends = [-1] * declared
    reach: list[list[tuple[int, int]]] = [[] for _ in range(states)]
    for source, low, _, target, action in edges:
        if action >= KEY and single[low]:
            ends[action - KEY] = target
            for state, far in _distances(source, backward).items():
                reach[state].append((action - KEY, far + 1))
    after = next((call.target for call in calls if call.action == WRITTEN), -1)
    free = any(action == CLOSE_KEY for *_, action in edges)
    return MemberKeys(parts, reach, ends, starts[0] if starts else -1, after, free)


def _spread(starts: list[int], arcs: list[list[int]], parts: list[int], part: int) -> None:
    todo = list(starts)
    while todo:
        state = todo.pop()
        if parts[state] != part:
            parts[state] = part
            todo += arcs[state]


def _distances(end: int, backward: list[list[int]]) -> dict[int, int]:
    """Bytes to `end` from every state that leads there."""
    found = {end: 0}
    queue = [end]
    for state in queue:  # grows while it runs
        for source in backward[state]:
            if source not in found:
                found[source] = found[state] + 1
                queue.append(source)
    return found
