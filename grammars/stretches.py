"""Stretches of a walk in which nothing changes: the subtree below a thread that most bytes lead back to.

Inside an identifier, a word or a comment one byte is as good as another, and a step for each node of the vocabulary is
wasted. So each byte is stepped once: it ends the text, leads back to exactly this thread, or leads elsewhere; then a
node of the stretch costs one look into that list.
"""

from __future__ import annotations

import numpy as np
from numba import types

from .arena import ARENA_TYPE
from .jit import kernel
from .tables import DISTINCT, FAR, KIND, TABLES_TYPE
from .trie import TRIE_TYPE
from .walk import NODE, OPEN, ORIGIN, REG, STATE, nearest, step

# slots of a walk's `report`
WORST, LOOKED, MARKED, ALLOWED, NOTES = 0, 1, 2, 3, 4  # from NOTES on: the notes of its steps (walk.py)
REPORT = NOTES + 3
LEAST = 64  # nodes of a subtree that pay for the list
SLOTS = 24  # lists of one walk
_BYTES = 8  # that must lead back
COMMON = np.frombuffer(b"aeot AE01_.-\xc3\xe4\x80\xa0", np.uint8)
DEAD, BACK, ELSEWHERE = 0, 1, 2  # what a byte does
# columns of a stretch: its subtree's end, the node up to which something else goes on, its thread, the list, marks
END, BUSY, AT, SLOT, MARKS = 0, 1, 2, 3, 4

_i8, _u11, _i44, _i8s = types.int64, types.uint8[:, ::1], types.int32[:, ::1], types.int64[::1]
_u4 = types.uint32[::1]


@kernel(_i8(TRIE_TYPE, _i8, _u4, _i44, _i8, _i8))
def allow(trie, node, words, marked, marks, crossed):  # type: ignore[no-untyped-def]
    """Sets the bits of the tokens that end at a node; lists them when `crossed` is not 0. Returns the marks."""
    token = trie[3][node]
    while token >= 0:
        words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        if crossed > 0 and marks < marked.shape[0]:
            marked[marks, 0] = token
            marked[marks, 1] = crossed
            marks += 1
        token = trie[4][token]
    return _i8(marks)


@kernel(_i8(TABLES_TYPE, _i8))
def _leading_back(tables, state):  # type: ignore[no-untyped-def]
    """How many bytes lead from a state to itself, calls and returns aside; 0 where none of the commonest does."""
    common = False
    for k in range(COMMON.size):
        common = common or tables[1][state, tables[0][COMMON[k]]] == state
    if not common:
        return _i8(0)
    count = 0
    for byte in range(256):
        if tables[1][state, tables[0][byte]] == state:
            count += 1
    return _i8(count)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i44, _i8, _i8, _i44, _i8s, _u11, _i44))
def _list_of(tables, arena, threads, at, exact, queue, notes, kinds, known):  # type: ignore[no-untyped-def]
    """The row of `kinds` that says what each byte does to threads[at]; -1: not worth one, -2: trouble.

    threads behind `at` are overwritten. known[k]: state, register, node and origin of list k; known[SLOTS, 0]: how
    many.
    """
    state, register, node = threads[at, STATE], threads[at, REG], threads[at, NODE]
    if threads[at, OPEN] != 0 or tables[2][state, KIND] >= DISTINCT:
        return _i8(-1)
    for k in range(known[SLOTS, 0]):
        if (known[k, 0] == state and known[k, 1] == register and known[k, 2] == node
                and known[k, 3] == threads[at, ORIGIN]):
            return _i8(k)
    slot = known[SLOTS, 0]
    if slot >= SLOTS or _leading_back(tables, _i8(state)) < _BYTES:
        return _i8(-1)
    for byte in range(256):
        kinds[slot, byte] = 255
    for byte in range(256):
        if kinds[slot, byte] != 255:
            continue
        end = step(tables, arena, threads, at, at + 1, _i8(byte), exact, queue, notes)
        if end < 0:
            return _i8(-2)
        kind = DEAD if end == at + 1 else ELSEWHERE
        if (end == at + 2 and threads[at + 1, STATE] == state and threads[at + 1, REG] == register
                and threads[at + 1, NODE] == node and threads[at + 1, OPEN] == 0):
            kind = BACK
        for other in range(byte, 256):
            if tables[0][other] == tables[0][byte]:
                kinds[slot, other] = kind
    known[slot, 0], known[slot, 1], known[slot, 2], known[slot, 3] = state, register, node, threads[at, ORIGIN]
    known[SLOTS, 0] = slot + 1
    return _i8(slot)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i44, _i8, _i8, _i8, _i8, _i8, _i8, _i8s, _i44, _i8, _i44, _u11, _i44))
