"""A mask is one walk over the byte trie of the vocabulary, all threads at once; here is that walk."""

from __future__ import annotations

import numpy as np
from numba import types

from .arena import ARENA_TYPE, FULL, KEYS, NODES, SETS, undo
from .jit import kernel
from .stretches import (
    ALLOWED,
    ELSEWHERE,
    END,
    LOOKED,
    MARKED,
    NOTES,
    SLOTS,
    WORST,
    allow,
    along_stretch,
    enter_stretch,
)
from .tables import (
    BASE,
    COUNT_LOOP,
    COUNTER,
    FAR,
    HIGH,
    KIND,
    LOOP,
    LOW,
    NO_LOOP,
    PLATEAU,
    RULE,
    TABLES_TYPE,
    TIGHT,
)
from .tables import PLAIN as FREE
from .trie import TRIE_TYPE
from .walk import CROSSED, NODE, OPEN, POPPED, REG, STATE, advance, glide, near, nearest, step

_i8, _u1, _i44, _i8s = types.int64, types.uint8[::1], types.int32[:, ::1], types.int64[::1]
_u4, _i4, _u11 = types.uint32[::1], types.int32[::1], types.uint8[:, ::1]


@kernel(types.boolean(_i44, _i44, _i44, _i8, _i8))
def _loops(states, rules, threads, at, exact):  # type: ignore[no-untyped-def]
    """Whether threads[at] loops on all plain bytes, free keys aside."""
    if threads[at, OPEN] != 0:
        return False
    state = threads[at, STATE]
    heedless = states[state, KIND] <= COUNTER or (exact == 0 and rules[states[state, RULE], TIGHT] == 0)
    return states[state, LOOP] != NO_LOOP and heedless


@kernel(types.void(_i44, _i44, _i4, _i8s, TRIE_TYPE, _i44, _i8, _i8, _i8, _i8, _u4, _i44, _i8s))
def _loop(  # type: ignore[no-untyped-def]
    states, rules, distance, costs, trie, threads, at, top, limit, crossed, words, marked, report,
):
    """Takes the whole subtree of node `top`, all plain bytes, for threads[at], whose state loops on these."""
    depth, size, token = trie[1], trie[2], trie[3]
    state, register = _i8(threads[at, STATE]), _i8(threads[at, REG])
    rule = states[state, RULE]
    low, plateau, highest = _i8(rules[rule, LOW]), _i8(rules[rule, PLATEAU]), _i8(rules[rule, HIGH])
    base, below = _i8(states[state, BASE]), costs[threads[at, NODE]]
    counts = states[state, LOOP] == COUNT_LOOP
    counter = states[state, KIND] == COUNTER
    i, marks = top, report[MARKED]
    while i < top + size[top]:
        now = register + depth[i] - depth[top] + 1 if counts else register
        if counts and 0 <= highest < now:
            i += size[i]
            continue
        if token[i] >= 0:
            column = min(now, low) + (max(0, now - plateau) if counter else 0)
            cost = distance[base + (column if states[state, KIND] != FREE else 0)] + below
            if cost <= limit and cost - below < FAR:
                report[WORST] = max(report[WORST], cost)
                report[ALLOWED] += 1
                marks = allow(trie, _i8(i), words, marked, _i8(marks), crossed)
        i += 1
    report[MARKED] = marks


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, _i44, _i8, _i8, _i8, _i8, _i8, _u4, _i44, _i8s, _i8, _i44, _i8s,
               _i8s, _i44, _u11, _i44))
