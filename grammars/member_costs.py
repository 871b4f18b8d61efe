"""The distances of objects whose keys come in any order (ir.Members): law 4 at compile time, for one rule at a time.

The columns of the distances (tables.py) know nothing of what was written; members.py puts them together with the set.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .context import CONTEXT_TYPE, Context
from .ir import CLOSE_KEY, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN, Members, Rule
from .jit import entry, inner
from .member_keys import MemberKeys
from .members import members_remaining, unwritten, within
from .tables import (
    ALONE,
    BEHIND_KEY,
    COMMA,
    COST,
    ENDING,
    FAR,
    FILLER,
    FIRST,
    FREE,
    HOME,
    MEETS,
    NEEDED,
    OTHER,
    OWED,
    RANKED,
    REACH,
    REACH_END,
    SIZE,
    START,
    WAY,
    Tables,
)

_i8, _i44, _u1 = types.int64, types.int32[:, ::1], types.uint8[::1]
# Lengths of keys that are looked at for as many free keys as a least number needs.
_LONGEST = 4_096
_MANY = 1 << 40


@inner(types.boolean(_i44, _i8, _i8, _i8))
def _nearer(distance, state, column, cost):  # type: ignore[no-untyped-def]
    if cost < distance[state, column]:
        distance[state, column] = cost
        return True
    return False


@entry(types.void(_i44, _u1, _i44))
def _solve(edges, finals, distance):  # type: ignore[no-untyped-def]
    """Fills the columns 1 .. MEETS of distance [states, columns]. edges: (source, target, action, cost)."""
    for s in range(finals.size):
        for c in range(distance.shape[1]):
            distance[s, c] = FAR
        if finals[s] == 1:
            distance[s, ALONE] = 0
    changed = True
    while changed:
        changed = False
        for e in range(edges.shape[0]):
            source, target, action, cost = _i8(edges[e, 0]), edges[e, 1], edges[e, 2], edges[e, 3]
            if cost >= FAR:
                continue
            if action == NOTHING:
                for c in range(1, distance.shape[1]):
                    if c != OTHER:
                        changed |= _nearer(distance, source, _i8(c), _i8(cost) + distance[target, c])
            elif action == OPEN_KEY:
                changed |= _nearer(distance, source, _i8(WAY), _i8(cost))
            elif action == WRITTEN:
                changed |= _nearer(distance, source, _i8(HOME), _i8(cost))
            elif action == MEET:
                changed |= _nearer(distance, source, _i8(MEETS), _i8(cost))
            elif action == CLOSE_KEY:
                changed |= _nearer(distance, source, _i8(FREE), _i8(cost) + distance[target, HOME])
                changed |= _nearer(distance, source, _i8(MEETS), _i8(cost) + distance[target, MEETS])
    changed = True
    while changed:
        changed = False
        for e in range(edges.shape[0]):
            source, target, action, cost = _i8(edges[e, 0]), edges[e, 1], edges[e, 2], edges[e, 3]
            if cost >= FAR:
                continue
            if action == NOTHING:
                changed |= _nearer(distance, source, _i8(OTHER), _i8(cost) + distance[target, OTHER])
            elif action == CLOSE_KEY and distance[target, MEETS] >= FAR:
                changed |= _nearer(distance, source, _i8(OTHER), _i8(cost) + distance[target, HOME])


@entry(types.void(CONTEXT_TYPE, _i8, _u1, _i44))
def _fill_unwritten(context, offset, finals, distance):  # type: ignore[no-untyped-def]
    """The column when nothing was written, of the rule whose states begin at `offset`."""
    for s in range(finals.size):
        distance[s, 0] = 0 if finals[s] == 1 else members_remaining(context, offset + s, _i8(0), _i8(0), _i8(0))


class MembersProblem:
    """One rule's part of the fixed point. edges: [n, 4] (source, target, action, cost) of all its edges, calls behind
    `call_places`, whose costs come with `solve`. context: with these tables, and an arena."""

    def __init__(self, context: Context, tables: Tables, rule: Rule, index: int, edges: Any, call_places: Any,
                 distance: Any, keys: MemberKeys) -> None:
        if not isinstance(rule.register, Members):
            raise TypeError("a rule without the register of Members")
        self._context = context
        self._tables = tables
        self._rule = rule
        self._register = rule.register
        self._edges = edges
        self._call_places = call_places
        self._distance = distance
        self._row = tables.rules[index]
        self._offset = int(self._row[START])
        begin, self._after, self._free = keys.of_rule[index].tolist()
        self._key = begin - self._offset if begin >= 0 else -1
        self._after -= self._offset
        self._declared = keys.reach[keys.begins[begin]: keys.begins[begin + 1]].tolist() if begin >= 0 else []
        self._ends = {action - KEY: target for _, target, action, _ in edges[edges[:, 2] >= KEY].tolist()}
        self._finals = np.zeros(len(distance), np.uint8)
        self._finals[list(rule.finals)] = 1

    def solve(self, starts: list[int]) -> int:
        """Solves with the callees' costs `starts`; returns this rule's own cost from its start."""
        for call, at in zip(self._rule.calls, self._call_places, strict=True):
            self._edges[at, 3] = starts[call.rule]
        _solve(self._edges, self._finals, self._distance)
        if self._key >= 0:
            behind = {j: int(self._distance[end, HOME]) for j, end in self._ends.items()}
            self._price(self._declared, behind)
            if self._free and self._register.least > self._row[NEEDED]:
                self._row[FILLER] = self._filler(self._register.least + 2)
            self._begin()
        return int(unwritten(self._context.address, self._offset))

    def shortened(self) -> None:
        """To be called once the distances count tokens, and `reach` those through a key and its value: the prices,
        and the column of the distances when nothing was written. What a free property costs stays."""
        if self._key >= 0:
            begin, end = self._tables.states[self._offset + self._key, REACH:REACH_END + 1].tolist()
            self._price(self._tables.reach[begin:end].tolist(), dict.fromkeys(self._ends, 0))
            self._begin()
        self.in_bytes()

    def in_bytes(self) -> None:
        """To be called where the distances stay bytes: the column of the distances when nothing was written."""
        _fill_unwritten(self._context.address, self._offset, self._finals, self._distance)

    def _begin(self) -> None:
        """The distance where a key begins and nothing was written."""
        key = self._offset + self._key
        self._distance[self._key, 0] = within(self._context.address, key, 0, 0, 0, 0)

    def _price(self, declared: list[list[int]], behind: dict[int, int]) -> None:
        """What each property costs, and what the frame's other ways cost. declared: rows of `reach` where a key begins;
        behind: by declared key, what follows that."""
        row, distance = self._row, self._distance
        members = self._tables.members[row[FIRST]: row[FIRST] + row[SIZE]]
        row[ENDING], row[COMMA] = distance[self._after, ALONE], distance[self._after, WAY]
        members[:, COST] = members[:, BEHIND_KEY] = FAR
        for j, far in declared:
            members[j, BEHIND_KEY] = behind[j]
            members[j, COST] = min(FAR, int(row[COMMA]) + far + int(members[j, BEHIND_KEY]))
        costs: list[int] = members[:, COST].tolist()
        row[OWED] = min(FAR, sum(cost for cost, must in zip(costs, self._register.required, strict=True) if must))
        if self._register.least > row[NEEDED]:
            self._rank(members, costs)

    def _rank(self, members: Any, costs: list[int]) -> None:
        optional = sorted((j for j, cost in enumerate(costs) if cost < FAR and not self._register.required[j]),
                          key=costs.__getitem__)
        members[:, RANKED] = -1
        members[:len(optional), RANKED] = optional

    def _filler(self, rank: int) -> int:
        """The cost with its comma of the `rank`-th cheapest free property, or more; FAR when there are not so many."""
        ends, arcs = self._free_arcs()
        here, found, worst = {self._key: 1}, 0, 0
        for length in range(_LONGEST):
            for state, ways in here.items():
                for target in ends.get(state, ()):
                    found += ways
                    worst = max(worst, length + 1 + int(self._distance[target, HOME]))
            if found >= rank:
                return min(FAR, int(self._row[COMMA]) + worst)
            following: dict[int, int] = {}
            for state, ways in here.items():
                for target, many in arcs.get(state, ()):
                    following[target] = min(_MANY, following.get(target, 0) + ways * many)
            here = following
        return FAR

    def _free_arcs(self) -> tuple[dict[int, list[int]], dict[int, list[tuple[int, int]]]]:
        """(states behind the free keys that end in a state, targets of a state and by how many bytes)."""
        ends: dict[int, list[int]] = {}
        arcs: dict[int, list[tuple[int, int]]] = {}
        for source, target, action, cost in self._edges.tolist():
            if action == CLOSE_KEY and cost < FAR and self._distance[target, HOME] < FAR:
                ends.setdefault(source, []).append(target)
            elif action == NOTHING and cost < FAR:
                arcs.setdefault(source, []).append((target, 1))
        return ends, arcs
