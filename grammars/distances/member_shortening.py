"""What shortening.py does, of objects whose keys come in any order (ir.Members).

Their distance is a sum (members.py): each term is made to count tokens by itself, from one place where what was written
matters to the next. These are the begin of a key, the end of a value, and the end of the object; no token crosses them.
A declared key and its value are one term. Free keys are written byte by byte: which of them are used is known only
while generating (new_keys.py).
"""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, distance_of, reach_of, rules_of, size_of, states_of, token_of
from ..binding.member_keys import INSIDE
from ..binding.tables import ALONE, BASE, DEMAND, FAR, FREE, HOME, LEAST, MEETS, NEEDED, OTHER, PART, REACH, START, WAY
from ..ir import CLOSE_KEY, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN
from ..jit import inner, shared
from .token_ways import (
    DEEPEST,
    ENDS,
    after_of,
    arrives_of,
    begins_of,
    below,
    filled_of,
    into_of,
    items_of,
    nearest_of,
    onward,
    place_of,
    rows_of,
    seen_of,
    settle,
    way_of,
)

_i8, _i4, _i44 = types.int64, types.int32[::1], types.int32[:, ::1]
_FAR = FAR


@inner(_i8(_i8, _i8))
def _member_column(action, column):  # type: ignore[no-untyped-def]
    """As next_column, of Members outside of keys: the columns end where a key begins or a value is complete."""
    if action == NOTHING:
        return column
    ends = (column == WAY and action == OPEN_KEY) or (column == HOME and action == WRITTEN) or (
        column == MEETS and action == MEET)
    return _i8(ENDS if ends else -1)


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _find_member_ways(context, ways, first, last):  # type: ignore[no-untyped-def]
    """As _find_ways, of Members, in all columns at once. What calls cost is filled in."""
    rows, nearest, way, after = rows_of(ways), nearest_of(ways), way_of(ways), after_of(ways)
    states, rules = states_of(context), rules_of(context)
    for e in range(first, last):
        if rows[e, 5] >= 0:
            rows[e, 3] = nearest[states[rules[rows[e, 5], START], BASE]]
        if rows[e, 3] >= _FAR or states[rows[e, 0], PART] == INSIDE:
            continue
        for column in (ALONE, WAY, HOME, MEETS):
            at, there = states[rows[e, 0], BASE] + column, _member_column(_i8(rows[e, 2]), _i8(column))
            if nearest[at] == 0 or nearest[at] >= _FAR or there == -1:
                continue
            if way[at] >= 0 and (rows[e, 4] < 0 or rows[way[at], 4] >= 0):
                continue
            rest = 0 if there == ENDS else nearest[states[rows[e, 1], BASE] + there]
            if rows[e, 3] + rest == nearest[at]:
                way[at], after[at] = e, there


