"""What a free key of an object in schema order costs at most, where several must come: law 4 at compile time.

An object that must have n free keys has fewer than n before each of them. So one of the n cheapest is still free, and
what the dearest of these has more than the cheapest is a price that holds whatever was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .flat import ACTION, CALL_TARGET, DISTINCT, OWNER, SOURCE, TARGET, Flat
from .ir import CLOSE_KEY, NOTHING, OPEN_KEY
from .jit import entry

_i4, _i8s, _i88 = types.int32[::1], types.int64[::1], types.int64[:, ::1]
_MANY = 1 << 20
_LONGEST = 4_096  # bytes of a key that are looked at


def free_key_prices(flat: Flat, starts: Any, available: Any) -> dict[int, tuple[int, int]]:
    """By rule, the n free keys that it must have at most, and how many bytes the n-th cheapest has more than the
    cheapest; objects of at most one are left out. starts: by rule, its first state. available: uint8 [256], 1 for bytes
    that are tokens of their own."""
    need = np.full(int(flat.states.sum()), _MANY, np.int32)
    need[starts[flat.finals[:, 0]] + flat.finals[:, 1]] = 0
    _count_keys(flat.edges, flat.calls, starts, need)
    need[need == _MANY] = 0
    most = np.maximum.reduceat(need, starts)
    return {rule: (int(most[rule]), _price(flat, rule, int(most[rule]), available))
            for rule in np.flatnonzero((most > 1) & (flat.kinds == DISTINCT)).tolist()}


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


def _price(flat: Flat, rule: int, least: int, available: Any) -> int:
    arcs: dict[int, list[tuple[int, int]]] = {}
    starts, ends = set[int](), set[int]()
    for _, source, low, high, target, action in flat.edges_of(rule).tolist():
        ways = int(available[low: high + 1].sum())
        if action == OPEN_KEY:
            starts.add(target)
        elif action == CLOSE_KEY and ways:
            ends.add(source)
        elif action == NOTHING and ways:
            arcs.setdefault(source, []).append((target, ways))
    endless = set(flat.calls[flat.calls[:, OWNER] == rule][:, SOURCE].tolist())
    return max((_further(start, arcs, ends, endless, least) for start in starts), default=0)


def _further(start: int, arcs: dict[int, list[tuple[int, int]]], ends: set[int], endless: set[int], least: int) -> int:
    """How many bytes the `least`-th of the keys that begin in one state, or the last, has more than the first. A called
    body is presumed endless: within two bytes it has as many as are asked for."""
    here, found, cheapest, last = {start: 1}, 0, -1, 0
    for length in range(_LONGEST):
        more = sum(ways for state, ways in here.items() if state in ends)
        if more and cheapest < 0:
            cheapest = length
        found, last = found + more, length if more else last
        if found >= least or not here:
            break
        if not endless.isdisjoint(here):
            return length + 2 - max(cheapest, 0)
        following: dict[int, int] = {}
        for state, ways in here.items():
            for target, many in arcs.get(state, ()):
                following[target] = min(_MANY, following.get(target, 0) + ways * many)
        here = following
    return max(last - max(cheapest, 0), 0)
