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

from .columns import next_column
from .context import (
    CONTEXT_TYPE,
    Context,
    Part,
    byte_of,
    distance_of,
    next_required_of,
    rules_of,
    size_of,
    states_of,
    token_of,
)
from .flat import DISTINCT
from .ir import CLOSE_KEY, OPEN_KEY
from .jit import entry, inner
from .tables import BASE, FAR, KIND, LISTED, LOW, NEXT, START

_i8, _u1, _i4, _i44, _i8s = types.int64, types.uint8[::1], types.int32[::1], types.int32[:, ::1], types.int64[::1]
_FAR = FAR
# The ways of all states, a context of their own: of trie.py, of distance.py, of _find_ways and of _to_a_byte.
_WAYS = Part()
_heads_of, _rows_of = _WAYS.array(_i4), _WAYS.array(_i44, 6)
_begins_of, _columns_of, _nearest_of, _way_of, _after_of = (_WAYS.array(_i4) for _ in range(5))
_frames_of, _place_of = _WAYS.array(_i44, 2), _WAYS.array(_i4)
_DEEPEST = 24  # bytes of a token that is looked for along a way
_SWEEPS = 4  # over the states of a rule; most lie before those that they lead to, so that one or two are enough
_FRAMES = 8  # calls inside one another on the way of one token
_ENDS = -2  # in `after`: the way ends with this edge


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _find_ways(context, ways, first, last, rule, column):  # type: ignore[no-untyped-def]
    """way[place of (state, column)]: a row of [first, last) on a shortest way, one of bytes where there is one. after:
    the column that it leads to."""
    rows, nearest, way, after = _rows_of(ways), _nearest_of(ways), _way_of(ways), _after_of(ways)
    states, bounds, next_required = states_of(context), rules_of(context)[rule], next_required_of(context)
    kind, low = states[bounds[START], KIND], bounds[LOW]
    following = next_required[bounds[NEXT]: bounds[NEXT] + low + 1]
    for e in range(first, last):
        action, at = rows[e, 2], states[rows[e, 0], BASE] + column
        here, target = nearest[at], states[rows[e, 1], BASE]
        if here == 0 or here >= _FAR or rows[e, 3] >= _FAR:
            continue
        if way[at] >= 0 and (rows[e, 4] < 0 or rows[way[at], 4] >= 0):
            continue
        there = next_column(kind, action, column, bounds, following)
        if kind == DISTINCT and column == low + 2 and action == OPEN_KEY:
            there = _i8(_ENDS)
        elif kind == DISTINCT and action == CLOSE_KEY and column == low and nearest[target + low + 1] < _FAR:
            there = _i8(low + 1)
        if there == _ENDS:
            rest = 0
        elif there < 0:
            continue
        else:
            rest = nearest[target + there]
        if rows[e, 3] + rest == here:
            way[at] = e
            after[at] = there


