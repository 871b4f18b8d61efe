"""Which keys were written, and with what they begin: all these carry a mark, made once for a set.

Twice the number of the marking, and one more for a key that is whole.
"""

from __future__ import annotations

from numba import types

from ..jit import inner, shared
from .arena import KEYS, MARK, MARKED, MARKING
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
            pairs[key, MARK] = 0
    counts[MARKING] += 1


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
        if key > 0:
            pairs[key, MARK], key = 2 * number + 1, _i8(pairs[key, 0])
        while key > 1 and pairs[key, MARK] >> 1 != number:
            pairs[key, MARK], key = 2 * number, _i8(pairs[key, 0])
    counts[MARKED] = keys
    return _i8(0)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def is_used(context, keys, key):  # type: ignore[no-untyped-def]
    """Whether the set has the key."""
    if keys <= 0:
        return False
    if counts_of(context)[MARKED] != keys:
        _mark(context, keys)
    return pairs_of(context)[key, MARK] == 2 * counts_of(context)[MARKING] + 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def begins_used(context, keys, prefix):  # type: ignore[no-untyped-def]
    """Whether some key of the set begins with, or is, `prefix`."""
    if keys <= 0:
        return False
    if counts_of(context)[MARKED] != keys:
        _mark(context, keys)
    return prefix == 1 or pairs_of(context)[prefix, MARK] >> 1 == counts_of(context)[MARKING]
