"""The distances of objects whose keys come in any order (ir.Members): law 4 at compile time, for one rule at a time.

The columns of the distances (tables.py) know nothing of what was written; members.py puts them together with the set.
`context` holds the tables and an arena, `solving` is of solving.py.
"""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, distance_of, members_of, reach_of, rules_of, states_of
from ..binding.member_keys import AFTER_VALUE
from ..binding.tables import (
    ALONE,
    BASE,
    BEHIND_KEY,
    COMMA,
    COST,
    DECODED,
    ENDING,
    FAR,
    FILLER,
    FINAL,
    FIRST,
    FREE,
    HAS_FREE,
    HOME,
    KEYS_AT,
    LEAST,
    MEETS,
    NEEDED,
    OTHER,
    OWED,
    RANKED,
    REACH,
    REACH_END,
    REQUIRED,
    SIZE,
    START,
    WAY,
)
from ..ir import CLOSE_KEY, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN
from ..jit import entry, inner, shared
from ..stepping.members import members_remaining, within
from .solving import (
    arrives_of,
    begins_of,
    counted_of,
    into_of,
    key_begins_of,
    key_reach_of,
    keys_of,
    price_calls,
    queue_of,
    rows_of,
    waits_of,
)

_i8, _i4, _i44, _bool = types.int64, types.int32[::1], types.int32[:, ::1], types.boolean
# Lengths of keys that are looked at for as many free keys as a least number needs.
_LONGEST = 4_096
_BACKSLASH = 0x5C
_MANY = 1 << 40
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8))
def _end_of(context, rule):  # type: ignore[no-untyped-def]
    """The state behind the last of a rule."""
    rules = rules_of(context)
    return _i8(rules[rule + 1, START] if rule + 1 < rules.shape[0] else states_of(context).shape[0])


@inner(_bool(_i4, _i8, _i8))
def _nearer(distance, at, cost):  # type: ignore[no-untyped-def]
    if cost < distance[at]:
        distance[at] = cost
        return True
    return False


@inner(_bool(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _bool))
def _relax(context, solving, e, other):  # type: ignore[no-untyped-def]
    """Makes the state of a row as near as the row allows, in the column OTHER or in all others from ALONE on; whether
    that changed any."""
    rows, states, distance = rows_of(solving), states_of(context), distance_of(context)
    action, cost, changed = rows[e, 2], _i8(rows[e, 3]), False
    if cost >= _FAR or action >= KEY:
        return False
    here, there = _i8(states[rows[e, 0], BASE]), _i8(states[rows[e, 1], BASE])
    if action == NOTHING and other:
        changed = _nearer(distance, here + OTHER, cost + distance[there + OTHER])
    elif action == NOTHING:
        for c in range(ALONE, MEETS + 1):
            if c != OTHER:
                changed |= _nearer(distance, here + c, cost + distance[there + c])
    elif other:
        if action == CLOSE_KEY and distance[there + MEETS] >= _FAR:
            changed = _nearer(distance, here + OTHER, cost + distance[there + HOME])
    elif action == OPEN_KEY:
        changed = _nearer(distance, here + WAY, cost)
    elif action == WRITTEN:
        changed = _nearer(distance, here + HOME, cost)
    elif action == MEET:
        changed = _nearer(distance, here + MEETS, cost)
    elif action == CLOSE_KEY:
        changed = _nearer(distance, here + FREE, cost + distance[there + HOME])
        changed |= _nearer(distance, here + MEETS, cost + distance[there + MEETS])
    return changed


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _bool))
def _spread(context, solving, rule, other):  # type: ignore[no-untyped-def]
    """All rows of a rule to their fixed point, going back from what became nearer: at first from where columns end."""
    rows, begins, into, arrives = rows_of(solving), begins_of(solving), into_of(solving), arrives_of(solving)
    states, queue, waits, head, tail, count = states_of(context), queue_of(solving), waits_of(solving), 0, 0, 0
    for s in range(rules_of(context)[rule, START], 0 if other else _end_of(context, rule)):
        if states[s, FINAL] == 1:
            waits[s], queue[count] = 1, s
            count += 1
    for e in range(begins[rule], begins[rule + 1]):
        s = rows[e, 0]
        if rows[e, 2] != NOTHING and _relax(context, solving, _i8(e), other) and waits[s] == 0:
            waits[s], queue[count] = 1, s
            count += 1
    tail = count if count < queue.size else 0
    while count > 0:
        t = queue[head]
        head, count = head + 1 if head + 1 < queue.size else 0, count - 1
        waits[t] = 0
        for k in range(arrives[t], arrives[t + 1]):
            s = rows[into[k], 0]
            if _relax(context, solving, _i8(into[k]), other) and waits[s] == 0:
                waits[s], queue[tail] = 1, s
                tail, count = tail + 1 if tail + 1 < queue.size else 0, count + 1