@inner(_i8(_u1, _i4, _i8, _i8, _i8))
def _child(byte, size, low, high, wanted):  # type: ignore[no-untyped-def]
    """The node among the siblings in [low, high) that is a byte, -1 for none. Siblings ascend."""
    while low < high and byte[low] < wanted:
        low += size[low]
    return _i8(low) if low < high and byte[low] == wanted else _i8(-1)


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE))
def _to_a_byte(context, ways):  # type: ignore[no-untyped-def]
    """Follows the way of `place` through calls and returns to the next byte; False when there is none.

    place: state, column, frames entered, tokens that these need after their return. frames: (state, column).
    """
    rows, way, after, frames, place = _rows_of(ways), _way_of(ways), _after_of(ways), _frames_of(ways), _place_of(ways)
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    while True:
        at = states[place[0], BASE] + place[1]
        e = way[at]
        if e >= 0 and rows[e, 4] >= 0:
            return True
        if e >= 0 and place[2] < frames.shape[0]:
            frames[place[2], 0], frames[place[2], 1] = rows[e, 1], after[at]
            place[3] += distance[states[rows[e, 1], BASE] + after[at]]
            place[2] += 1
            place[0], place[1] = rules[rows[e, 5], START], 0
        elif e < 0 and distance[at] == 0 and place[2] > 0:
            place[2] -= 1
            place[0], place[1] = frames[place[2], 0], frames[place[2], 1]
            place[3] -= distance[states[place[0], BASE] + place[1]]
        else:
            return False


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _along(context, ways, state, column):  # type: ignore[no-untyped-def]
    """The fewest tokens from (state, column) home that begin with a token along its way; FAR when none lies there."""
    byte, size, token = byte_of(context), size_of(context), token_of(context)
    states, distance, heads, place = states_of(context), distance_of(context), _heads_of(ways), _place_of(ways)
    rows, way, after = _rows_of(ways), _way_of(ways), _after_of(ways)
    place[0], place[1], place[2], place[3] = state, column, 0, 0
    best, low, high, first = _i8(_FAR), _i8(0), _i8(0), _i8(0)
    for depth in range(_DEEPEST):
        if not _to_a_byte(context, ways):
            break
        at = states[place[0], BASE] + place[1]
        e, there = way[at], after[at]
        following = _i8(rows[e, 4])
        if depth == 0:
            node, first = _i8(heads[following]), following
        elif depth == 1:
            node = _i8(heads[256 + 256 * first + following])
        else:
            node = _child(byte, size, low, high, following)
        if node < 0:
            break
        rest = _i8(place[3])
        if there != _ENDS:
            rest += distance[states[rows[e, 1], BASE] + there]
        if token[node] >= 0:
            best = min(best, 1 + rest)
        if there == _ENDS:
            break
        place[0], place[1] = rows[e, 1], there
        low, high = node + 1, node + size[node]
    return best


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _sweep(context, ways, start, end, column):  # type: ignore[no-untyped-def]
    """Makes the distances of states [start, end) in one column count tokens, the last first; whether one changed."""
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    rows, way, after = _rows_of(ways), _way_of(ways), _after_of(ways)
    changed = False
    for state in range(end - 1, start - 1, -1):
        at = states[state, BASE] + column
        e = way[at]
        if e < 0:
            continue
        best = _along(context, ways, _i8(state), column)
        if rows[e, 4] < 0:
            callee = distance[states[rules[rows[e, 5], START], BASE]]
            best = min(best, _i8(callee) + distance[states[rows[e, 1], BASE] + after[at]])
        if best < distance[at]:
            distance[at] = best
            changed = True
    return changed


@entry(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i4))
def _shorten(context, ways, order):  # type: ignore[no-untyped-def]
    """All rules in `order`; their columns as distance.py solves them. nearest, of `ways`: the distances in bytes."""
    states, rules = states_of(context), rules_of(context)
    begins, columns, nearest = _begins_of(ways), _columns_of(ways), _nearest_of(ways)
    for rule in order:
        start = _i8(rules[rule, START])
        end = _i8(rules[rule + 1, START]) if rule + 1 < rules.shape[0] else _i8(states.shape[0])
        kind = states[start, KIND]
        # What a list of different items must add to its cheapest item is counted in bytes, and so is all of the list.
        if kind > DISTINCT or rules[rule, LISTED] == 1 or nearest[states[start, BASE]] >= _FAR:
            continue
        for k in range(columns[rule]):
            column = columns[rule] - 1 - k
            if kind == DISTINCT and k < 2:
                column = rules[rule, LOW] + 1 + k
            _find_ways(context, ways, _i8(begins[rule]), _i8(begins[rule + 1]), _i8(rule), _i8(column))
            for _ in range(_SWEEPS):
                if not _sweep(context, ways, start, end, _i8(column)):
                    break


def shorten(context: Context, rows: Any, begins: Any, columns: Any, order: Any, distance: Any, heads: Any) -> None:
    """Makes solved distances count tokens, in place. context: holds the tables, of which `distance` is one, and the
    trie. rows, begins, columns: as distance.py has them. order: all rules, callees first. heads: of trie.py."""
    way, after = (np.full(len(distance), -1, np.int32) for _ in range(2))
    ways = Context(_WAYS.end)
    ways.put(_WAYS, (heads, rows, begins, columns, distance.copy(), way, after, np.zeros((_FRAMES, 2), np.int32),
                     np.zeros(4, np.int32)))
    _shorten(context.address, ways.address, order)
