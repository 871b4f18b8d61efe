"""The register of an object whose keys come in any order (ir.Members): what may follow, and how far the end is.

The register is a set of the arena: the keys written, declared ones by index (and by their bytes, where free keys are
followed), and a mark once the demand is met. What the set comes to is kept beside it. U of a frame: the way to the end
of the property at hand, the cheapest spelling of every required property that is missing, of the one that the demand
asks for, and of as many more as the least number needs.

Where a walk ignores what was written (exact 0) it still knows the set it began with: whether the object may end there,
and whether another key may begin, are part of what masks are told apart by (`class_of`). The first key of an object is
known by its number, as nothing else was written; once a later one ends in such a walk the register is LOOSE: everything
is allowed, and the token is tested one by one.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import AMOUNT, DECLARED, FOUND, KIND_OF, MET, NEXT_COST, SETS, SPENT, STARTS, intern_pair
from ..binding.context import CONTEXT_TYPE, distance_of, members_of, reach_of, rules_of, sets_of, states_of
from ..binding.member_keys import BEHIND, INSIDE
from ..binding.tables import (
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
    LOOSE,
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
    WAY,
)
from ..binding.used_keys import is_used
from ..ir import CLOSE_KEY, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN
from ..jit import entry, inner, shared
from .new_keys import new_key

LAX = 1 << 28  # in a register: a key ended in a walk that ignores what was written
_MET = -(1 << 28)  # stands for the demand in a set
_SOME = _MET - 1  # and for a free key, whichever, in a walk
_MANY = 1 << 24
# bits of a class of registers
_EMPTY, _DONE, _MORE, _SLACK, _MEETS = 1, 2, 4, 8, 16

_i8, _i4 = types.int64, types.int32[::1]
_FAR = FAR


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def wrote(context, keys, j):  # type: ignore[no-untyped-def]
    """Whether the set has declared key j."""
    sets = sets_of(context)
    while keys > 0:
        if sets[keys, DECLARED] == j + 1:
            return True
        keys = _i8(sets[keys, 0])
    return False


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def write(context, state, register, action, key, exact):  # type: ignore[no-untyped-def]
    """The register after an action of a frame in `state`, or -1 when the action is blocked."""
    if action in (NOTHING, OPEN_KEY, WRITTEN):
        return register
    sets, rule, keys = sets_of(context), states_of(context)[state, RULE], register & (LAX - 1)
    members, row = members_of(context), rules_of(context)[rule]
    j, second = _i8(-1), _i8(_MET)
    if action == MEET:
        if sets[keys, MET] == 1:
            return _i8(-1)
    elif action == CLOSE_KEY:
        if exact == 0 and register > 0:
            return register | LAX
        if exact == 1 and is_used(context, keys, key):
            return _i8(-1)
        second = key if exact == 1 else _i8(_SOME)
    else:
        j = action - KEY
        if wrote(context, keys, j):
            return _i8(-1) if exact == 1 else register | LAX
        second = key if key > 0 else -1 - j
    after = intern_pair(context, SETS, keys if keys > 0 else _i8(-1 - rule), second)
    if after > 0:
        needed = j >= 0 and members[row[FIRST] + j, REQUIRED] == 1
        sets[after, SPENT] = sets[keys, SPENT] + (members[row[FIRST] + j, COST] if needed else 0)
        sets[after, FOUND] = sets[keys, FOUND] + (1 if needed else 0)
        sets[after, AMOUNT] = sets[keys, AMOUNT] + (0 if action == MEET else 1)
        sets[after, MET] = 1 if action == MEET else sets[keys, MET]
        sets[after, DECLARED] = j + 1
    return after if exact == 1 or register == 0 else after | LAX


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _slack(context, rule, keys):  # type: ignore[no-untyped-def]
    """How many properties that nothing asks for may still be written."""
    row, known = rules_of(context)[rule], sets_of(context)[keys]
    if row[MOST] < 0:
        return _i8(_MANY)
    return _i8(row[MOST] - known[AMOUNT] - (row[NEEDED] - known[FOUND]) - (row[DEMAND] - row[DEMAND] * known[MET]))


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _done(context, rule, keys):  # type: ignore[no-untyped-def]
    """Whether nothing is missing."""
    row, known = rules_of(context)[rule], sets_of(context)[keys]
    return known[FOUND] == row[NEEDED] and known[AMOUNT] >= row[LEAST] and known[MET] >= row[DEMAND]


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _demanded(context, rule, keys):  # type: ignore[no-untyped-def]
    """Bytes of a comma and the property that meets the demand; remembered with the set."""
    row, sets = rules_of(context)[rule], sets_of(context)
    start = _i8(row[KEYS_AT])
    if keys == 0:
        return _i8(row[COMMA] + distance_of(context)[states_of(context)[start, BASE] + MEETS])
    if sets[keys, NEXT_COST] < 0:
        sets[keys, NEXT_COST] = min(
            _i8(_FAR), row[COMMA] + new_key(context, start, _i8(1), keys, _i8(MEETS)))
    return _i8(sets[keys, NEXT_COST])


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _rest(context, rule, keys, spent, found, count, met, but):  # type: ignore[no-untyped-def]
    """Bytes of the properties that are missing, with their commas, once the set came to `spent`, `found`, `count` and
    `met`; but: a declared key that is written beside those of `keys`, -1 for none."""
    row, members = rules_of(context)[rule], members_of(context)
    at = row[FIRST]
    if row[OWED] >= _FAR:
        return _i8(_FAR)
    unmet = row[DEMAND] - row[DEMAND] * met
    total = _i8(row[OWED] - spent)
    if unmet > 0:
        total += _demanded(context, rule, keys)
    more = row[LEAST] - count - (row[NEEDED] - found) - unmet
    if more > 0 and row[FILLER] < _FAR:
        total += more * row[FILLER]
    elif more > 0:
        for i in range(row[SIZE]):
            j = _i8(members[at + i, RANKED])
            if j < 0 or more == 0:
                break
            if j != but and not wrote(context, keys, j):
                total += members[at + j, COST]
                more -= 1
        if more > 0:
            return _i8(_FAR)
    return min(total, _i8(_FAR))


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _rest_now(context, rule, keys):  # type: ignore[no-untyped-def]
    known = sets_of(context)[keys]
    return _rest(context, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT]), _i8(known[MET]),
                 _i8(-1))


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _within_free(context, state, keys, key, exact, loose):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from inside a key that becomes a free one."""
    states, sets, rules, distance = states_of(context), sets_of(context), rules_of(context), distance_of(context)
    rule, base, known = _i8(states[state, RULE]), states[state, BASE], sets[keys]
    row, best = rules[rule], _i8(_FAR)
    slack = _slack(context, rule, keys) + (_MANY if loose > 0 else 0)
    unmet = row[DEMAND] - row[DEMAND] * known[MET]
    for way in range(2):
        if (way == 0 and slack < 1) or (way == 1 and (unmet == 0 or slack < 0)):
            continue
        column = _i8(MEETS if way == 1 else (OTHER if unmet > 0 else FREE))
        cost = _i8(distance[base + column])
        if exact == 1 and cost < _FAR:
            cost = new_key(context, state, key, keys, column)
        if cost < _FAR:
            met = _i8(1 if way == 1 else known[MET])
            best = min(best, cost + row[ENDING] + _rest(
                context, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT] + 1), met, _i8(-1)))
    return best


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def within(context, state, keys, key, exact, loose):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from a state inside a key; FAR or more when no key that may be written begins so."""
    states, members, reach = states_of(context), members_of(context), reach_of(context)
    rule, known, best = _i8(states[state, RULE]), sets_of(context)[keys], _i8(_FAR)
    row = rules_of(context)[rule]
    if row[HAS_FREE] == 1:
        best = _within_free(context, state, keys, key, exact, loose)
    slack = _slack(context, rule, keys)
    for e in range(states[state, REACH], states[state, REACH_END]):
        j = _i8(reach[e, 0])
        member = members[row[FIRST] + j]
        written = wrote(context, keys, j)
        if (exact == 1 and written) or (member[REQUIRED] == 0 and slack < 1 and loose == 0):
            continue
        cost = reach[e, 1] + member[BEHIND_KEY] + row[ENDING]
        if cost >= best:
            continue
        needed = 1 if member[REQUIRED] == 1 and not written else 0
        best = min(best, cost + _rest(
            context, rule, keys, _i8(known[SPENT] + needed * member[COST]), _i8(known[FOUND] + needed),
            _i8(known[AMOUNT] + 1), _i8(known[MET]), j))
    return min(best, _i8(_FAR))


@entry(types.boolean(CONTEXT_TYPE, _i8, _i8))
def has_slack(context, rule, register):  # type: ignore[no-untyped-def]
    """Whether a property that nothing asks for may still be written: until then keys are read as without a bound."""
    return _slack(context, rule, register & (LAX - 1)) >= 1


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _begin(context, rule, keys):  # type: ignore[no-untyped-def]
    """Bytes from the begin of the next key to the frame's end; remembered with the set."""
    start, sets = _i8(rules_of(context)[rule, KEYS_AT]), sets_of(context)
    if start < 0:
        return _i8(_FAR)
    if keys == 0:
        return _i8(distance_of(context)[states_of(context)[start, BASE]])
    if sets[keys, STARTS] < 0:
        sets[keys, STARTS] = within(context, start, keys, _i8(1), _i8(1), _i8(0))
    return _i8(sets[keys, STARTS])


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def members_remaining(context, state, register, key, exact):  # type: ignore[no-untyped-def]
    """Bytes that the frame in (state, register) needs to its end; FAR or more when it cannot."""
    states = states_of(context)
    rule, base = _i8(states[state, RULE]), states[state, BASE]
    loose, keys = register & LAX, register & (LAX - 1)
    distance, row, known = distance_of(context), rules_of(context)[rule], sets_of(context)[keys]
    if states[state, PART] == INSIDE:
        return within(context, state, keys, key, exact, loose)
    best, slack = _i8(_FAR), _slack(context, rule, keys)
    if states[state, PART] == BEHIND:
        if distance[base + HOME] < _FAR and (slack >= 0 or loose > 0):
            best = distance[base + HOME] + row[ENDING] + _rest_now(context, rule, keys)
        if distance[base + MEETS] < _FAR and known[MET] < row[DEMAND] and (slack >= -1 or loose > 0):
            best = min(best, distance[base + MEETS] + row[ENDING] + _rest(
                context, rule, keys, _i8(known[SPENT]), _i8(known[FOUND]), _i8(known[AMOUNT]), _i8(1), _i8(-1)))
        return min(best, _i8(_FAR))
    alone, way, done = _i8(distance[base + ALONE]), _i8(distance[base + WAY]), _done(context, rule, keys)
    if slack < 0 and loose == 0:
        return best
    if done or (loose > 0 and way >= _FAR):
        best = alone
    if way < _FAR and best >= _FAR:
        best = min(best, way + _begin(context, rule, keys))
    if loose > 0 and best >= _FAR:
        best = alone if alone < _FAR else way + row[ENDING]
    return min(best, _i8(_FAR))


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def class_of(context, state, register):  # type: ignore[no-untyped-def]
    """What of a register a walk feels that ignores which keys were written; remembered with the set."""
    keys, sets, rule = register & (LAX - 1), sets_of(context), _i8(states_of(context)[state, RULE])
    if keys > 0 and sets[keys, KIND_OF] >= 0:
        return _i8(sets[keys, KIND_OF])
    bits = _EMPTY if keys == 0 else 0
    if _done(context, rule, keys):
        bits |= _DONE
    if _begin(context, rule, keys) < _FAR:
        bits |= _MORE
    if _slack(context, rule, keys) >= 1:
        bits |= _SLACK
    if sets[keys, MET] == 1:
        bits |= _MEETS
    if keys > 0:
        sets[keys, KIND_OF] = bits
    return _i8(bits)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def doubtful(context, target, register, action):  # type: ignore[no-untyped-def]
    """Whether a move to `target` that left `register` depends on which keys were written, so that only an exact test
    can judge it."""
    states = states_of(context)
    if action == CLOSE_KEY or action >= KEY:
        return True
    loose, rule = register & LAX, _i8(states[target, RULE])
    if states[target, PART] != INSIDE:
        return loose > 0 and states[target, PART] != BEHIND
    if states[target, LOOSE] == 1 or register == 0:
        return loose > 0 and action == OPEN_KEY
    if states[target, LOOSE] == 2 and loose == 0:
        return _slack(context, rule, register) < 1
    return True
