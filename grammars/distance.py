"""Law 4: how many bytes each state needs, at least, to finish its frame (Knuth's generalisation of Dijkstra, 1977).

A byte edge costs 1 when some byte of it is a token of its own, else it is closed to this path; a call costs what its
rule costs from its start. A path over one-byte tokens can always be emitted, so its length in bytes is a safe upper
bound of the tokens needed: masks allow longer tokens and other ways, never fewer. Forced text (law 5) keeps the bound:
its tokens spell the same bytes in no more tokens.

Registers only grow, so the columns of a rule are solved from the last to the first, each to its own fixed point; rules
are solved callees first, again whenever a callee became nearer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .errors import MissingByte, Unsatisfiable
from .finishing import finish
from .ir import CLOSE_KEY, KEY, NOTHING, OPEN_KEY, Grammar
from .jit import kernel
from .member_costs import MembersProblem
from .tables import (
    COUNTER,
    DISTINCT,
    FAR,
    HIGH,
    KIND,
    LOW,
    MEMBERS,
    NEXT,
    PLATEAU,
    Layout,
    Tables,
    build_tables,
    byte_edges,
)

_i8, _i44, _i4, _u1 = types.int64, types.int32[:, ::1], types.int32[::1], types.uint8[::1]


@kernel(_i8(_i8, _i8, _i8, _i4, _i4))
def _next_column(kind, action, column, bounds, following):  # type: ignore[no-untyped-def]
    """The column after an action, or -1. bounds: the row of Tables.rules; following: its next_required."""
    low = bounds[LOW]
    if action == NOTHING:
        return column
    if kind == COUNTER:
        high, plateau = bounds[HIGH], bounds[PLATEAU]
        if column < low or (high >= 0 and column >= low and not (column == low and plateau > low)):
            last = low if high < 0 else low + high - plateau
            return column + 1 if column < last else _i8(-1)
        return column
    after = following[min(column, low)]
    if action >= KEY:
        j = action - KEY
        return j + 1 if column <= j and after >= j else _i8(-1)
    if action == OPEN_KEY:
        return _i8(low) if column <= low and after >= low else _i8(-1)
    return column


@kernel(_i8(_i8, _i8, _i44, _i4, _i8, _i8))
def _through(kind, low, distance, edge, column, after):  # type: ignore[no-untyped-def]
    """The cost of an edge (source, target, action, cost) that leads to column `after`, from its target on included."""
    target, action, cost = edge[1], edge[2], edge[3]
    if kind == DISTINCT and column == low + 2 and action == OPEN_KEY:
        return _i8(cost)
    if after < 0:
        return _i8(FAR)
    rest = distance[target, after]
    if kind == DISTINCT and action == CLOSE_KEY and column == low and distance[target, low + 1] < FAR:
        rest = distance[target, low + 1]
    return min(_i8(FAR), _i8(cost) + _i8(rest))


@kernel(types.boolean(_i8, _i8, _i4, _i4))
def _may_return(kind, column, bounds, following):  # type: ignore[no-untyped-def]
    low = bounds[LOW]
    if kind == COUNTER:
        return column >= low
    return following.size == 0 or following[min(column, low)] >= low


@kernel(types.void(_i44, _u1, _i44, _i8, _i4, _i4, _i4))
def _solve(edges, finals, distance, kind, bounds, following, order):  # type: ignore[no-untyped-def]
    """Fills distance [states, columns] of one rule. edges: (source, target, action, cost), by source descending."""
    low = bounds[LOW]
    for column in order:
        frozen = kind == DISTINCT and column == low + 2
        may_return = not frozen and _may_return(kind, column, bounds, following)
        for s in range(finals.size):
            distance[s, column] = 0 if may_return and finals[s] == 1 else FAR
        changed = True
        while changed:
            changed = False
            for e in range(edges.shape[0]):
                if edges[e, 3] >= FAR:
                    continue
                after = _next_column(kind, edges[e, 2], column, bounds, following)
                cost = _through(kind, low, distance, edges[e], column, after)
                if cost < distance[edges[e, 0], column]:
                    distance[edges[e, 0], column] = cost
                    changed = True


class _RuleProblem:
    """One rule's part of the fixed point."""

    def __init__(self, tables: Tables, grammar: Grammar, layout: Layout, index: int, available: Any) -> None:
        rule = grammar.rules[index]
        self.calls = rule.calls
        self.bounds = tables.rules[index]
        offset, columns, base = layout.offsets[index], layout.columns[index], layout.bases[index]
        self.distance = tables.distance[base: base + rule.states * columns].reshape(rule.states, columns)
        self.kind = int(tables.states[offset, KIND])
        self.finals = np.zeros(rule.states, np.uint8)
        self.finals[list(rule.finals)] = 1
        low = int(self.bounds[LOW])
        following = tables.next_required[self.bounds[NEXT]: self.bounds[NEXT] + low + 1]
        self.following = following.copy() if COUNTER < self.kind < MEMBERS else np.zeros(0, np.int32)
        last_first = list(range(columns - 1, -1, -1))
        if self.kind == DISTINCT:
            last_first = [low + 1, low + 2, *range(low, -1, -1)]
        self.order = np.array(last_first, np.int32)
        self._edges(byte_edges(rule), available)
        self._members = None
        if self.kind == MEMBERS:
            self._members = MembersProblem(tables, rule, index, self.edges, self.call_places, self.distance, available)

    def _edges(self, quintuples: Any, available: Any) -> None:
        reach = np.concatenate([[0], np.cumsum(available, dtype=np.int64)])
        open_edges = reach[quintuples[:, 2] + 1] > reach[quintuples[:, 1]]
        by_byte = np.stack([quintuples[:, 0], quintuples[:, 3], quintuples[:, 4],
                            np.where(open_edges, 1, FAR)], axis=1)
        by_call = np.array([(c.source, c.target, c.action, FAR) for c in self.calls], np.int64).reshape(-1, 4)
        rows = np.concatenate([by_byte, by_call])
        order = np.argsort(-rows[:, 0], kind="stable")
        self.edges = np.ascontiguousarray(rows[order], np.int32)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self.call_places = place[len(by_byte):]

    def solve(self, starts: list[int]) -> int:
        """Solves with the callees' costs `starts`; returns this rule's own cost from its start."""
        if self._members is not None:
            return self._members.solve(starts)
        for call, at in zip(self.calls, self.call_places, strict=True):
            self.edges[at, 3] = starts[call.rule]
        _solve(self.edges, self.finals, self.distance, self.kind, self.bounds, self.following, self.order)
        return int(self.distance[0, 0])

    def finish(self) -> None:
        """Once all rules are solved."""
        if self._members is not None:
            self._members.finish()


