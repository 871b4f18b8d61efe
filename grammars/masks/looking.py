"""Looking for the mask of a configuration among the finished ones, and keeping new ones, in one call of compiled code.

A *light* configuration comes to few nodes of the vocabulary: its walk is made here when its mask is not there. Others
(and those that turn out to come to many) are walked with the help of bodies (walker.py), and kept then.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import FULL, KEYS, NODES, PARENT, REGISTER, RETURN, SETS, undo
from ..binding.context import (
    CONTEXT_TYPE,
    answer_of,
    byte_of,
    calls_of,
    classes_of,
    costs_of,
    counts_of,
    first_of,
    go_of,
    kept_of,
    marked_of,
    marks_of,
    met_of,
    nodes_of,
    report_of,
    spans_of,
    states_of,
    struck_of,
    threads_of,
    weights_of,
    words_of,
)
from ..binding.tables import CALLED_RULE, CALLS, CALLS_END, FINAL
from ..bodies.spread import GIVEN_UP, WANTS, spread
from ..jit import entry, inner
from ..stepping.nearest import nearest
from ..stepping.verdicts import judge
from ..stepping.walk import ALLOWED, LOOKED, MARKED, NODE, OPEN, REG, STATE, WORST
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
    WORTH,
    find_kept,
)
from .masking import NO_LIMIT, WORDS, walk

ENDS, USED = 1, 2  # flags of a configuration: the text may end, some frame holds free keys
_DEEP = 62  # bits of DEPTHS: a mask whose walk looked farther is not found again
_ALIKE = 64  # frames down to which threads are told to be alike
_LOW = (1 << 32) - 1
_ALLOWED = 1 << 11  # nodes of a walk that is made here
_LETTERS = (0x61, 0x7B)  # a to z
_WORDY = 8  # letters that a state reads itself, from which on it is likely to have a body

_i8, _i4, _u4 = types.int64, types.int32[::1], types.uint32[::1]


@inner(_i8(CONTEXT_TYPE, _i8))
def _load(context, number):  # type: ignore[no-untyped-def]
    """Puts the threads of configuration `number` into the room; returns how many."""
    met, threads, begin = met_of(context), threads_of(context), spans_of(context)[number, 0]
    count = spans_of(context)[number, 1] - begin
    for t in range(count):
        for c in range(5):
            threads[t, c] = met[begin + t, c]
    return _i8(count)


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
    count, looked, marked, begin = _load(context, number), report[LOOKED], report[MARKED], answer[MARKED_ALL]
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


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _weight(context, finished, state):  # type: ignore[no-untyped-def]
    """Nodes of the vocabulary below the first bytes that a state reads, itself or by a call."""
    go, states, calls, first = go_of(context), states_of(context), calls_of(context), first_of(context)
    total, weights = _i8(0), weights_of(finished)
    for c in range(weights.size):
        readable = go[state, c] != -1
        for call in range(states[state, CALLS], states[state, CALLS_END]):
            readable = readable or first[calls[call, CALLED_RULE], c] == 1
        if readable:
            total += weights[c]
    return total


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _narrow(context, finished, state):  # type: ignore[no-untyped-def]
    """Whether a state reads few letters, or little of the vocabulary."""
    go, classes, letters = go_of(context), classes_of(context), 0
    for byte in range(_LETTERS[0], _LETTERS[1]):
        letters += 1 if go[state, classes[byte]] != -1 else 0
    return letters < _WORDY or _weight(context, finished, state) < answer_of(finished)[WORTH]


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _light(context, finished, count):  # type: ignore[no-untyped-def]
    """Whether a walk of the room's threads[:count], which are sorted, may come to few nodes."""
    threads, states, light = threads_of(context), states_of(context), answer_of(finished)[WORTH] > 0
    for k in range(count):
        state, node = threads[k, STATE], threads[k, NODE]
        if k == 0 or state != threads[k - 1, STATE]:
            light = light and _narrow(context, finished, _i8(state))
        if states[state, FINAL] == 1 and node > 0:
            light = light and _narrow(context, finished, _i8(nodes_of(context)[node, RETURN]))
    return light


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def _alike(context, a, b, depth):  # type: ignore[no-untyped-def]
    """Whether two threads are equal down to so many frames below theirs."""
    threads, nodes = threads_of(context), nodes_of(context)
    if threads[a, STATE] != threads[b, STATE] or threads[a, REG] != threads[b, REG] or (
            threads[a, OPEN] != threads[b, OPEN]):
        return False
    one, other = threads[a, NODE], threads[b, NODE]
    for _ in range(depth):
        if one == other:
            return True
        if one == 0 or other == 0 or (nodes[one, RETURN] != nodes[other, RETURN]) or (
                nodes[one, REGISTER] != nodes[other, REGISTER]):
            return False
        one, other = nodes[one, PARENT], nodes[other, PARENT]
    return True


