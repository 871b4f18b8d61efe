"""Looking for the mask of a configuration among the finished ones, and keeping new ones, in one call of compiled code.

The walk of a *light* configuration (light.py) is made here when its mask is not there. Others (and those that turn out
to come to many nodes) are walked with the help of bodies (walker.py), and kept then.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    answer_of,
    kept_of,
    marked_of,
    marks_of,
    report_of,
    words_of,
)
from ..bodies.spread import GIVEN_UP, WANTS, spread
from ..jit import entry, inner
from ..stepping.nearest import nearest
from ..stepping.verdicts import judge
from ..stepping.walk import LOOKED, MARKED, WORST
from .finished import (
    DEPTH,
    DEPTHS,
    FAR_LOOKED,
    FRESH,
    GROWS,
    GROWTH,
    HUBS_AT,
    MARKED_ALL,
    MARKED_HERE,
    MARKS,
    MARKS_END,
    NO_ROOM,
    STRUCK,
    UNSURE,
    WANTS_LOOP,
    find_kept,
)
from .light import load_threads, walk_if_light

ENDS, USED = 1, 2  # flags of a configuration: the text may end, some frame holds free keys
_DEEP = 62  # bits of DEPTHS: a mask whose walk looked farther is not found again
_LOW = (1 << 32) - 1

_i8, _i4, _u4 = types.int64, types.int32[::1], types.uint32[::1]


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _answer(context, finished, number, count, flags):  # type: ignore[no-untyped-def]
    """Tells of a mask, and judges its marked tokens for the room's threads[:count]."""
    answer, row = answer_of(finished), kept_of(finished)[number]
    answer[FAR_LOOKED], answer[GROWS], answer[MARKED_HERE] = row[DEPTH], row[GROWTH], row[MARKS_END] - row[MARKS]
    answer[STRUCK] = answer[UNSURE] = 0
    if row[MARKS] < row[MARKS_END]:
        least = 1 if flags & USED else 2  # a token that ends the first key of its object is fine
        found = judge(context, finished, count, _i8(least), row[MARKS], row[MARKS_END])
        answer[STRUCK], answer[UNSURE] = found & _LOW, found >> 32


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _keep(context, finished, number, flags):  # type: ignore[no-untyped-def]
    """What `keep` does."""
    kept, answer, marks, report = kept_of(finished), answer_of(finished), marks_of(finished), report_of(context)
    count, looked, marked, begin = load_threads(context, number), report[LOOKED], report[MARKED], answer[MARKED_ALL]
    near = find_kept(context, finished, count, flags & ENDS, _i8(-1), _i8(1))
    found = near
    if near > 0 and (count > 1 or looked > 0):
        found = find_kept(context, finished, count, flags & ENDS, looked, _i8(1))
    if near < 0 or found < 0 or begin + marked > marks.shape[0]:
        return _i8(NO_ROOM)
    if found != near and looked < _DEEP:
        kept[near, DEPTHS] |= _i8(1) << looked
    row = kept[found]
    if row[GROWTH] < 0:
        row[DEPTH], row[GROWTH] = looked, max(_i8(0), report[WORST] - nearest(context, _i8(0), count, _i8(0)))
        row[MARKS], row[MARKS_END] = begin, begin + marked
        for m in range(marked):
            marks[begin + m, 0], marks[begin + m, 1] = marked_of(context)[m, 0], marked_of(context)[m, 1]
        answer[MARKED_ALL] = begin + marked
    _answer(context, finished, found, count, flags)
    answer[FRESH] = 1
    return found


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def keep(context, finished, number, flags):  # type: ignore[no-untyped-def]
    """Keeps what a walk of configuration `number` left in the room's report and marks; returns as `look` does."""
    return _keep(context, finished, number, flags)


@entry(types.void(CONTEXT_TYPE, _u4, _i4))
def without(context, row, struck):  # type: ignore[no-untyped-def]
    """Puts a row less some tokens into the room's words."""
    words = words_of(context)
    for w in range(words.size):
        words[w] = row[w]
    for k in range(struck.size):
        words[struck[k] >> 5] &= ~(np.uint32(1) << np.uint32(struck[k] & 31))


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def look(context, finished, number, flags):  # type: ignore[no-untyped-def]
    """The number of the mask of configuration `number`, which `answer` tells of; walked, when it is light and not
    there (its bits are the room's words). 0 where none is kept, NO_ROOM, WANTS_LOOP.

    flags: ENDS, USED. The room's struck and unsure: its tokens that keys written forbid, and those to test.
    """
    kept, answer, count = kept_of(finished), answer_of(finished), load_threads(context, number)
    near = find_kept(context, finished, count, flags & ENDS, _i8(-1), _i8(0))
    if near < 0:
        return near
    found = near if near > 0 and kept[near, GROWTH] >= 0 else _i8(0)
    depths, looked = kept[near, DEPTHS] if near > 0 else _i8(0), _i8(0)
    while found <= 0 and depths >> looked > 0:
        if (depths >> looked) & 1:
            found = find_kept(context, finished, count, flags & ENDS, looked, _i8(0))
            if found < 0:
                return _i8(NO_ROOM)
        looked += 1
    answer[FRESH] = 0
    if found > 0:
        _answer(context, finished, found, count, flags)
        return found
    walked = _i8(GIVEN_UP)
    if answer[HUBS_AT] != 0:
        walked = spread(context, _i8(answer[HUBS_AT]), count)
    if walked == WANTS:
        return _i8(WANTS_LOOP)
    if walked >= 0 or walk_if_light(context, finished, number, count, depths) >= 0:
        found = _keep(context, finished, number, flags)
    return found