def _callees_first(grammar: Grammar) -> list[int]:
    """All rules in post-order of the calls, by an explicit stack."""
    order: list[int] = []
    seen: set[int] = set()
    for root in (grammar.start, *range(len(grammar.rules))):
        stack = [(root, False)]
        while stack:
            index, done = stack.pop()
            if done:
                order.append(index)
            elif index not in seen:
                seen.add(index)
                stack.append((index, True))
                stack += [(call.rule, False) for call in grammar.rules[index].calls]
    return order


def _fill(tables: Tables, grammar: Grammar, layout: Layout, available: Any) -> int:
    """Solves all rules; returns the start rule's cost, FAR when it cannot finish."""
    tables.distance[:] = FAR
    problems = [_RuleProblem(tables, grammar, layout, i, available) for i in range(len(grammar.rules))]
    callers: list[set[int]] = [set() for _ in problems]
    for index, rule in enumerate(grammar.rules):
        for call in rule.calls:
            callers[call.rule].add(index)
    order = _callees_first(grammar)
    starts = [FAR] * len(problems)
    dirty = set(order)
    while dirty:
        for index in order:
            if index in dirty:
                dirty.discard(index)
                cost = problems[index].solve(starts)
                if cost < starts[index]:
                    starts[index] = cost
                    dirty |= callers[index]
    for problem in problems:
        problem.finish()
    return starts[grammar.start]


def compile_tables(grammar: Grammar, layout: Layout, single: Any) -> Tables:
    """Tables with distances, dead edges removed. single: uint8 [256], bytes that are tokens of their own.

    Raises MissingByte when only bytes without a token stand in the way, Unsatisfiable when no text fits at all.
    """
    tables = build_tables(grammar, layout, single)
    if _fill(tables, grammar, layout, single) >= FAR:
        raise _cause(tables, grammar, layout, single)
    finish(tables, layout)
    return tables


def _cause(tables: Tables, grammar: Grammar, layout: Layout, single: Any) -> MissingByte | Unsatisfiable:
    root = grammar.rules[grammar.start]
    available = np.ones(256, np.uint8)
    if _fill(tables, grammar, layout, available) >= FAR:
        return Unsatisfiable(f"no finite text fits {root.name}", where=root.pointer)
    for byte in np.flatnonzero(single == 0).tolist():
        available[byte] = 0
        if _fill(tables, grammar, layout, available) >= FAR:
            break
    return MissingByte(f"every text of this constraint needs the byte 0x{byte:02X}, which no token is",
                       where=root.pointer, fix="Use a model whose vocabulary has that byte.")
