"""Which keys were written, and with what they begin: all these carry a mark, made once for a set.

Twice the number of the marking, and one more for a key that is whole. The empty key carries none: answers begin with it
too (arena.OPENED).
"""

from __future__ import annotations

from numba import types

from ..jit import inner, shared
from .arena import HAS_EMPTY, KEYS, MARK, MARKED, MARKED_BY, MARKING, SPELLED, SPENT_IN
from .context import CONTEXT_TYPE, counts_of, pairs_of, sets_of

_LAST_MARKING = 0x3FFFFFFF

_i8 = types.int64


@inner(types.void(CONTEXT_TYPE))
def _begin_marking(context):  # type: ignore[no-untyped-def]
    """From now on no key carries a mark."""
    counts, pairs = counts_of(context), pairs_of(context)
    if counts[MARKING] == _LAST_MARKING:
        counts[MARKING] = 0
        for key in range(counts[KEYS]):
            pairs[key, MARK] = pairs[key, MARK] if pairs[key, 1] >= SPELLED else 0
    counts[MARKING] += 1
    counts[HAS_EMPTY] = 0


@shared(_i8(CONTEXT_TYPE, _i8))
def _mark(context, keys):  # type: ignore[no-untyped-def]
    """Marks the keys of a set and what they begin with; those of a set with one key less may be already."""
    counts, pairs, sets = counts_of(context), pairs_of(context), sets_of(context)
    before = _i8(sets[keys, 0])
    if before <= 0 or before != counts[MARKED]:
        _begin_marking(context)
        before = _i8(0)
    rest, number = keys, counts[MARKING]
    while rest > before:
        key, rest = _i8(sets[rest, 1]), _i8(sets[rest, 0])
        if key == 1:
            counts[HAS_EMPTY] = 1
        whole = 1
        while key > 1 and pairs[key, MARK] >> 1 != number:
            pairs[key, MARK], pairs[key, SPENT_IN], key, whole = 2 * number + whole, 0, _i8(pairs[key, 0]), 0
        if whole == 1 and key > 1:
            pairs[key, MARK] |= 1
    counts[MARKED] = keys
    return _i8(0)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def is_used(context, keys, key):  # type: ignore[no-untyped-def]
    """Whether the set has the key."""
    if keys <= 0:
        return False
    if counts_of(context)[MARKED] != keys:
        _mark(context, keys)
    if key == 1:
        return counts_of(context)[HAS_EMPTY] == 1
    return pairs_of(context)[key, MARK] == 2 * counts_of(context)[MARKING] + 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def begins_used(context, keys, prefix):  # type: ignore[no-untyped-def]
    """Whether some key of the set begins with, or is, `prefix`."""
    if keys <= 0:
        return False
    if counts_of(context)[MARKED] != keys:
        _mark(context, keys)
    return prefix == 1 or pairs_of(context)[prefix, MARK] >> 1 == counts_of(context)[MARKING]


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def is_spent(context, key, state):  # type: ignore[no-untyped-def]
    """Whether `spend` was told so of a key that begins one of the set marked last."""
    return pairs_of(context)[key, SPENT_IN] == state + 1


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def spend(context, key, state):  # type: ignore[no-untyped-def]
    """Remembers that all keys that begin with this one, which leads to a state, are used; so it stays while the set
    grows. The key begins one of the set marked last, and is not empty."""
    pairs_of(context)[key, SPENT_IN] = state + 1


@inner(types.void(CONTEXT_TYPE, _i8))
def spend_by(context, low):  # type: ignore[no-untyped-def]
    """Forgets what `spend` was told by another column of distances than this."""
    if counts_of(context)[MARKED_BY] != low:
        counts_of(context)[MARKED_BY], counts_of(context)[MARKED] = low, 0
