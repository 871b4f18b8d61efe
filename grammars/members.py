"""The register of an object whose keys come in any order (ir.Members): what may follow, and how far the end is.

The register is a set of the arena: the keys written, declared ones by index (and by their bytes, where free keys are
followed), and a mark once the demand is met. What the set comes to is kept beside it. U of a frame: the way to the end
of the property at hand, the cheapest spelling of every required property that is missing, of the one that the demand
asks for, and of as many more as the least number needs.

Where a walk ignores what was written (exact 0) it still knows the set it began with: whether the object may end there,
and whether another key may begin, are part of what masks are told apart by (`class_of`). Once a key ends in such a walk
the register is LOOSE: everything is allowed, and the token is tested one by one.
"""

from __future__ import annotations

from numba import types

from .arena import AMOUNT, ARENA_TYPE, DECLARED, FOUND, KIND_OF, MET, NEXT_COST, SETS, SPENT, STARTS, intern_pair
from .ir import CLOSE_KEY, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN
from .jit import kernel
from .member_keys import BEHIND, INSIDE
from .new_keys import new_key
from .tables import (
    ALONE,
    BASE,
    BEHIND_KEY,
    COMMA,
    COST,
    DEMAND,
    ENDING,
    FAR,
    FILLER,
    FIRST,
    FREE,
    HAS_FREE,
    HOME,
    KEYS_AT,
    LEAST,
    MEETS,
    MOST,
    NEEDED,
    OTHER,
    OWED,
    PART,
    RANKED,
    REACH,
    REACH_END,
    REQUIRED,
    RULE,
    SIZE,
    TABLES_TYPE,
    TIGHT,
    WAY,
    contains,
)

LAX = 1 << 28  # in a register: a key ended in a walk that ignores what was written
_MET = -(1 << 28)  # stands for the demand in a set
_MANY = 1 << 24
# bits of a class of registers
_EMPTY, _DONE, _MORE, _SLACK, _MEETS = 1, 2, 4, 8, 16

_i8, _i4 = types.int64, types.int32[::1]
_FAR = FAR


@kernel(types.boolean(ARENA_TYPE, _i8, _i8))
def _wrote(arena, keys, j):  # type: ignore[no-untyped-def]
    """Whether the set has declared key j."""
    sets = arena[5]
    while keys > 0:
        if sets[keys, DECLARED] == j + 1:
            return True
        keys = _i8(sets[keys, 0])
    return False


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8, _i8))
def write(tables, arena, state, register, action, key, exact):  # type: ignore[no-untyped-def]
    """The register after an action of a frame in `state`, or -1 when the action is blocked."""
    if action in (NOTHING, OPEN_KEY, WRITTEN):
        return register
    sets, rule, keys = arena[5], tables[2][state, RULE], register & (LAX - 1)
    j, second = _i8(-1), _i8(_MET)
    if action == MEET:
        if sets[keys, MET] == 1:
            return _i8(-1)
    elif action == CLOSE_KEY:
        if exact == 0:
            return register | LAX
        if contains(arena, keys, key):
            return _i8(-1)
        second = key
    else:
        j = action - KEY
        if _wrote(arena, keys, j):
            return _i8(-1) if exact == 1 else register | LAX
        second = key if key > 0 else -1 - j
    after = intern_pair(arena, SETS, keys if keys > 0 else _i8(-1 - rule), second)
    if after > 0:
        needed = j >= 0 and tables[10][tables[3][rule, FIRST] + j, REQUIRED] == 1
        sets[after, SPENT] = sets[keys, SPENT] + (tables[10][tables[3][rule, FIRST] + j, COST] if needed else 0)
        sets[after, FOUND] = sets[keys, FOUND] + (1 if needed else 0)
        sets[after, AMOUNT] = sets[keys, AMOUNT] + (0 if action == MEET else 1)
        sets[after, MET] = 1 if action == MEET else sets[keys, MET]
        sets[after, DECLARED] = j + 1
    return after if exact == 1 else after | LAX


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def _slack(tables, arena, rule, keys):  # type: ignore[no-untyped-def]
    """How many properties that nothing asks for may still be written."""
    row, known = tables[3][rule], arena[5][keys]
    if row[MOST] < 0:
        return _i8(_MANY)
    return _i8(row[MOST] - known[AMOUNT] - (row[NEEDED] - known[FOUND]) - (row[DEMAND] - row[DEMAND] * known[MET]))


