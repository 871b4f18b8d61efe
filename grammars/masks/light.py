"""Walks of light configurations: those that come to few nodes of the vocabulary, made where their mask is looked for.

Of threads that differ only in frames that no walk looks into, one stands for all.
"""

from __future__ import annotations

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
    marked_of,
    met_of,
    nodes_of,
    report_of,
    size_of,
    spans_of,
    states_of,
    struck_of,
    threads_of,
    weights_of,
    words_of,
)
from ..binding.tables import CALLED_RULE, CALLS, CALLS_END, FINAL
from ..jit import entry, inner
from ..stepping.walk import ALLOWED, LOOKED, MARKED, NODE, OPEN, REG, STATE, WORST
from .finished import WORTH
from .masking import NO_LIMIT, WORDS, walk

_ALIKE = 64  # frames down to which threads are told to be alike
_ALLOWED = 1 << 11  # nodes of a walk that is made here
_CROWD = 8  # threads from which on the parts of the vocabulary are walked by as many as each needs
_LETTERS = (0x61, 0x7B)  # a to z
_WORDY = 8  # letters that a state reads itself, from which on it is likely to have a body

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8))
def load_threads(context, number):  # type: ignore[no-untyped-def]
    """Puts the threads of configuration `number` into the room; returns how many."""
    met, threads, begin = met_of(context), threads_of(context), spans_of(context)[number, 0]
    count = spans_of(context)[number, 1] - begin
    for t in range(count):
        for c in range(5):
            threads[t, c] = met[begin + t, c]
    return _i8(count)


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


@inner(_i8(_i8))
def _deepest(depths):  # type: ignore[no-untyped-def]
    """The highest of these bits, 0 for none."""
    deepest = _i8(0)
    while depths >> (deepest + 1) > 0:
        deepest += 1
    return deepest


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _walk_light(context, number, count, depth):  # type: ignore[no-untyped-def]
    """The walk of configuration `number`, whose threads are the room's; of threads that differ only in frames that no
    walk looks into, one stands for all. depth: how many frames others like it looked into. Negative in trouble."""
    report, threads = report_of(context), threads_of(context)
    while True:
        for k in range(count):
            threads[k, OPEN] = 0
        left = represent(context, count, depth) if count > 1 else count
        found = _walk(context, left)
        if found < 0 or report[LOOKED] <= depth or left == count:
            return found
        depth = max(report[LOOKED], 2 * depth)
        load_threads(context, number)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _put_alike(context, number, count, depth):  # type: ignore[no-untyped-def]
    """Puts the threads of a configuration into the room that stand for all that are alike down to that depth, keys
    aside; returns how many."""
    load_threads(context, number)
    for k in range(count):
        threads_of(context)[k, OPEN] = 0
    return represent(context, count, depth)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _walk_parts(context, number, count):  # type: ignore[no-untyped-def]
    """As _walk_light, for many threads: what begins with one byte is a part of the vocabulary, and is walked by as many
    of them as differ in the frames that it looks into. Digits of a number look into one, brackets into many."""
    counts, report, parts, size, part = counts_of(context), report_of(context), struck_of(context), size_of(context), 0
    marks, looked, left, count_of_parts = (counts[NODES], counts[KEYS], counts[SETS]), _i8(0), _i8(_ALLOWED), 0
    report[:] = 0
    words_of(context)[:] = 0
    while part < size.size:
        parts[count_of_parts] = part
        count_of_parts += 1
        part += size[part]
    depth = _i8(1)
    while count_of_parts > 0 and left > 0:
        standing, deeper, again = _put_alike(context, number, count, depth), _i8(2 * depth), 0
        for k in range(count_of_parts):
            begin, marked, worst = _i8(parts[k]), report[MARKED], report[WORST]
            report[LOOKED], report[ALLOWED] = 0, left
            found = walk(context, context, standing, begin, begin + size[begin], _i8(NO_LIMIT), _i8(0), _i8(0),
                         _i8(WORDS))
            left = left - found if found >= 0 else _i8(-1)
            if left <= 0:
                break
            if report[LOOKED] > depth and standing < count:
                deeper = max(deeper, report[LOOKED])
                report[MARKED], report[WORST], parts[again] = marked, worst, begin
                again += 1
            looked = max(looked, report[LOOKED])
        count_of_parts, depth = again, deeper
    report[LOOKED] = looked
    full = counts[FULL] == 1
    undo(context, marks[0], marks[1], marks[2])
    return _i8(-1 if full or left <= 0 else _ALLOWED - left)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def walk_if_light(context, finished, number, count, depths):  # type: ignore[no-untyped-def]
    """The walk of configuration `number`, whose threads are the room's; negative where it is not light, and in trouble.
    depths: how many frames others like it looked into, as bits."""
    if not _light(context, finished, count):
        return _i8(-1)
    if count >= _CROWD:
        return _walk_parts(context, number, count)
    return _walk_light(context, number, count, _deepest(depths))
