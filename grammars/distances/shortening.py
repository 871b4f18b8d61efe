"""Law 4 in tokens: the distances of distance.py, which count bytes, made smaller by the tokens of several bytes.

Along the shortest way in bytes from a state to its end lie tokens; it needs one more than where the best of them
leads, in its own rule and, where the token crossed into a called one, in that. So from every state that needs n tokens,
some token leads to one that needs n - 1 at most, which is all that closing asks of a bound. It costs a few steps a
state. Where free keys were written, closing.py puts single bytes before such ways.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.columns import next_column
from ..binding.context import CONTEXT_TYPE, Context, distance_of, next_required_of, rules_of, states_of
from ..binding.flat import DISTINCT, MEMBERS
from ..binding.tables import BASE, FAR, KIND, LEAST, LISTED, LOW, NEXT, START
from ..ir import CLOSE_KEY, OPEN_KEY
from ..jit import entry, inner
from .arcs import Arcs
from .member_costs import price_tokens
from .member_shortening import shorten_members
from .token_ways import ENDS, FRAMES, WAYS, after_of, begins_of, columns_of, nearest_of, rows_of, settle, way_of

_i8, _i4 = types.int64, types.int32[::1]
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _column_after(context, ways, e, rule, column):  # type: ignore[no-untyped-def]
    """The column that a row leads to; ENDS, or -1 when it is blocked."""
    rows, nearest, states, bounds = rows_of(ways), nearest_of(ways), states_of(context), rules_of(context)[rule]
    action, kind, low = rows[e, 2], states[bounds[START], KIND], bounds[LOW]
    if kind == DISTINCT and column == low + 2 and action == OPEN_KEY:
        return _i8(ENDS)
    alone = states[rows[e, 1], BASE] + low + 1
    if kind == DISTINCT and action == CLOSE_KEY and column == low and nearest[alone] < _FAR:
        return _i8(low + 1)
    following = next_required_of(context)[bounds[NEXT]: bounds[NEXT] + low + 1]
    return next_column(kind, action, column, bounds, following)


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _find_ways(context, ways, first, last, rule, column):  # type: ignore[no-untyped-def]
    """way[place of (state, column)]: a row of [first, last) on a shortest way, one of bytes where there is one. after:
    the column that it leads to."""
    rows, nearest, way, after = rows_of(ways), nearest_of(ways), way_of(ways), after_of(ways)
    states = states_of(context)
    for e in range(first, last):
        at = states[rows[e, 0], BASE] + column
        here, target = nearest[at], states[rows[e, 1], BASE]
        if here == 0 or here >= _FAR or rows[e, 3] >= _FAR:
            continue
        if way[at] >= 0 and (rows[e, 4] < 0 or rows[way[at], 4] >= 0):
            continue
        there = _column_after(context, ways, _i8(e), rule, column)
        if there == ENDS:
            rest = 0
        elif there < 0:
            continue
        else:
            rest = nearest[target + there]
        if rows[e, 3] + rest == here:
            way[at] = e
            after[at] = there


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _close(context, ways, first, last, rule, column):  # type: ignore[no-untyped-def]
    """Distances of a column to the fixed point of the single bytes in rows [first, last)."""
    rows, states, distance = rows_of(ways), states_of(context), distance_of(context)
    changed = True
    while changed:
        changed = False
        for e in range(first, last):
            if rows[e, 4] < 0 or rows[e, 3] >= _FAR:
                continue
            there = _column_after(context, ways, _i8(e), rule, column)
            if there == -1:
                continue
            cost = rows[e, 3] + (0 if there == ENDS else distance[states[rows[e, 1], BASE] + there])
            if cost < distance[states[rows[e, 0], BASE] + column]:
                distance[states[rows[e, 0], BASE] + column] = cost
                changed = True


@entry(types.void(CONTEXT_TYPE, CONTEXT_TYPE, CONTEXT_TYPE, _i4))
def _shorten(context, ways, solving, order):  # type: ignore[no-untyped-def]
    """All rules in `order`; their columns as distance.py solves them."""
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    begins, columns, nearest = begins_of(ways), columns_of(ways), nearest_of(ways)
    way, after = way_of(ways), after_of(ways)
    for at in range(distance.size):
        nearest[at], way[at], after[at] = distance[at], -1, -1
    for rule in order:
        start = _i8(rules[rule, START])
        if states[start, KIND] == MEMBERS:
            shorten_members(context, ways, _i8(rule))
            price_tokens(context, solving, _i8(rule))
            continue
        end = _i8(rules[rule + 1, START]) if rule + 1 < rules.shape[0] else _i8(states.shape[0])
        kind = states[start, KIND]
        # What a further item or key that differs costs more than the cheapest is counted in bytes, and so is all there.
        counted = rules[rule, LISTED] == 1 or (kind == DISTINCT and rules[rule, LEAST] > 1)
        if kind > DISTINCT or counted or nearest[states[start, BASE]] >= _FAR:
            continue
        for k in range(columns[rule]):
            column = columns[rule] - 1 - k
            if kind == DISTINCT and k < 2:
                column = rules[rule, LOW] + 1 + k
            _find_ways(context, ways, _i8(begins[rule]), _i8(begins[rule + 1]), _i8(rule), _i8(column))
            settle(context, ways, start, end, _i8(column))
            if kind == DISTINCT:
                _close(context, ways, _i8(begins[rule]), _i8(begins[rule + 1]), _i8(rule), _i8(column))


def shorten(context: Context, arcs: Arcs, order: Any, heads: Any, solving: Context, *, entries: int) -> None:
    """Makes solved distances count tokens, in place. context: holds the tables and the trie. order: rules, callees
    first. heads: of trie.py. solving: of solving.py, what was solved. entries: how many distances there are."""
    nearest, way, after = (np.empty(entries, np.int32) for _ in range(3))
    states = len(arcs.arrives)
    ways = Context(WAYS.end)
    ways.put(WAYS, (heads, arcs.rows, arcs.begins, arcs.columns, nearest, way, after, np.zeros((FRAMES, 2), np.int32),
                    np.zeros(4, np.int32), arcs.into, arcs.arrives, np.zeros(states, np.int32),
                    np.empty((states, 4), np.int32), np.zeros(states, np.int32)))
    _shorten(context.address, ways.address, solving.address, order)
