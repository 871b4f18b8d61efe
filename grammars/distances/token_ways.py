"""Tokens along the shortest ways of distances (shortening.py, member_shortening.py)."""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, Part, byte_of, distance_of, rules_of, size_of, states_of, token_of
from ..binding.tables import BASE, FAR, START
from ..jit import inner

_i8, _u1, _i4, _i44 = types.int64, types.uint8[::1], types.int32[::1], types.int32[:, ::1]
_FAR = FAR
# The ways of all states, a context of their own: of trie.py, of arcs.py, of what finds the ways, of _to_a_byte; of
# arcs.py, and by state, how many of its rows of `reach` are filled; room for all states, the latter 0.
WAYS = Part()
heads_of, rows_of = WAYS.array(_i4), WAYS.array(_i44, 7)
begins_of, columns_of, nearest_of, way_of, after_of = (WAYS.array(_i4) for _ in range(5))
frames_of, place_of = WAYS.array(_i44, 2), WAYS.array(_i4)
into_of, arrives_of, filled_of = (WAYS.array(_i4) for _ in range(3))
items_of, seen_of = WAYS.array(_i44, 4), WAYS.array(_i4)
WAYS.complete()
DEEPEST = 24  # bytes of a token that is looked for along a way
SWEEPS = 4  # over the states of a rule; most lie before those that they lead to, so that one or two are enough
FRAMES = 8  # calls inside one another on the way of one token
ENDS = -2  # in `after`: the way ends with this edge


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
    rows, way, after, frames, place = rows_of(ways), way_of(ways), after_of(ways), frames_of(ways), place_of(ways)
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    while True:
        at = states[place[0], BASE] + place[1]
        e = way[at]
        if e >= 0 and rows[e, 4] >= 0:
            return True
        if e >= 0 and place[2] < frames.shape[0]:
            frames[place[2], 0], frames[place[2], 1] = rows[e, 1], after[at]
            if after[at] != ENDS:
                place[3] += distance[states[rows[e, 1], BASE] + after[at]]
            place[2] += 1
            place[0], place[1] = rules[rows[e, 5], START], 0
        elif e < 0 and distance[at] == 0 and place[2] > 0 and frames[place[2] - 1, 1] != ENDS:
            place[2] -= 1
            place[0], place[1] = frames[place[2], 0], frames[place[2], 1]
            place[3] -= distance[states[place[0], BASE] + place[1]]
        else:
            return False


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def below(context, ways, depth, first, low, high, following):  # type: ignore[no-untyped-def]
    """The node of a byte behind `depth` others, of which `first` was the first, and below which lies [low, high)."""
    heads = heads_of(ways)
    if depth == 0:
        return _i8(heads[following])
    if depth == 1:
        return _i8(heads[256 + 256 * first + following])
    return _child(byte_of(context), size_of(context), low, high, following)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def onward(context, ways, depth, first, low, high):  # type: ignore[no-untyped-def]
    """The fewest tokens home that begin with a token whose first bytes lead to `place` (as in below), and that goes on
    along its way; FAR when there is none."""
    size, token = size_of(context), token_of(context)
    states, distance, place = states_of(context), distance_of(context), place_of(ways)
    rows, way, after, best = rows_of(ways), way_of(ways), after_of(ways), _i8(_FAR)
    while depth < DEEPEST and _to_a_byte(context, ways):
        at = states[place[0], BASE] + place[1]
        e, there = way[at], after[at]
        following = _i8(rows[e, 4])
        first = following if depth == 0 else first
        node = below(context, ways, depth, first, low, high, following)
        if node < 0:
            break
        rest = _i8(place[3])
        if there != ENDS:
            rest += distance[states[rows[e, 1], BASE] + there]
        if token[node] >= 0:
            best = min(best, 1 + rest)
        if there == ENDS:
            break
        place[0], place[1] = rows[e, 1], there
        low, high = node + 1, node + size[node]
        depth += 1
    return best


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _along(context, ways, state, column):  # type: ignore[no-untyped-def]
    """The fewest tokens from (state, column) home that begin with a token along its way; FAR when none lies there."""
    place = place_of(ways)
    place[0], place[1], place[2], place[3] = state, column, 0, 0
    return onward(context, ways, _i8(0), _i8(0), _i8(0), _i8(0))


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _sweep(context, ways, start, end, column):  # type: ignore[no-untyped-def]
    """Makes the distances of states [start, end) in one column count tokens, the last first; whether one changed."""
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    rows, way, after = rows_of(ways), way_of(ways), after_of(ways)
    changed = False
    for state in range(end - 1, start - 1, -1):
        at = states[state, BASE] + column
        e = way[at]
        if e < 0:
            continue
        best = _along(context, ways, _i8(state), column)
        if rows[e, 4] < 0:
            callee = _i8(distance[states[rules[rows[e, 5], START], BASE]])
            if after[at] != ENDS:
                callee += distance[states[rows[e, 1], BASE] + after[at]]
            best = min(best, callee)
        if best < distance[at]:
            distance[at] = best
            changed = True
    return changed


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _settle_one(context, ways, state, column):  # type: ignore[no-untyped-def]
    """As _sweep, of one state on whose way no call lies, and what it leads to in this column is settled. Fills `seen`:
    one more than the sweep in which the state would be settled at the latest, 1 where its distance stays."""
    states, distance, size, token = states_of(context), distance_of(context), size_of(context), token_of(context)
    rows, way, after, seen = rows_of(ways), way_of(ways), after_of(ways), seen_of(ways)
    home = states[state, BASE] + column
    best, sweeps = _i8(distance[home]), _i8(0)
    at, along, first, low, high, depth = home, column, _i8(0), _i8(0), _i8(0), _i8(0)
    while depth < DEEPEST and way[at] >= 0:
        e, along = way[at], _i8(after[at]) if along == column else _i8(ENDS - 1)
        target, following = rows[e, 1], _i8(rows[e, 4])
        first = following if depth == 0 else first
        node = below(context, ways, depth, first, low, high, following)
        if node < 0:
            break
        there = after[at]
        if token[node] >= 0:
            needed = _i8(1 + (0 if there == ENDS else distance[states[target, BASE] + there]))
            before = _i8(seen[target] - 1 if along == column else 0)
            turn = _i8(before + (1 if target < state else 0) if before > 0 else 1)
            if needed < best or (needed == best and turn < sweeps):
                best, sweeps = needed, turn
        if there == ENDS:
            break
        at, low, high, depth = states[target, BASE] + there, node + 1, node + size[node], depth + 1
    distance[home], seen[state] = best, sweeps + 1


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _settled_once(context, ways, start, end, column):  # type: ignore[no-untyped-def]
    """Settles states [start, end) in a column, each behind the one that its way leads to. False, and nothing changes,
    where some way is a call or the sweeps that there may be would not settle all."""
    states, distance, nearest, rows = states_of(context), distance_of(context), nearest_of(ways), rows_of(ways)
    way, after, waiting, seen = way_of(ways), after_of(ways), items_of(ways), seen_of(ways)
    seen[start: end] = 0
    done = True
    for last in range(end - 1, start - 1, -1):
        state, top = last, 0
        while done and seen[state] == 0:
            at = states[state, BASE] + column
            e = way[at]
            if e < 0:
                seen[state] = 1
                break
            done = rows[e, 4] >= 0
            waiting[top, 0] = state
            top += 1
            if after[at] != column:
                break
            state = rows[e, 1]
        while done and top > 0:
            top -= 1
            _settle_one(context, ways, _i8(waiting[top, 0]), column)
            done = seen[waiting[top, 0]] <= SWEEPS + 1
        if not done:
            break
    for state in range(start, end if not done else start):
        at = states[state, BASE] + column
        if way[at] >= 0:
            distance[at] = nearest[at]
    return done


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def settle(context, ways, start, end, column):  # type: ignore[no-untyped-def]
    """Makes the distances of states [start, end) in one column count tokens, as far as some sweeps do."""
    if _settled_once(context, ways, start, end, column):
        return
    for _ in range(SWEEPS):
        if not _sweep(context, ways, start, end, column):
            break