@inner(_bool(CONTEXT_TYPE, _i8, _i8, _i8))
def _dearer(context, first, i, k):  # type: ignore[no-untyped-def]
    """Whether the i-th of the ranked members comes behind the k-th: it costs more, or as much and is declared later."""
    members = members_of(context)
    one, two = members[first + i, RANKED], members[first + k, RANKED]
    if members[first + one, COST] != members[first + two, COST]:
        return members[first + one, COST] > members[first + two, COST]
    return one > two


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _sift(context, first, root, count):  # type: ignore[no-untyped-def]
    """Lets a ranked member sink until none below it in the heap is dearer."""
    members = members_of(context)
    while 2 * root + 1 < count:
        below = 2 * root + 1
        if below + 1 < count and _dearer(context, first, _i8(below + 1), _i8(below)):
            below += 1
        if not _dearer(context, first, _i8(below), root):
            return
        members[first + root, RANKED], members[first + below, RANKED] = (
            members[first + below, RANKED], members[first + root, RANKED])
        root = _i8(below)


@inner(types.void(CONTEXT_TYPE, _i8))
def _rank(context, rule):  # type: ignore[no-untyped-def]
    """RANKED: members that may be left out and can be written, the cheapest first (a heap sort)."""
    members, row, count = members_of(context), rules_of(context)[rule], 0
    first = _i8(row[FIRST])
    for j in range(row[SIZE]):
        members[first + j, RANKED] = -1
        if members[first + j, COST] < _FAR and members[first + j, REQUIRED] == 0:
            members[first + count, RANKED] = j
            count += 1
    for turn in range(count // 2):
        _sift(context, first, _i8(count // 2 - 1 - turn), _i8(count))
    for turn in range(count - 1):
        last = first + count - 1 - turn
        members[first, RANKED], members[last, RANKED] = members[last, RANKED], members[first, RANKED]
        _sift(context, first, _i8(0), _i8(count - 1 - turn))


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i44, _i8, _i8))
def _price(context, solving, rule, reach, begin, end):  # type: ignore[no-untyped-def]
    """What each property costs, and what the frame's other ways cost. reach[begin:end]: where a key begins; BEHIND_KEY
    of the members: what follows each."""
    members, row, after = members_of(context), rules_of(context)[rule], keys_of(solving)[rule, AFTER_VALUE]
    states, distance, first, owed = states_of(context), distance_of(context), row[FIRST], 0
    row[ENDING] = distance[states[after, BASE] + ALONE] if after >= 0 else _FAR
    row[COMMA] = distance[states[after, BASE] + WAY] if after >= 0 else _FAR
    for j in range(first, first + row[SIZE]):
        members[j, COST] = -1
    for k in range(begin, end):
        j = first + reach[k, 0]
        members[j, COST] = min(_i8(_FAR), _i8(row[COMMA]) + reach[k, 1] + members[j, BEHIND_KEY])
    for j in range(first, first + row[SIZE]):
        if members[j, COST] < 0:
            members[j, COST] = members[j, BEHIND_KEY] = _FAR
        if members[j, REQUIRED] == 1:
            owed += members[j, COST]
    row[OWED] = min(_i8(_FAR), _i8(owed))
    if row[LEAST] > row[NEEDED]:
        _rank(context, rule)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _filler(context, solving, rule, rank):  # type: ignore[no-untyped-def]
    """The cost with its comma of the `rank`-th cheapest free property, or more; FAR when there are not so many. Where
    keys are compared decoded no escape counts, which may spell what another text spells too."""
    rows, begins, counted = rows_of(solving), begins_of(solving), counted_of(solving)
    states, distance, row = states_of(context), distance_of(context), rules_of(context)[rule]
    start, end, found, worst = row[START], _end_of(context, rule), 0, 0
    for s in range(start, end):
        counted[s, 0] = 1 if s == row[KEYS_AT] else 0
    for length in range(_LONGEST):
        here, there, alive = length & 1, 1 - (length & 1), False
        for s in range(start, end):
            counted[s, there] = 0
        for e in range(begins[rule], begins[rule + 1]):
            ways, target, action = counted[rows[e, 0], here], rows[e, 1], rows[e, 2]
            if ways == 0 or rows[e, 3] >= _FAR or (row[DECODED] == 1 and rows[e, 4] == _BACKSLASH):
                continue
            if action == CLOSE_KEY and distance[states[target, BASE] + HOME] < _FAR:
                found += ways
                worst = max(worst, length + 1 + distance[states[target, BASE] + HOME])
            elif action == NOTHING:
                counted[target, there] = min(_i8(_MANY), counted[target, there] + ways * rows[e, 6])
                alive = True
        if found >= rank:
            return min(_i8(_FAR), _i8(row[COMMA]) + worst)
        if not alive:
            break
    return _i8(_FAR)


@inner(types.void(CONTEXT_TYPE, _i8))
def _begin(context, rule):  # type: ignore[no-untyped-def]
    """The distance where a key begins and nothing was written."""
    key = _i8(rules_of(context)[rule, KEYS_AT])
    distance_of(context)[states_of(context)[key, BASE]] = within(context, key, _i8(0), _i8(0), _i8(0), _i8(0))


@shared(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def solve_members(context, solving, rule):  # type: ignore[no-untyped-def]
    """Fills the distances of one rule, from ALONE on, and its prices, in bytes; returns that of its start."""
    states, rules, distance, members = states_of(context), rules_of(context), distance_of(context), members_of(context)
    row, rows, begins, start = rules[rule], rows_of(solving), begins_of(solving), _i8(rules[rule, START])
    price_calls(context, solving, rule)
    for s in range(start, _end_of(context, rule)):
        for c in range(ALONE, MEETS + 1):
            distance[states[s, BASE] + c] = _FAR
        if states[s, FINAL] == 1:
            distance[states[s, BASE] + ALONE] = 0
    _spread(context, solving, rule, False)
    _spread(context, solving, rule, True)
    if row[KEYS_AT] >= 0:
        for e in range(begins[rule], begins[rule + 1]):
            if rows[e, 2] >= KEY:
                members[row[FIRST] + rows[e, 2] - KEY, BEHIND_KEY] = distance[states[rows[e, 1], BASE] + HOME]
        keys = key_begins_of(solving)
        _price(context, solving, rule, key_reach_of(solving), _i8(keys[row[KEYS_AT]]), _i8(keys[row[KEYS_AT] + 1]))
        if row[HAS_FREE] == 1 and row[LEAST] > row[NEEDED]:
            row[FILLER] = _filler(context, solving, rule, _i8(row[LEAST] + 2))
        _begin(context, rule)
    distance[states[start, BASE]] = members_remaining(context, start, _i8(0), _i8(0), _i8(0))
    return _i8(distance[states[start, BASE]])


@entry(types.void(CONTEXT_TYPE, _i8))
def fill_unwritten(context, rule):  # type: ignore[no-untyped-def]
    """The column of one rule when nothing was written: the last to be filled."""
    states, distance = states_of(context), distance_of(context)
    for s in range(rules_of(context)[rule, START], _end_of(context, rule)):
        distance[states[s, BASE]] = 0 if states[s, FINAL] == 1 else members_remaining(
            context, _i8(s), _i8(0), _i8(0), _i8(0))


@shared(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def price_tokens(context, solving, rule):  # type: ignore[no-untyped-def]
    """The prices of one rule once its distances count tokens, and `reach` those through a key and its value; then as
    fill_unwritten. What a free property costs stays."""
    members, row, states = members_of(context), rules_of(context)[rule], states_of(context)
    if row[KEYS_AT] >= 0:
        for j in range(row[FIRST], row[FIRST] + row[SIZE]):
            members[j, BEHIND_KEY] = 0
        key = states[row[KEYS_AT]]
        _price(context, solving, rule, reach_of(context), _i8(key[REACH]), _i8(key[REACH_END]))
        _begin(context, rule)
    fill_unwritten(context, rule)
