"""The fewest tokens to the end, exactly, for regular expressions and choices: automata, in which registers may count
long repetitions.

The shortest path in automaton times vocabulary: a breadth-first search goes backwards from the ends over what each
token does (token_moves.py). A place is a state and, where a register counts, a column (tables.py). Once a register has
its minimum, of the tokens that lead from one state to another those with the fewest counts are as good as any, and a
shortest path needs each state once. So it has no more counts than `room` says; where the maximum is further, registers
are one column.

A counting frame's distance is what its text needs to its end, less what the state behind its call needs: the sum of
both, which the engine makes, is exact. So it is negative where a token across the border saves more than the frame has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, Context, Part, rules_of, states_of
from ..binding.flat import CALL_ACTION, CALL_TARGET, CALLED, COUNTER, OWNER, PLAIN, SOURCE
from ..binding.tables import BASE, FAR, HIGH, KIND, LOW, PLATEAU, RULE, START, Layout, Tables
from ..ir import NOTHING
from ..jit import entry, inner
from .token_moves import STAYS

_i8, _i4, _i44 = types.int64, types.int32[::1], types.int32[:, ::1]
_FAR = FAR
_STATES = 1 << 18  # past that the bound that is there stays

_SEARCH = Part()  # by place: its distance and state; by rule: the state that calls it, and its columns
_found_of, _owner_of, _caller_of, _width_of = (_SEARCH.array(_i4) for _ in range(4))
# Moves that stay in a frame, by the state they lead to: (state, counts); others by their place, and frames that end
# before a state: (state, 0).
_stays_of, _stays_at_of = _SEARCH.array(_i44, 2), _SEARCH.array(_i4)
_others_of, _others_at_of = _SEARCH.array(_i44, 2), _SEARCH.array(_i4)
_ends_of, _ends_at_of = _SEARCH.array(_i44, 2), _SEARCH.array(_i4)
_queue_of, _tops_of = _SEARCH.array(_i44, 2), _SEARCH.array(_i4)  # places of this level and of the next
_SEARCH.complete()


def regular(layout: Layout, start: int) -> bool:
    """Whether the rules are one automaton that calls counting ones, each in one place, or one rule."""
    kinds, calls = layout.flat.kinds, layout.flat.calls
    if len(kinds) > 1 and kinds[start] != PLAIN:
        return False
    others = np.delete(np.arange(len(kinds)), start)
    if not len(others):
        return kinds[start] in (PLAIN, COUNTER) and not len(calls) and layout.states <= _STATES
    return bool((kinds[others] == COUNTER).all() and layout.states <= _STATES
                and np.array_equal(np.sort(calls[:, CALLED]), others) and (calls[:, OWNER] == start).all()
                and (calls[:, CALL_ACTION] == NOTHING).all())


def behind(layout: Layout) -> Any:
    """int32, by rule: the state behind its call; -1 for none."""
    calls, found = layout.flat.calls, np.full(len(layout.starts), -1, np.int32)
    found[calls[:, CALLED]] = layout.starts[calls[:, OWNER]] + calls[:, CALL_TARGET]
    return found


def room(layout: Layout, moves: Any) -> dict[int, int]:
    """By counting rule, how many counts a shortest way home has at most, once the minimum is reached. moves: of
    token_moves.py."""
    rule_of = np.repeat(np.arange(len(layout.starts)), layout.flat.states)
    found = {}
    for rule in np.flatnonzero(layout.flat.kinds == COUNTER).tolist():
        mine = moves[rule_of[moves[:, 0]] == rule]
        stays = mine[:, 3] == STAYS
        between = mine[stays & (mine[:, 0] != mine[:, 2])]
        found[rule] = (int(layout.flat.states[rule]) - 1) * _needed(between) + _needed(mine[~stays])
    return found


def _needed(moves: Any) -> int:
    """The most counts of the moves that have the fewest of those between two places."""
    ordered = moves[np.lexsort((moves[:, 1], moves[:, 3], moves[:, 2], moves[:, 0]))][:, [0, 2, 3, 1]]
    first = np.ones(len(ordered), bool)
    first[1:] = (ordered[1:, :3] != ordered[:-1, :3]).any(axis=1)
    return int(ordered[first, 3].max(initial=0))


def solve_exactly(context: Context, tables: Tables, layout: Layout, start: int, moves: Any) -> None:
    """Distances of rules that are `regular`, in tokens. context: holds the tables."""
    found = np.full(len(tables.distance), FAR, np.int32)
    widths, calls = layout.column_counts.astype(np.int32), layout.flat.calls
    caller, after = np.full(len(widths), -1, np.int32), behind(layout)
    caller[calls[:, CALLED]] = layout.starts[calls[:, OWNER]] + calls[:, SOURCE]
    owner = np.repeat(np.arange(layout.states, dtype=np.int32), np.repeat(widths, layout.flat.states))
    stays = moves[:, 3] == STAYS
    others = moves[~stays]
    finals = layout.flat.finals
    ends = np.stack([layout.starts[finals[:, 0]] + finals[:, 1], after[finals[:, 0]]], axis=1).astype(np.int32)
    search = Context(_SEARCH.end)
    search.put(_SEARCH, (found, owner, caller, widths, *_by(moves[stays][:, :2], moves[stays][:, 2], layout.states),
                         *_by(others[:, :2], _places(tables, others), len(found)),
                         *_by(np.column_stack([ends[:, 0], ends[:, 0]]), ends[:, 1], layout.states),
                         np.empty((len(found) + 1, 2), np.int32), np.zeros(2, np.int32)))
    _go_back(context.address, search.address, np.ascontiguousarray(ends[finals[:, 0] == start, 0]))
    _enter(tables, layout, start, found, np.where(after < 0, 0, after), owner)


def _by(rows: Any, keys: Any, count: int) -> tuple[Any, Any]:
    """The rows by ascending key, and where those of each key in [0, count) begin; others are left out."""
    order = np.argsort(keys, kind="stable")
    return (np.ascontiguousarray(rows[order], dtype=np.int32),
            np.searchsorted(keys[order], np.arange(count + 1)).astype(np.int32))


def _places(tables: Tables, others: Any) -> Any:
    """Where the moves that end in another frame lead."""
    target, counted = others[:, 2], others[:, 3]
    rows = tables.rules[tables.states[target, RULE]]
    columns = np.minimum(counted, rows[:, LOW]) + np.maximum(0, counted - rows[:, PLATEAU])
    return tables.states[target, BASE] + np.where(tables.states[target, KIND] == COUNTER, columns, 0)


def _enter(tables: Tables, layout: Layout, start: int, found: Any, after: Any, owner: Any) -> None:
    """Puts what was found into the tables. after: by rule, the state behind its call."""
    distance, rule = tables.distance, tables.states[owner, RULE]
    home = rule == start
    distance[home] = np.minimum(distance[home], found[home])
    inside = np.flatnonzero(~home & (found < FAR))
    distance[inside] = found[inside] - distance[tables.states[after[rule[inside]], BASE]]


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _arrive(search, at, cost, level):  # type: ignore[no-untyped-def]
    """A place is `cost` tokens from the end: this level, or the next one."""
    found, queue, tops = _found_of(search), _queue_of(search), _tops_of(search)
    if cost < found[at]:
        found[at] = cost
        queue[tops[cost - level], cost - level] = at
        tops[cost - level] += 1


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _arrive_counted(context, search, state, counts, cost, level):  # type: ignore[no-untyped-def]
    """As _arrive, of all columns of a state from which the frame may be left `counts` later."""
    row = rules_of(context)[states_of(context)[state, RULE]]
    low, plateau, high = _i8(row[LOW]), _i8(row[PLATEAU]), _i8(row[HIGH])
    base = _i8(states_of(context)[state, BASE])
    for column in range(max(0, low - counts), _width_of(search)[states_of(context)[state, RULE]]):
        register = column if column < low else plateau + column - low
        if high < 0 or register + counts <= high:
            _arrive(search, base + column, cost, level)


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _stay(context, search, state, counts, column, cost, level):  # type: ignore[no-untyped-def]
    """As _arrive, of the columns of a state from which that many counts lead to a column of the same rule."""
    row = rules_of(context)[states_of(context)[state, RULE]]
    low, plateau, base = _i8(row[LOW]), _i8(row[PLATEAU]), _i8(states_of(context)[state, BASE])
    if column < low or plateau == low:
        first, last = column - counts, column - counts
    elif column == low:
        first, last = max(_i8(0), low - counts), min(low, plateau - counts)
        _arrive(search, base + low, cost, level)
    else:
        register = plateau + column - low - counts
        if low <= register <= plateau:
            return
        first = register if register < low else low + register - plateau
        last = first
    for at in range(max(_i8(0), first), last + 1):
        _arrive(search, base + at, cost, level)


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _before(context, search, at, level):  # type: ignore[no-untyped-def]
    """Arrives where one token, or a call or a return, leads to a place."""
    states, rules, state = states_of(context), rules_of(context), _i8(_owner_of(search)[at])
    column, rule = at - states[state, BASE], states[state, RULE]
    stays, others, ends = _stays_of(search), _others_of(search), _ends_of(search)
    for k in range(_stays_at_of(search)[state], _stays_at_of(search)[state + 1]):
        _stay(context, search, _i8(stays[k, 0]), _i8(stays[k, 1]), column, level + 1, level)
    for k in range(_others_at_of(search)[at], _others_at_of(search)[at + 1]):
        source = _i8(others[k, 0])
        if states[source, KIND] == COUNTER:
            _arrive_counted(context, search, source, _i8(others[k, 1]), level + 1, level)
        else:
            _arrive(search, _i8(states[source, BASE]), level + 1, level)
    for k in range(_ends_at_of(search)[state], _ends_at_of(search)[state + 1]):
        _arrive_counted(context, search, _i8(ends[k, 0]), _i8(0), level, level)
    if _caller_of(search)[rule] >= 0 and column == 0 and state == rules[rule, START]:
        _arrive(search, _i8(states[_caller_of(search)[rule], BASE]), level, level)


@entry(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i4))
def _go_back(context, search, finals):  # type: ignore[no-untyped-def]
    """Fills what was found, level by level, from the final states of the start rule."""
    found, queue, tops = _found_of(search), _queue_of(search), _tops_of(search)
    for state in finals:
        if states_of(context)[state, KIND] == COUNTER:
            _arrive_counted(context, search, _i8(state), _i8(0), _i8(0), _i8(0))
        else:
            _arrive(search, _i8(states_of(context)[state, BASE]), _i8(0), _i8(0))
    level = _i8(0)
    while tops[0] > 0:
        while tops[0] > 0:
            tops[0] -= 1
            _before(context, search, _i8(queue[tops[0], 0]), level)
        level += 1
        for k in range(tops[1]):
            if found[queue[k, 1]] == level:
                queue[tops[0], 0] = queue[k, 1]
                tops[0] += 1
        tops[1] = 0
