"""Lists in which two items must be equal (ir.Unlike): the items written, and whether another one is like one of them.

The set of such a list holds, before each value, the end of its text (arena.TEXT); inside an item it ends with the
answer as it was before. So the item at hand is what was written since, and can be compared with those before byte by
byte.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import LONGEST, SETS, TEXT, intern_pair
from ..binding.context import CONTEXT_TYPE, counts_of, pairs_of, rules_of, sets_of, states_of
from ..binding.tables import ALIKE, COPIED, FAR, FREELY, KIND, PART, RULE, TWICE, UNLIKE, contains
from ..jit import inner, shared
from .item_text import value_of

# columns of a set behind a value: the end of its text, and how long that is
_END, _LENGTH = 2, 3

_i8 = types.int64
_FAR = FAR


@inner(types.boolean(CONTEXT_TYPE, _i8))
def among_alike(context, state):  # type: ignore[no-untyped-def]
    """Whether a state is one of a list in which two items must be equal."""
    states = states_of(context)
    return states[state, KIND] == UNLIKE and rules_of(context)[states[state, RULE], ALIKE] > 0


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def outdone(context, one, other):  # type: ignore[no-untyped-def]
    """Whether a set has no other values than another one has: of two ways that differ only in which items they chose,
    to be equal to one that follows, this one can do nothing that the other cannot."""
    sets = sets_of(context)
    while one > 0:
        if one == other:
            return True
        if sets[one, 1] > 0 and not contains(context, other, _i8(sets[one, 1])):
            return False
        one = _i8(sets[one, 0])
    return True


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def begin_item(context, state, register):  # type: ignore[no-untyped-def]
    """The register while an item is written behind which the list goes on in `state`; 0: the arena is full. Without a
    text of the answer, which only exact steps have, that of the list."""
    answer = counts_of(context)[TEXT]
    if answer == 0 or states_of(context)[state, PART] == FREELY:
        return register
    first = _i8(-1 - states_of(context)[state, RULE])
    return intern_pair(context, SETS, register if register > 0 else first, -answer)


@inner(_i8(CONTEXT_TYPE, _i8))
def written_before(context, register):  # type: ignore[no-untyped-def]
    """The set of the list, from the register while an item is written."""
    sets = sets_of(context)
    if register > 0 and sets[register, 1] < 0:
        register = _i8(sets[register, 0])
    return max(register, _i8(0))


@inner(_i8(CONTEXT_TYPE, _i8))
def written_of_item(context, register):  # type: ignore[no-untyped-def]
    """Bytes of the item at hand."""
    pairs, sets = pairs_of(context), sets_of(context)
    return _i8(pairs[counts_of(context)[TEXT], 2] - pairs[-sets[register, 1], 2])


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def _begins(context, written, end, rest):  # type: ignore[no-untyped-def]
    """Whether the text that ends with the key `end`, its last `rest` bytes aside, ends with the last `written` bytes of
    the answer."""
    pairs, at, here = pairs_of(context), end, _i8(counts_of(context)[TEXT])
    for _ in range(rest):
        at = _i8(pairs[at, 0])
    for _ in range(written):
        if pairs[at, 1] != pairs[here, 1]:
            return False
        at, here = _i8(pairs[at, 0]), _i8(pairs[here, 0])
    return True


@shared(_i8(CONTEXT_TYPE, _i8))
def left_of_copy(context, register):  # type: ignore[no-untyped-def]
    """Bytes of the shortest text written before that begins with the item at hand, less those of the item; FAR: none
    does."""
    sets, written, best = sets_of(context), written_of_item(context, register), _i8(_FAR)
    at = written_before(context, register)
    while at > 0:
        rest = _i8(sets[at, _LENGTH]) - written
        if sets[at, 1] > 0 and 0 <= rest < best and _begins(context, written, _i8(sets[at, _END]), rest):
            best = rest
        at = _i8(sets[at, 0])
    return best


@inner(_i8(CONTEXT_TYPE, _i8))
def shortest_of(context, keys):  # type: ignore[no-untyped-def]
    """Bytes of the shortest text written, FAR when there is none."""
    sets, best = sets_of(context), _i8(_FAR)
    while keys > 0:
        if sets[keys, 1] > 0:
            best = min(best, _i8(sets[keys, _LENGTH]))
        keys = _i8(sets[keys, 0])
    return best


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def end_alike(context, state, register):  # type: ignore[no-untyped-def]
    """The register of the list behind the item at hand, where it goes on in `state`; -1: it may not, or the arena is
    full."""
    counts, keys, part = counts_of(context), written_before(context, register), states_of(context)[state, PART]
    if part == COPIED:
        return _i8(0 if left_of_copy(context, register) == 0 else -1)
    value = value_of(context)
    if value == 0:
        return _i8(-1)
    if part == TWICE or contains(context, keys, value):
        return _i8(0 if part == TWICE and contains(context, keys, value) else -1)
    length, first = written_of_item(context, register), _i8(-1 - states_of(context)[state, RULE])
    end = intern_pair(context, SETS, keys if keys > 0 else first, -counts[TEXT])
    after = intern_pair(context, SETS, end, value) if end > 0 else _i8(0)
    if after == 0:
        return _i8(-1)
    sets_of(context)[after, _END], sets_of(context)[after, _LENGTH] = counts[TEXT], length
    counts[LONGEST] = max(counts[LONGEST], length)
    return after
