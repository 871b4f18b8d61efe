"""The shortest rest of a free key that gives none of the keys written before."""

from __future__ import annotations

from numba import types

from .arena import ARENA_TYPE, find_pair
from .ir import CLOSE_KEY, KEY, NEXT_KEY
from .jit import kernel
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
    TABLES_TYPE,
    contains,
)

_i8 = types.int64
_FAR = FAR


@kernel(types.boolean(ARENA_TYPE, _i8, _i8))
def _begins_used(arena, keys, prefix):  # type: ignore[no-untyped-def]
    """Whether some key of the set begins with, or is, `prefix`. A key's number exceeds those of its prefixes."""
    pairs, sets = arena[3], arena[5]
    while keys > 0:
        key = sets[keys, 1]
        while key > prefix:
            key = pairs[key, 0]
        if key == prefix:
            return True
        keys = _i8(sets[keys, 0])
    return False


@kernel(_i8(TABLES_TYPE, _i8, _i8))
def _after_key(tables, state, low):  # type: ignore[no-untyped-def]
    """Bytes from the end of a key on, without another free key where that is possible; of `Members`, to the end of the
    value."""
    base = tables[2][state, BASE]
    if tables[2][state, KIND] != MEMBERS:
        alone = tables[7][base + low + 1]
        return _i8(alone if alone < _FAR else tables[7][base + low])
    if low == FREE or (low == OTHER and tables[7][base + MEETS] >= _FAR):
        return _i8(tables[7][base + HOME])
    return _i8(tables[7][base + MEETS] if low == MEETS else _FAR)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8))
def _leave(tables, arena, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end when the very next byte leaves the tree of used keys: ends the key, or makes it new."""
    classes, go, states, edges, distance, single = (
        tables[0], tables[1], tables[2], tables[5], tables[7], tables[9])
    best = _i8(_FAR)
    used = contains(arena, keys, key)
    for byte in range(256):
        entry = go[state, classes[byte]]
        if entry == -1 or single[byte] == 0:
            continue
        target = entry
        if entry <= -2:
            target = edges[-2 - entry, 1]
            action = edges[-2 - entry, 2]
            if action in (CLOSE_KEY, NEXT_KEY) and not used:
                more = tables[3][tables[2][state, RULE], SURPLUS] if action == NEXT_KEY else 0
                best = min(best, 1 + more + _after_key(tables, target, low))
            if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY:
                continue
        cost = 1 + distance[states[target, BASE] + low]
        if cost < best:
            child = find_pair(arena[3], arena[4], key, byte)
            if child == 0 or not _begins_used(arena, keys, child):
                best = _i8(cost)
    return best


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8))
def new_key(tables, arena, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from `state` inside the key `key`, by the shortest way that gives no key of the set
    `keys`. low: the column of the distances that lead there; of `Members` they lead to the end of the value."""
    classes, go, states, edges, single = tables[0], tables[1], tables[2], tables[5], tables[9]
    pairs, sets = arena[3], arena[5]
    if pairs[key, 1] >= PENDING and keys > 0:
        # Inside an escape: whatever character it gives, a key longer than all of the set is near.
        longest, rest = 0, keys
        while rest > 0:
            longest = max(longest, pairs[max(0, sets[rest, 1]), 2])
            rest = _i8(sets[rest, 0])
        return min(_i8(_FAR), tables[7][states[state, BASE] + low] + _i8(longest + 2))
    if not _begins_used(arena, keys, key):
        return _i8(tables[7][states[state, BASE] + low])
    best = _leave(tables, arena, state, key, keys, low)
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
                if k - 1 + tables[7][states[here, BASE] + low] >= best:
                    break
                at = sets[rest, 1]
                for _ in range(length - k):
                    at = pairs[at, 0]
                if states[here, CALLS] < states[here, CALLS_END]:
                    best = min(best, k - 1 + tables[7][states[here, BASE] + low])  # a called key body: presumed endless
                    break
                entry = go[here, classes[pairs[at, 1]]]
                if entry <= -2:
                    action = edges[-2 - entry, 2]
                    entry = -1 if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY else edges[-2 - entry, 1]
                if entry == -1 or single[pairs[at, 1]] == 0:
                    break
                here = _i8(entry)
                best = min(best, k + _leave(tables, arena, here, _i8(at), keys, low))
        rest = _i8(sets[rest, 0])
    if states[state, CALLS] < states[state, CALLS_END]:
        best = min(best, _i8(tables[7][states[state, BASE] + low]))
    return best