@inner(types.boolean(_i4, _i8, _i8))
def _nearer(distance, at, cost):  # type: ignore[no-untyped-def]
    if cost < distance[at]:
        distance[at] = cost
        return True
    return False


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _relax(context, ways, e):  # type: ignore[no-untyped-def]
    """The state of a row needs no more than one above where the row leads; whether that changed it."""
    states, rules, distance, rows = states_of(context), rules_of(context), distance_of(context), rows_of(ways)
    here, there, action = _i8(states[rows[e, 0], BASE]), _i8(states[rows[e, 1], BASE]), rows[e, 2]
    cost = _i8(rows[e, 3] if rows[e, 5] < 0 else distance[states[rules[rows[e, 5], START], BASE]])
    changed = False
    if cost >= _FAR or action >= KEY:
        return changed
    if action == NOTHING:
        for column in range(ALONE, MEETS + 1):
            changed |= _nearer(distance, here + column, cost + distance[there + column])
    elif action == OPEN_KEY:
        changed = _nearer(distance, here + WAY, cost)
    elif action == WRITTEN:
        changed = _nearer(distance, here + HOME, cost)
    elif action == MEET:
        changed = _nearer(distance, here + MEETS, cost)
    elif action == CLOSE_KEY:
        changed = _nearer(distance, here + FREE, cost + distance[there + HOME])
        changed |= _nearer(distance, here + MEETS, cost + distance[there + MEETS])
        if distance[there + MEETS] >= _FAR:
            changed |= _nearer(distance, here + OTHER, cost + distance[there + HOME])
    return changed


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _became_nearer(context, ways, first, last, start, end):  # type: ignore[no-untyped-def]
    """Fills `items` with those of states [start, end) that need less than in bytes, or now do as a call in rows
    [first, last) needs less; how many these are. Only from there on others may: in bytes no row made one nearer."""
    states, distance, nearest, rows = states_of(context), distance_of(context), nearest_of(ways), rows_of(ways)
    queue, waits, count = items_of(ways), seen_of(ways), 0
    for e in range(first, last):
        if rows[e, 5] >= 0:
            _relax(context, ways, _i8(e))
    for s in range(start, end):
        for at in range(states[s, BASE] + ALONE, states[s, BASE] + MEETS + 1):
            if distance[at] < nearest[at] and waits[s] == 0:
                waits[s], queue[count, 0] = 1, s
                count += 1
    return _i8(count)


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _spread(context, ways, first, last, start, end):  # type: ignore[no-untyped-def]
    """No state of Members needs over one more than where a byte leads that is a token: to the fixed point, going back
    from what became nearer. In `items` lie the states that wait, as a ring; `seen` is 1 for each, and all 0 before and
    behind."""
    rows, into, arrives = rows_of(ways), into_of(ways), arrives_of(ways)
    queue, waits, head = items_of(ways), seen_of(ways), 0
    count = _became_nearer(context, ways, first, last, start, end)
    tail = count if count < queue.shape[0] else 0
    while count > 0:
        t = queue[head, 0]
        head, count = head + 1 if head + 1 < queue.shape[0] else 0, count - 1
        waits[t] = 0
        for k in range(arrives[t], arrives[t + 1]):
            s = rows[into[k], 0]
            if _relax(context, ways, _i8(into[k])) and waits[s] == 0:
                waits[s], queue[tail, 0] = 1, s
                tail, count = tail + 1 if tail + 1 < queue.shape[0] else 0, count + 1


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i44, _i8))
def _of_key(context, ways, items, at):  # type: ignore[no-untyped-def]
    """The fewest tokens from an item of `items` through its key and the value, by a token along them."""
    size, token = size_of(context), token_of(context)
    states, distance, rows, place = states_of(context), distance_of(context), rows_of(ways), place_of(ways)
    best, first, low, high, depth = _i8(_FAR), _i8(rows[items[at, 1], 4]), _i8(0), _i8(0), _i8(0)
    while depth < DEEPEST:
        e, behind = items[at, 1], items[at, 2]
        node = below(context, ways, depth, first, low, high, _i8(rows[e, 4]))
        value = _i8(distance[states[rows[e, 1], BASE] + HOME])
        rest = _i8(items[behind, 3]) if behind >= 0 else value
        if depth == 0:
            best = min(best, 1 + rest)
        if node < 0 or (value >= _FAR and behind < 0):
            break
        if token[node] >= 0:
            best = min(best, 1 + rest)
        low, high = node + 1, node + size[node]
        depth += 1
        if behind < 0:
            place[0], place[1], place[2], place[3] = rows[e, 1], HOME, 0, 0
            return min(best, onward(context, ways, depth, first, low, high))
        at = behind
    return best


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i44, _i4))
def _shorten_keys(context, ways, first, last, items, seen):  # type: ignore[no-untyped-def]
    """Makes `reach` count the tokens through a key and its value. It goes back from every key's end as member_keys.py
    does, in its order. items: (state, row that leads on, the item it leads to or -1, tokens)."""
    states, rows, reach = states_of(context), rows_of(ways), reach_of(context)
    into, arrives, filled = into_of(ways), arrives_of(ways), filled_of(ways)
    for turn in range(last - first):
        end = last - 1 - turn
        if rows[end, 2] < KEY or rows[end, 3] != 1:
            continue
        items[0, 0], items[0, 1], items[0, 2] = rows[end, 0], end, -1
        seen[rows[end, 0]] = end + 1
        head, tail = 0, 1
        while head < tail:
            state = items[head, 0]
            items[head, 3] = min(_i8(_FAR), _of_key(context, ways, items, _i8(head)))
            reach[states[state, REACH] + filled[state], 1] = items[head, 3]
            filled[state] += 1
            for k in range(arrives[state], arrives[state + 1]):
                source = rows[into[k], 0]
                if rows[into[k], 2] == NOTHING and rows[into[k], 3] == 1 and seen[source] != end + 1:
                    seen[source] = end + 1
                    items[tail, 0], items[tail, 1], items[tail, 2] = source, into[k], head
                    tail += 1
            head += 1


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _ways_of_first(context, ways, rule, start, end):  # type: ignore[no-untyped-def]
    """Ways where nothing was written, up to the first key's begin: for tokens that lead into this rule."""
    states, distance, row = states_of(context), distance_of(context), rules_of(context)[rule]
    rows, way, after = rows_of(ways), way_of(ways), after_of(ways)
    done = row[NEEDED] == 0 and row[LEAST] <= 0 and row[DEMAND] == 0
    for state in range(start, end):
        at = states[state, BASE]
        e = way[at + (ALONE if done and distance[at + ALONE] < _FAR else WAY)]
        if e >= 0 and rows[e, 4] >= 0:
            way[at], after[at] = e, 0


@shared(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def shorten_members(context, ways, rule):  # type: ignore[no-untyped-def]
    """One rule of Members: its columns, and `reach`."""
    states, rules, begins = states_of(context), rules_of(context), begins_of(ways)
    start, first, last = _i8(rules[rule, START]), _i8(begins[rule]), _i8(begins[rule + 1])
    end = _i8(rules[rule + 1, START]) if rule + 1 < rules.shape[0] else _i8(states.shape[0])
    _find_member_ways(context, ways, first, last)
    for column in (ALONE, WAY, HOME, MEETS):
        settle(context, ways, start, end, _i8(column))
    seen_of(ways)[start: end] = 0
    _spread(context, ways, first, last, start, end)
    _shorten_keys(context, ways, first, last, items_of(ways), seen_of(ways))
    _ways_of_first(context, ways, rule, start, end)
