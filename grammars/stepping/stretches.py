"""Stretches of a walk in which nothing changes: the subtree below a thread that most bytes lead back to.

Inside an identifier, a word or a comment one byte is as good as another, and a step for each node of the vocabulary is
wasted. So each byte is stepped once: it ends the text, leads back to exactly this thread, or leads elsewhere; then a
node of the stretch costs one look into that list.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import FEW, FIXED, STATUS
from ..binding.context import (
    CONTEXT_TYPE,
    TRIE_TYPE,
    byte_of,
    classes_of,
    go_of,
    kinds_of,
    known_of,
    marked_of,
    nodes_of,
    report_of,
    size_of,
    states_of,
    stretches_of,
    threads_of,
    token_of,
    twin_of,
)
from ..binding.tables import AMPLE, DISTINCT, FAR, KIND
from ..jit import entry, inner
from .nearest import nearest
from .walk import MARKED, NODE, OPEN, ORIGIN, REG, STATE, WORST, step

LEAST = 64  # nodes of a subtree that pay for the list
SLOTS = 24  # lists of one walk
_BYTES = 8  # that must lead back
COMMON = np.frombuffer(b"aeot AE01_.-\xc3\xe4\x80\xa0", np.uint8)
DEAD, BACK, ELSEWHERE = 0, 1, 2  # what a byte does
# columns of a stretch: its subtree's end, its thread, the list, marks
END, AT, SLOT, MARKS = 0, 1, 2, 3

_i8, _i44, _i8s, _u4 = types.int64, types.int32[:, ::1], types.int64[::1], types.uint32[::1]


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def _mark(context, token, crossed):  # type: ignore[no-untyped-def]
    marked, report = marked_of(context), report_of(context)
    mark = report[MARKED]
    if mark < marked.shape[0]:
        marked[mark, 0], marked[mark, 1] = token, crossed
        report[MARKED] = mark + 1


@inner(types.void(CONTEXT_TYPE, TRIE_TYPE, _i8, _u4, _i8))
def allow(context, trie, node, words, crossed):  # type: ignore[no-untyped-def]
    """Sets the bits of the tokens that end at a node; marks them when `crossed` is not 0."""
    token, twin = token_of(trie)[node], twin_of(trie)
    while token >= 0:
        words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        if crossed > 0:
            _mark(context, _i8(token), crossed)
        token = twin[token]


@inner(_i8(CONTEXT_TYPE, _i8))
def _leading_back(context, state):  # type: ignore[no-untyped-def]
    """How many bytes lead from a state to itself, calls and returns aside; 0 where none of the commonest does."""
    go, classes = go_of(context), classes_of(context)
    common = False
    for k in range(COMMON.size):
        common = common or go[state, classes[COMMON[k]]] == state
    if not common:
        return _i8(0)
    count = 0
    for byte in range(256):
        if go[state, classes[byte]] == state:
            count += 1
    return _i8(count)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _list_of(context, at, exact):  # type: ignore[no-untyped-def]
    """The row of `kinds` that says what each byte does to threads[at]; -1: not worth one, -2: trouble.

    threads behind `at` are overwritten. known[k]: state, register, node and origin of list k; known[SLOTS, 0]: how
    many.
    """
    states, classes, threads = states_of(context), classes_of(context), threads_of(context)
    kinds, known = kinds_of(context), known_of(context)
    state, register, node = threads[at, STATE], threads[at, REG], threads[at, NODE]
    if threads[at, OPEN] != 0 or states[state, KIND] >= DISTINCT:
        return _i8(-1)
    status = nodes_of(context)[node, STATUS]
    if status & FIXED != 0 or (status & FEW != 0 and states[state, AMPLE] != 1):
        return _i8(-1)
    for k in range(known[SLOTS, 0]):
        if (known[k, 0] == state and known[k, 1] == register and known[k, 2] == node
                and known[k, 3] == threads[at, ORIGIN]):
            return _i8(k)
    slot = known[SLOTS, 0]
    if slot >= SLOTS or _leading_back(context, _i8(state)) < _BYTES:
        return _i8(-1)
    for byte in range(256):
        if byte > 0 and classes[byte] == classes[byte - 1]:  # a class is a range of bytes
            kinds[slot, byte] = kinds[slot, byte - 1]
            continue
        end = step(context, at, at + 1, _i8(byte), exact)
        if end < 0:
            return _i8(-2)
        kind = DEAD if end == at + 1 else ELSEWHERE
        if (end == at + 2 and threads[at + 1, STATE] == state and threads[at + 1, REG] == register
                and threads[at + 1, NODE] == node and threads[at + 1, OPEN] == 0):
            kind = BACK
        kinds[slot, byte] = kind
    known[slot, 0], known[slot, 1], known[slot, 2], known[slot, 3] = state, register, node, threads[at, ORIGIN]
    known[SLOTS, 0] = slot + 1
    return _i8(slot)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def enter_stretch(context, at, top, begin, end, limit, exact, marks):  # type: ignore[no-untyped-def]
    """Opens a stretch of the nodes [begin, end) below threads[at:top], when they are one. Returns the number of
    stretches that are open (stretches[-1, END]), -1 in trouble."""
    stretches, report = stretches_of(context), report_of(context)
    last = stretches.shape[0] - 1
    open_now = _i8(stretches[last, END])
    if top - at != 1 or end - begin < LEAST or open_now >= last:
        return open_now
    cost = nearest(context, at, at + 1, exact)
    if cost > limit or cost >= FAR:
        return open_now
    slot = _list_of(context, at, exact)
    if slot < 0:
        return _i8(-1) if slot == -2 else open_now
    report[WORST] = max(report[WORST], cost)
    row = stretches[open_now]
    row[END], row[AT], row[SLOT], row[MARKS] = end, at, slot, marks
    stretches[last, END] = open_now + 1
    return open_now + 1


@inner(_i8(CONTEXT_TYPE, TRIE_TYPE, _i8, _u4))
def along_stretch(context, trie, i, words):  # type: ignore[no-untyped-def]
    """Goes on in the innermost open stretch from node i as long as nothing else happens; returns the node at which it
    does, or the stretch's end."""
    byte, size, token = byte_of(trie), size_of(trie), token_of(trie)
    stretches = stretches_of(context)
    row = stretches[stretches[stretches.shape[0] - 1, END] - 1]
    kind = kinds_of(context)[row[SLOT]]
    while i < row[END] and kind[byte[i]] != ELSEWHERE:
        if kind[byte[i]] == DEAD:
            i += size[i]
            continue
        if token[i] >= 0:
            allow(context, trie, _i8(i), words, _i8(row[MARKS]))
        i += 1
    return _i8(i)


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i44, _i8s))
def fan(context, count, limit, exact, parents, spread):  # type: ignore[no-untyped-def]
    """What each next byte does to threads[:count]. spread[byte]: the list (a row of kinds) of the one thread that it
    leads to, where that is a stretch; -1 for other bytes, -2 for those that end the text.

    parents[k]: the thread of list k. Returns how many lists there are, -1 in trouble.
    """
    classes, threads, known, report = classes_of(context), threads_of(context), known_of(context), report_of(context)
    known[SLOTS, 0] = 0
    for byte in range(256):
        if byte > 0 and classes[byte] == classes[byte - 1]:
            spread[byte] = spread[byte - 1]
            continue
        end = step(context, _i8(0), count, _i8(byte), exact)
        if end < 0:
            return _i8(-1)
        slot = _i8(-2) if end == count else _i8(-1)
        if end - count == 1:
            before = known[SLOTS, 0]
            cost = nearest(context, count, end, exact)
            if cost <= limit and cost < FAR:
                slot = _list_of(context, count, exact)
                if slot == -2:
                    return _i8(-1)
            if slot >= 0:
                report[WORST] = max(report[WORST], cost)
            if slot == before:
                for c in range(5):
                    parents[slot, c] = threads[count, c]
        spread[byte] = slot
    return _i8(known[SLOTS, 0])
