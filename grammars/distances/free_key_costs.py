"""What a free key of an object in schema order costs at most, where several must come: law 4 at compile time.

An object that must have n free keys has fewer than n before each of them. So one of the n cheapest is still free, each
with its value, and what the dearest of these has more than the cheapest is a price that holds whatever was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.flat import ACTION, CALL_TARGET, DISTINCT, OWNER, SOURCE, TARGET, Flat
from ..binding.tables import BASE, FAR, LOW, RULE, Tables
from ..ir import CLOSE_KEY, NOTHING, OPEN_KEY
from ..jit import entry

_i4, _i8s, _i88 = types.int32[::1], types.int64[::1], types.int64[:, ::1]
_MANY = 1 << 20
_LONGEST = 4_096  # bytes of a key that are looked at


def several_free_keys(flat: Flat, starts: Any) -> dict[int, int]:
    """By rule, the n free keys that it must have at most; objects of at most one are left out. starts: by rule, its
    first state."""
    need = np.full(int(flat.states.sum()), _MANY, np.int32)
    need[starts[flat.finals[:, 0]] + flat.finals[:, 1]] = 0
    _count_keys(flat.edges, flat.calls, starts, need)
    need[need == _MANY] = 0
    most = np.maximum.reduceat(need, starts)
    return {rule: int(most[rule]) for rule in np.flatnonzero((most > 1) & (flat.kinds == DISTINCT)).tolist()}


@entry(types.void(_i88, _i88, _i8s, _i4))
def _count_keys(edges, calls, starts, need):  # type: ignore[no-untyped-def]
    """Makes `need` how many free keys must begin on the way from each state to the end, whatever the register."""
    changed = True
    while changed:
        changed = False
        for k in range(calls.shape[0] - 1, -1, -1):
            start = starts[calls[k, OWNER]]
            if need[start + calls[k, CALL_TARGET]] < need[start + calls[k, SOURCE]]:
                need[start + calls[k, SOURCE]] = need[start + calls[k, CALL_TARGET]]
                changed = True
        for e in range(edges.shape[0] - 1, -1, -1):
            start = starts[edges[e, OWNER]]
            there = need[start + edges[e, TARGET]] + (1 if edges[e, ACTION] == OPEN_KEY else 0)
            if there < need[start + edges[e, SOURCE]]:
                need[start + edges[e, SOURCE]] = there
                changed = True


def free_key_price(tables: Tables, flat: Flat, starts: Any, rule: int, least: int, available: Any) -> int:
    """How many bytes the `least`-th cheapest free key of a rule, or the last, has more than the cheapest, as distances
    are now. available: uint8 [256], 1 for bytes that are tokens of their own."""
    arcs: dict[int, list[tuple[int, int]]] = {}
    begins, ends = set[int](), dict[int, list[tuple[int, int]]]()
    for _, source, low, high, target, action in flat.edges_of(rule).tolist():
        ways = int(available[low: high + 1].sum())
        if action == OPEN_KEY:
            begins.add(target)
        elif action == CLOSE_KEY and ways:
            rest = _behind(tables, int(starts[rule]) + target)
            if rest < FAR:
                ends.setdefault(source, []).append((ways, rest))
        elif action == NOTHING and ways:
            arcs.setdefault(source, []).append((target, ways))
    endless = set(flat.calls[flat.calls[:, OWNER] == rule][:, SOURCE].tolist())
    return max((_further(begin, arcs, ends, endless, least) for begin in begins), default=0)


def _behind(tables: Tables, state: int) -> int:
    """Bytes from behind a free key to the end, without another one where that is possible."""
    row = tables.states[state]
    base = int(row[BASE] + tables.rules[row[RULE], LOW])
    alone = int(tables.distance[base + 1])
    return alone if alone < FAR else int(tables.distance[base])


def _further(begin: int, arcs: dict[int, list[tuple[int, int]]], ends: dict[int, list[tuple[int, int]]],
             endless: set[int], least: int) -> int:
    """What free_key_price gives, for keys that begin in one state. A called body is presumed endless: within two bytes
    it has as many as are asked for."""
    rests = [rest for found in ends.values() for _, rest in found]
    here, costs = {begin: 1}, dict[int, int]()  # by cost, how many keys
    for length in range(_LONGEST):
        for state, ways in here.items():
            for many, rest in ends.get(state, ()):
                costs[length + rest] = min(_MANY, costs.get(length + rest, 0) + ways * many)
        if not endless.isdisjoint(here):
            return length + 2 + max(rests) - min(costs, default=length + min(rests)) if rests else 0
        if not here or _nth(costs, least) <= length + min(rests, default=0):
            break
        following: dict[int, int] = {}
        for state, ways in here.items():
            for target, many in arcs.get(state, ()):
                following[target] = min(_MANY, following.get(target, 0) + ways * many)
        here = following
    found = _nth(costs, least)
    return (found if found < FAR else max(costs, default=0)) - min(costs, default=0)


def _nth(costs: dict[int, int], n: int) -> int:
    """The n-th least cost, FAR when there are not so many."""
    for cost in sorted(costs):
        n -= costs[cost]
        if n <= 0:
            return cost
    return FAR