@entry(_i8(CONTEXT_TYPE, _i8, _i8))
def represent(context, count, depth):  # type: ignore[no-untyped-def]
    """Leaves of the room's threads[:count] that are alike down to that depth the one nearest to its end, all where that
    is deep; returns how many are left."""
    threads, costs, left = threads_of(context), costs_of(context), 0
    if depth > _ALIKE:
        return count
    for k in range(count):
        at = left
        for other in range(left):
            if _alike(context, _i8(other), _i8(k), depth):
                at = other
                break
        if at == left or costs[threads[k, NODE]] < costs[threads[at, NODE]]:
            for c in range(5):
                threads[at, c] = threads[k, c]
        left += 1 if at == left else 0
    return _i8(left)


@entry(types.void(CONTEXT_TYPE))
def mark_once(context):  # type: ignore[no-untyped-def]
    """Leaves each of the room's marked tokens once, with at least the most of each kind of its moves."""
    marked, place, report, left = marked_of(context), struck_of(context), report_of(context), 0
    for m in range(report[MARKED]):
        token, moves = marked[m, 0], marked[m, 1]
        at = place[token]  # whatever is there: it is told to be right by what it leads to
        if 0 <= at < left and marked[at, 0] == token:
            marked[at, 1] |= moves  # they are counted in bits of their own (walk.ENDED)
        else:
            place[token], marked[left, 0], marked[left, 1] = left, token, moves
            left += 1
    report[MARKED] = left


@inner(_i8(CONTEXT_TYPE, _i8))
def _walk(context, count):  # type: ignore[no-untyped-def]
    """Walks the room's threads[:count] over the whole vocabulary as if no free key was written; the arena is left as it
    was. Negative in trouble."""
    counts, nodes = counts_of(context), _i8(byte_of(context).size)
    marks = counts[NODES], counts[KEYS], counts[SETS]
    report_of(context)[:] = 0
    report_of(context)[ALLOWED] = _ALLOWED
    words_of(context)[:] = 0
    found = walk(context, context, count, _i8(0), nodes, _i8(NO_LIMIT), _i8(0), _i8(0), _i8(WORDS))
    full = counts[FULL] == 1
    undo(context, marks[0], marks[1], marks[2])
    return _i8(-1) if full else found


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _walk_light(context, number, count):  # type: ignore[no-untyped-def]
    """The walk of configuration `number`, whose threads are the room's; of threads that differ only in frames that no
    walk looks into, one stands for all. Negative in trouble."""
    depth, report, threads = _i8(0), report_of(context), threads_of(context)
    while True:
        for k in range(count):
            threads[k, OPEN] = 0
        left = represent(context, count, depth) if count > 1 else count
        found = _walk(context, left)
        if found < 0 or report[LOOKED] <= depth or left == count:
            return found
        depth = max(report[LOOKED], 2 * depth)
        _load(context, number)


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
    kept, answer, count = kept_of(finished), answer_of(finished), _load(context, number)
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
    if walked >= 0 or (_light(context, finished, count) and _walk_light(context, number, count) >= 0):
        found = _keep(context, finished, number, flags)
    return found