@kernel(types.boolean(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def _done(tables, arena, rule, keys):  # type: ignore[no-untyped-def]
    """Whether nothing is missing."""
    row, known = tables[3][rule], arena[5][keys]
    return known[FOUND] == row[NEEDED] and known[AMOUNT] >= row[LEAST] and known[MET] >= row[DEMAND]


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def _demanded(tables, arena, rule, keys):  # type: ignore[no-untyped-def]
    """Bytes of a comma and the property that meets the demand; remembered with the set."""
    start, sets = _i8(tables[3][rule, KEYS_AT]), arena[5]
    if keys == 0:
        return _i8(tables[3][rule, COMMA] + tables[7][tables[2][start, BASE] + MEETS])
    if sets[keys, NEXT_COST] < 0:
        sets[keys, NEXT_COST] = min(
            _i8(_FAR), tables[3][rule, COMMA] + new_key(tables, arena, start, _i8(1), keys, _i8(MEETS)))
    return _i8(sets[keys, NEXT_COST])


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _rest(tables, arena, rule, keys, spent, found, count, met, but):  # type: ignore[no-untyped-def]
    """Bytes of the properties that are missing, with their commas, once the set came to `spent`, `found`, `count` and
    `met`; but: a declared key that is written beside those of `keys`, -1 for none."""
    row, members, at = tables[3][rule], tables[10], tables[3][rule, FIRST]
    if row[OWED] >= _FAR:
        return _i8(_FAR)
    unmet = row[DEMAND] - row[DEMAND] * met
    total = _i8(row[OWED] - spent)
    if unmet > 0:
        total += _demanded(tables, arena, rule, keys)
    more = row[LEAST] - count - (row[NEEDED] - found) - unmet
    if more > 0 and row[FILLER] < _FAR:
        total += more * row[FILLER]
    elif more > 0:
        for i in range(row[SIZE]):
            j = _i8(members[at + i, RANKED])
            if j < 0 or more == 0:
                break
            if j != but and not _wrote(arena, keys, j):
                total += members[at + j, COST]
                more -= 1
        if more > 0:
            return _i8(_FAR)
    return min(total, _i8(_FAR))


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def _rest_now(tables, arena, rule, keys):  # type: ignore[no-untyped-def]
    known = arena[5][keys]
    return _rest(tables, arena, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT]), _i8(known[MET]),
                 _i8(-1))


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8, _i8))
def _within_free(tables, arena, state, keys, key, exact, loose):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from inside a key that becomes a free one."""
    rule, base, known = _i8(tables[2][state, RULE]), tables[2][state, BASE], arena[5][keys]
    row, best = tables[3][rule], _i8(_FAR)
    slack = _slack(tables, arena, rule, keys) + (_MANY if loose > 0 else 0)
    unmet = row[DEMAND] - row[DEMAND] * known[MET]
    for way in range(2):
        if (way == 0 and slack < 1) or (way == 1 and (unmet == 0 or slack < 0)):
            continue
        column = _i8(MEETS if way == 1 else (OTHER if unmet > 0 else FREE))
        cost = _i8(tables[7][base + column])
        if exact == 1 and cost < _FAR:
            cost = new_key(tables, arena, state, key, keys, column)
        if cost < _FAR:
            met = _i8(1 if way == 1 else known[MET])
            best = min(best, cost + row[ENDING] + _rest(
                tables, arena, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT] + 1), met, _i8(-1)))
    return best


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8, _i8))
def within(tables, arena, state, keys, key, exact, loose):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from a state inside a key; FAR or more when no key that may be written begins so."""
    rule, known, reach, members = _i8(tables[2][state, RULE]), arena[5][keys], tables[11], tables[10]
    row = tables[3][rule]
    best = _i8(_FAR)
    if row[HAS_FREE] == 1:
        best = _within_free(tables, arena, state, keys, key, exact, loose)
    slack = _slack(tables, arena, rule, keys)
    for e in range(tables[2][state, REACH], tables[2][state, REACH_END]):
        j = _i8(reach[e, 0])
        member = members[row[FIRST] + j]
        written = _wrote(arena, keys, j)
        if (exact == 1 and written) or (member[REQUIRED] == 0 and slack < 1 and loose == 0):
            continue
        cost = reach[e, 1] + member[BEHIND_KEY] + row[ENDING]
        if cost >= best:
            continue
        needed = 1 if member[REQUIRED] == 1 and not written else 0
        best = min(best, cost + _rest(
            tables, arena, rule, keys, _i8(known[SPENT] + needed * member[COST]), _i8(known[FOUND] + needed),
            _i8(known[AMOUNT] + 1), _i8(known[MET]), j))
    return min(best, _i8(_FAR))


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def _begin(tables, arena, rule, keys):  # type: ignore[no-untyped-def]
    """Bytes from the begin of the next key to the frame's end; remembered with the set."""
    start, sets = _i8(tables[3][rule, KEYS_AT]), arena[5]
    if start < 0:
        return _i8(_FAR)
    if keys == 0:
        return _i8(tables[7][tables[2][start, BASE]])
    if sets[keys, STARTS] < 0:
        sets[keys, STARTS] = within(tables, arena, start, keys, _i8(1), _i8(1), _i8(0))
    return _i8(sets[keys, STARTS])


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8))
def members_remaining(tables, arena, state, register, key, exact):  # type: ignore[no-untyped-def]
    """Bytes that the frame in (state, register) needs to its end; FAR or more when it cannot."""
    rule, base = _i8(tables[2][state, RULE]), tables[2][state, BASE]
    loose, keys = register & LAX, register & (LAX - 1)
    distance, row, known = tables[7], tables[3][rule], arena[5][keys]
    if tables[2][state, PART] == INSIDE:
        return within(tables, arena, state, keys, key, exact, loose)
    best, slack = _i8(_FAR), _slack(tables, arena, rule, keys)
    if tables[2][state, PART] == BEHIND:
        if distance[base + HOME] < _FAR and (slack >= 0 or loose > 0):
            best = distance[base + HOME] + row[ENDING] + _rest_now(tables, arena, rule, keys)
        if distance[base + MEETS] < _FAR and known[MET] < row[DEMAND] and (slack >= -1 or loose > 0):
            best = min(best, distance[base + MEETS] + row[ENDING] + _rest(
                tables, arena, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT]), _i8(1), _i8(-1)))
        return min(best, _i8(_FAR))
    alone, way, done = _i8(distance[base + ALONE]), _i8(distance[base + WAY]), _done(tables, arena, rule, keys)
    if slack < 0 and loose == 0:
        return best
    if done or (loose > 0 and way >= _FAR):
        best = alone
    if way < _FAR and best >= _FAR:
        best = min(best, way + _begin(tables, arena, rule, keys))
    if loose > 0 and best >= _FAR:
        best = alone if alone < _FAR else way + row[ENDING]
    return min(best, _i8(_FAR))


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8))
def class_of(tables, arena, state, register):  # type: ignore[no-untyped-def]
    """What of a register a walk feels that ignores which keys were written; remembered with the set."""
    keys, sets, rule = register & (LAX - 1), arena[5], _i8(tables[2][state, RULE])
    if keys > 0 and sets[keys, KIND_OF] >= 0:
        return _i8(sets[keys, KIND_OF])
    bits = _EMPTY if keys == 0 else 0
    if _done(tables, arena, rule, keys):
        bits |= _DONE
    if _begin(tables, arena, rule, keys) < _FAR:
        bits |= _MORE
    if _slack(tables, arena, rule, keys) >= 1:
        bits |= _SLACK
    if sets[keys, MET] == 1:
        bits |= _MEETS
    if keys > 0:
        sets[keys, KIND_OF] = bits
    return _i8(bits)


@kernel(types.boolean(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8))
def doubtful(tables, arena, target, register, action):  # type: ignore[no-untyped-def]
    """Whether a move to `target` that left `register` depends on which keys were written, so that only an exact test
    can judge it."""
    if action == CLOSE_KEY or action >= KEY:
        return True
    loose, rule = register & LAX, _i8(tables[2][target, RULE])
    if tables[2][target, PART] != INSIDE:
        return loose > 0 and tables[2][target, PART] != BEHIND
    if tables[3][rule, TIGHT] == 0 or register == 0:
        return loose > 0 and action == OPEN_KEY
    if tables[3][rule, TIGHT] == 2 and loose == 0:
        return _slack(tables, arena, rule, register) < 1
    return True
