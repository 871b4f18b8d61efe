"""The shortest rest of a free key that gives none of the keys written before."""

from __future__ import annotations

from numba import types

from .arena import find_pair
from .context import (
    CONTEXT_TYPE,
    classes_of,
    distance_of,
    edges_of,
    go_of,
    pair_slots_of,
    pairs_of,
    rules_of,
    sets_of,
    single_of,
    states_of,
)
from .ir import CLOSE_KEY, KEY, NEXT_KEY
from .jit import inner, shared
from .key_text import PENDING
from .tables import (
    BASE,
    CALLS,
    CALLS_END,
    FAR,
    FREE,
    HOME,
    KIND,
    MEETS,
    MEMBERS,
    OTHER,
    RULE,
    SURPLUS,
    contains,
)

_i8 = types.int64
_FAR = FAR


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def begins_used(context, keys, prefix):  # type: ignore[no-untyped-def]
    """Whether some key of the set begins with, or is, `prefix`. A key's number exceeds those of its prefixes."""
    pairs, sets = pairs_of(context), sets_of(context)
    while keys > 0:
        key = sets[keys, 1]
        while key > prefix:
            key = pairs[key, 0]
        if key == prefix:
            return True
        keys = _i8(sets[keys, 0])
    return False


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _after_key(context, state, low):  # type: ignore[no-untyped-def]
    """Bytes from the end of a key on, without another free key where that is possible; of `Members`, to the end of the
    value."""
    states, distance = states_of(context), distance_of(context)
    base = states[state, BASE]
    if states[state, KIND] != MEMBERS:
        alone = distance[base + low + 1]
        return _i8(alone if alone < _FAR else distance[base + low])
    if low == FREE or (low == OTHER and distance[base + MEETS] >= _FAR):
        return _i8(distance[base + HOME])
    return _i8(distance[base + MEETS] if low == MEETS else _FAR)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _leave(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end when the very next byte leaves the tree of used keys: ends the key, or makes it new."""
    classes, go, states, single = classes_of(context), go_of(context), states_of(context), single_of(context)
    rules, edges, distance = rules_of(context), edges_of(context), distance_of(context)
    pairs, pair_slots = pairs_of(context), pair_slots_of(context)
    best = _i8(_FAR)
    used = contains(context, keys, key)
    for byte in range(256):
        entry = go[state, classes[byte]]
        if entry == -1 or single[byte] == 0:
            continue
        target = entry
        if entry <= -2:
            target = edges[-2 - entry, 1]
            action = edges[-2 - entry, 2]
            if action in (CLOSE_KEY, NEXT_KEY) and not used:
                more = rules[states[state, RULE], SURPLUS] if action == NEXT_KEY else 0
                best = min(best, 1 + more + _after_key(context, target, low))
            if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY:
                continue
        cost = 1 + distance[states[target, BASE] + low]
        if cost < best:
            child = find_pair(pairs, pair_slots, key, byte)
            if child == 0 or not begins_used(context, keys, child):
                best = _i8(cost)
    return best


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def new_key(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from `state` inside the key `key`, by the shortest way that gives no key of the set
    `keys`. low: the column of the distances that lead there; of `Members` they lead to the end of the value."""
    classes, go, states, single = classes_of(context), go_of(context), states_of(context), single_of(context)
    edges, distance = edges_of(context), distance_of(context)
    pairs, sets = pairs_of(context), sets_of(context)
    if pairs[key, 1] >= PENDING and keys > 0:
        # Inside an escape: whatever character it gives, a key longer than all of the set is near.
        longest, rest = 0, keys
        while rest > 0:
            longest = max(longest, pairs[max(0, sets[rest, 1]), 2])
            rest = _i8(sets[rest, 0])
        return min(_i8(_FAR), distance[states[state, BASE] + low] + _i8(longest + 2))
    if not begins_used(context, keys, key):
        return _i8(distance[states[state, BASE] + low])
    best = _leave(context, state, key, keys, low)
    rest = keys
    while rest > 0:
        length = 0
        at = sets[rest, 1]
        while at > key:
            length += 1
            at = pairs[at, 0]
        if at == key and length > 0:
            here = state
            for k in range(1, length + 1):
                # A byte brings the end nearer by one at most: once this way cannot win, no longer one along it can.
                if k - 1 + distance[states[here, BASE] + low] >= best:
                    break
                at = sets[rest, 1]
                for _ in range(length - k):
                    at = pairs[at, 0]
                if states[here, CALLS] < states[here, CALLS_END]:
                    best = min(best, k - 1 + distance[states[here, BASE] + low])  # a called key body: presumed endless
                    break
                entry = go[here, classes[pairs[at, 1]]]
                if entry <= -2:
                    action = edges[-2 - entry, 2]
                    entry = -1 if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY else edges[-2 - entry, 1]
                if entry == -1 or single[pairs[at, 1]] == 0:
                    break
                here = _i8(entry)
                best = min(best, k + _leave(context, here, _i8(at), keys, low))
        rest = _i8(sets[rest, 0])
    if states[state, CALLS] < states[state, CALLS_END]:
        best = min(best, _i8(distance[states[state, BASE] + low]))
    return best