def walk(  # type: ignore[no-untyped-def]
    tables, arena, trie, threads, count, begin, end, limit, exact, words, marked, report, first_only, queue, offsets,
    crossed, stretches, kinds, known,
):
    """Sets the bit of every token in the trie nodes [begin, end) that threads[:count] can read.

    The nodes are a whole subtree's children, and the threads stand before them. limit: the largest U that a successor
    may have. exact: heed the free keys written. marked[i] = (token, moves that only an exact test can judge).
    report: the largest U seen, frames looked into, tokens marked, tokens allowed, trouble; several walks may share
    one. first_only: stop at one.
    threads, queue, offsets, crossed, stretches, kinds, known: room to work in (stretches.py), offsets and crossed of
    the longest token and three more. Returns trie nodes visited, -1 in trouble.
    """
    byte, depth, size, token = trie[0], trie[1], trie[2], trie[3]
    classes, go, states, rules, edges, distance = tables[0], tables[1], tables[2], tables[3], tables[5], tables[7]
    costs, plain = arena[1], trie[5]
    notes = report[NOTES:]
    offsets[0], offsets[1], crossed[0] = 0, count, 0
    above = depth[begin] - 1 if begin < end else 0
    i, visited = begin, 0
    last = stretches.shape[0] - 1
    stretches[last, END] = 0
    known[SLOTS, 0] = SLOTS if first_only == 1 else 0
    if enter_stretch(tables, arena, threads, _i8(0), count, begin, end, limit, exact, report, queue, _i8(0), stretches,
                     kinds, known) < 0:
        return _i8(-1)
    while i < end:
        if stretches[last, END] > 0:
            i = along_stretch(trie, _i8(i), _i8(above), stretches, kinds, words, marked, report, offsets, crossed)
            if i >= end:
                break
        visited += 1
        d = depth[i] - above
        low, high = offsets[d - 1], offsets[d]
        notes[CROSSED] = 0
        if high - low == 1 and plain[i] == 1 and first_only == 0 and _loops(states, rules, threads, low, exact):
            _loop(states, rules, distance, costs, trie, threads, low, _i8(i), limit, crossed[d - 1], words, marked,
                  report)
            i += size[i]
            continue
        top = _i8(-1)
        if high - low == 1 and high < threads.shape[0]:
            top = high + glide(classes, go, states, rules, edges, distance, threads, low, _i8(byte[i]), exact)
        if top < high:
            top = step(tables, arena, threads, low, high, _i8(byte[i]), exact, queue, notes)
            if top < 0:
                return _i8(-1)
        if top == high:
            i += size[i]
            continue
        offsets[d + 1] = top
        crossed[d] = crossed[d - 1] + notes[CROSSED]
        if token[i] >= 0:
            cost = near(states, rules, distance, costs, threads, high, exact) if top - high == 1 else _i8(-1)
            if cost < 0:
                cost = nearest(tables, arena, threads, high, top, exact)
            if cost <= limit:
                report[WORST] = max(report[WORST], cost)
                report[ALLOWED] += 1
                report[MARKED] = allow(trie, _i8(i), words, marked, report[MARKED], crossed[d])
                if first_only == 1:
                    break
        if enter_stretch(tables, arena, threads, _i8(high), _i8(top), _i8(i + 1), _i8(i + size[i]), limit, exact,
                         report, queue, crossed[d], stretches, kinds, known) < 0:
            return _i8(-1)
        i += 1
    report[LOOKED] = notes[POPPED]
    return _i8(visited)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, _i44, _i44, _i8, _i8, _i8, _u4, _i44, _i8s, _i44))
def read_node(tables, arena, trie, threads, parents, node, limit, exact, words, marked, report, queue):  # type: ignore[no-untyped-def]
    """Moves `parents`, which stand before a node, into it: threads[:n], n is returned, -1 in trouble. Allows its token.
    No free keys may be open or written."""
    count = parents.shape[0]
    for t in range(count):
        for c in range(5):
            threads[t, c] = parents[t, c]
    end = step(tables, arena, threads, _i8(0), _i8(count), _i8(trie[0][node]), exact, queue, report[NOTES:])
    if end < 0:
        return _i8(-1)
    for t in range(count, end):
        for c in range(5):
            threads[t - count, c] = threads[t, c]
    left = _i8(end - count)
    if left > 0 and trie[3][node] >= 0:
        cost = nearest(tables, arena, threads, _i8(0), left, exact)
        if cost <= limit:
            report[WORST] = max(report[WORST], cost)
            allow(trie, node, words, marked, _i8(0), _i8(0))
    return left


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, _i44, _i44, _i4, _u1, _i8, _i8, _u4, _i44, _i8s, _i44, _i8s, _i8s, _i44,
               _u11, _i44))
def walk_nodes(  # type: ignore[no-untyped-def]
    tables, arena, trie, threads, parents, nodes, kind, limit, exact, words, marked, report, queue, offsets, crossed,
    stretches, kinds, known,
):
    """Like walk, for the subtrees of the nodes whose byte is ELSEWHERE in `kind`; `parents` stand before each.

    Returns 0, -1 in trouble.
    """
    byte, size = trie[0], trie[2]
    for i in nodes:
        if kind[byte[i]] != ELSEWHERE:
            continue
        left = read_node(tables, arena, trie, threads, parents, _i8(i), limit, exact, words, marked, report, queue)
        if left < 0:
            return _i8(-1)
        if left > 0 and size[i] > 1 and walk(
                tables, arena, trie, threads, left, _i8(i + 1), _i8(i + size[i]), limit, exact, words, marked, report,
                _i8(0), queue, offsets, crossed, stretches, kinds, known) < 0:
            return _i8(-1)
    return _i8(0)


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i44, _i8, _u1, _i8s, _i44, _i8, _u4, _i44, _i44, _i8s))
def strike(tables, arena, threads, count, text, ends, marked, limit, words, work, queue, notes):  # type: ignore[no-untyped-def]
    """Tests the marked tokens exactly and clears the bits of those that cannot be read or leave U > limit.

    text[ends[k-1]:ends[k]] are the bytes of marked token k. The arena is left as it was. Returns the bits cleared, -1
    in trouble.
    """
    counts = arena[7]
    nodes, keys, sets = counts[NODES], counts[KEYS], counts[SETS]
    cleared, low = 0, _i8(0)
    for k in range(ends.size):
        for t in range(count):
            for c in range(5):
                work[t, c] = threads[t, c]
        left = advance(tables, arena, work, count, text, low, ends[k], queue, notes)
        if left < 0 or counts[FULL] == 1:
            return _i8(-1)
        good = left > 0 and nearest(tables, arena, work, _i8(0), left, _i8(1)) <= limit
        undo(arena, nodes, keys, sets)
        if not good:
            bit = marked[k, 0]
            words[bit >> 5] &= ~(np.uint32(1) << np.uint32(bit & 31))
            cleared += 1
        low = ends[k]
    return _i8(cleared)