def enter_stretch(  # type: ignore[no-untyped-def]
    tables, arena, threads, at, top, begin, end, limit, exact, report, queue, marks, stretches, kinds, known,
):
    """Opens a stretch of the nodes [begin, end) below threads[at:top], when they are one. Returns the number of
    stretches that are open (stretches[-1, END]), -1 in trouble."""
    last = stretches.shape[0] - 1
    open_now = _i8(stretches[last, END])
    if top - at != 1 or end - begin < LEAST or open_now >= last:
        return open_now
    cost = nearest(tables, arena, threads, at, at + 1, exact)
    if cost > limit or cost >= FAR:
        return open_now
    slot = _list_of(tables, arena, threads, at, exact, queue, report[NOTES:], kinds, known)
    if slot < 0:
        return _i8(-1) if slot == -2 else open_now
    report[WORST] = max(report[WORST], cost)
    row = stretches[open_now]
    row[END], row[BUSY], row[AT], row[SLOT], row[MARKS] = end, begin, at, slot, marks
    stretches[last, END] = open_now + 1
    return open_now + 1


@kernel(_i8(TRIE_TYPE, _i8, _i8, _i44, _u11, _u4, _i44, _i8s, _i8s, _i8s))
def along_stretch(trie, i, above, stretches, kinds, words, marked, report, offsets, crossed):  # type: ignore[no-untyped-def]
    """Goes on in the open stretches from node i as long as nothing else happens; returns the node at which it does.

    That node is not in a stretch, or leads out of one: then its parent's threads are where offsets say.
    """
    byte, depth, size, token, marks = trie[0], trie[1], trie[2], trie[3], report[MARKED]
    last = stretches.shape[0] - 1
    while stretches[last, END] > 0:
        row = stretches[stretches[last, END] - 1]
        if i >= row[END]:
            stretches[last, END] -= 1
            continue
        if i < row[BUSY]:
            break
        kind = kinds[row[SLOT]]
        while i < row[END] and kind[byte[i]] != ELSEWHERE:
            if kind[byte[i]] == DEAD:
                i += size[i]
                continue
            if token[i] >= 0:
                report[ALLOWED] += 1
                marks = allow(trie, _i8(i), words, marked, _i8(marks), _i8(row[MARKS]))
            i += 1
        if i < row[END]:
            d = depth[i] - above
            offsets[d - 1], offsets[d], crossed[d - 1] = row[AT], row[AT] + 1, row[MARKS]
            row[BUSY] = i + size[i]
    report[MARKED] = marks
    return _i8(i)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i44, _i8, _i8, _i8, _i8s, _i44, _u11, _i44, _i44, _i8s))
def fan(  # type: ignore[no-untyped-def]
    tables, arena, threads, count, limit, exact, report, queue, kinds, known, parents, spread,
):
    """What each next byte does to threads[:count]. spread[byte]: the list (a row of kinds) of the one thread that it
    leads to, where that is a stretch; -1 for other bytes, -2 for those that end the text.

    parents[k]: the thread of list k. Returns how many lists there are, -1 in trouble.
    """
    known[SLOTS, 0] = 0
    for byte in range(256):
        spread[byte] = -3
    for byte in range(256):
        if spread[byte] != -3:
            continue
        end = step(tables, arena, threads, _i8(0), count, _i8(byte), exact, queue, report[NOTES:])
        if end < 0:
            return _i8(-1)
        slot = _i8(-2) if end == count else _i8(-1)
        if end - count == 1:
            before = known[SLOTS, 0]
            cost = nearest(tables, arena, threads, count, end, exact)
            if cost <= limit and cost < FAR:
                slot = _list_of(tables, arena, threads, count, exact, queue, report[NOTES:], kinds, known)
                if slot == -2:
                    return _i8(-1)
            if slot >= 0:
                report[WORST] = max(report[WORST], cost)
            if slot == before:
                for c in range(5):
                    parents[slot, c] = threads[count, c]
        for other in range(byte, 256):
            if tables[0][other] == tables[0][byte]:
                spread[other] = slot
    return _i8(known[SLOTS, 0])
