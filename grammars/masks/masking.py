"""A mask is one walk over the byte trie of the vocabulary, all threads at once; here is that walk."""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import FEW, FIXED, FULL, KEYS, NODES, SETS, STATUS, TEXT, undo
from ..binding.context import (
    CONTEXT_TYPE,
    TRIE_TYPE,
    byte_of,
    classes_of,
    costs_of,
    counts_of,
    crossed_of,
    dead_of,
    depth_of,
    distance_of,
    known_of,
    levels_of,
    local_of,
    nodes_of,
    offsets_of,
    report_of,
    row_of,
    rules_of,
    size_of,
    starts_of,
    states_of,
    stretches_of,
    text_of,
    threads_of,
    token_of,
    trie_nodes_of,
    words_of,
)
from ..binding.tables import AMPLE, BASE, COUNT_LOOP, COUNTER, FAR, HIGH, KIND, LOOP, LOW, NO_LOOP, PLATEAU, RULE, TIGHT
from ..binding.tables import PLAIN as FREE
from ..binding.trie import DEEP, PLAIN, SIZE, TOKEN, WHAT
from ..jit import entry, inner, shared
from ..stepping.advancing import advance, nearest_alive
from ..stepping.nearest import near, nearest
from ..stepping.stretches import ELSEWHERE, END, LEAST, SLOTS, allow
from ..stepping.walk import ALLOWED, CROSSED, NODE, OPEN, REG, STATE, WORST, glide, keep, step
from .levels import CHILDREN, NEXT, SUBTREE, close_level, next_node, open_level, put_offsets
from .levels import KIND as LEVEL_KIND

WORDS, ROW, LOCAL = 0, 1, 2  # where a walk leaves its bits
NO_LIMIT = FAR << 10

_i8, _u1, _i44 = types.int64, types.uint8[::1], types.int32[:, ::1]
_u4, _i4 = types.uint32[::1], types.int32[::1]


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _loops(context, at, exact):  # type: ignore[no-untyped-def]
    """Whether threads[at] loops on all plain bytes, free keys aside."""
    states, threads = states_of(context), threads_of(context)
    if threads[at, OPEN] != 0:
        return False
    state = threads[at, STATE]
    heedless = states[state, KIND] <= COUNTER or (exact == 0 and rules_of(context)[states[state, RULE], TIGHT] == 0)
    status = nodes_of(context)[threads[at, NODE], STATUS]
    if status & FIXED != 0 or (status & FEW != 0 and states[state, AMPLE] != 1):
        return False
    return states[state, LOOP] != NO_LOOP and heedless


@inner(types.void(CONTEXT_TYPE, TRIE_TYPE, _i8, _i8, _i8, _i8, _u4))
def _loop(context, trie, at, top, limit, crossed, words):  # type: ignore[no-untyped-def]
    """Takes the whole subtree of node `top`, all plain bytes, for threads[at], whose state loops on these."""
    depth, size, token = depth_of(trie), size_of(trie), token_of(trie)
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    threads, report = threads_of(context), report_of(context)
    state, register = _i8(threads[at, STATE]), _i8(threads[at, REG])
    rule = states[state, RULE]
    low, plateau, highest = _i8(rules[rule, LOW]), _i8(rules[rule, PLATEAU]), _i8(rules[rule, HIGH])
    base, below = _i8(states[state, BASE]), costs_of(context)[threads[at, NODE]]
    counts = states[state, LOOP] == COUNT_LOOP
    counter = states[state, KIND] == COUNTER
    i = top
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
                allow(context, trie, _i8(i), words, crossed)
        i += 1


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _successors(context, low, high, byte, exact):  # type: ignore[no-untyped-def]
    """As walk.step, the common case apart."""
    if high - low == 1 and high < threads_of(context).shape[0]:
        top = high + glide(context, low, byte, exact)
        if top >= high:
            return top
    return step(context, low, high, byte, exact)


@inner(types.boolean(CONTEXT_TYPE, TRIE_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _u4))
def _read_token(context, trie, node, low, high, limit, exact, crossed, words):  # type: ignore[no-untyped-def]
    """Allows the token of a node, into which threads[low:high] have read; False when they would need too much."""
    report = report_of(context)
    cost = near(context, low, exact) if high - low == 1 else _i8(-1)
    if cost < 0:
        cost = nearest(context, low, high, exact)
    if cost > limit:
        return False
    report[WORST] = max(report[WORST], cost)
    allow(context, trie, node, words, crossed)
    return True


@shared(_i8(CONTEXT_TYPE, TRIE_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def walk(context, trie, count, begin, end, limit, exact, first_only, into):  # type: ignore[no-untyped-def]
    """Sets the bit of every token in the nodes [begin, end) of a trie that threads[:count] can read.

    The nodes are siblings with all that is below them, and the threads stand before them. limit: the largest U that a
    successor may have. exact: heed the free keys written. first_only: stop at one. into: WORDS, ROW or LOCAL of the
    room. The room's marked[i] = (token, moves that only an exact test can judge); several walks may share a report. By
    depth: offsets, crossed: the threads above it and such moves. Returns trie nodes visited, -1 in trouble and past
    report[ALLOWED] of them.
    """
    words, report, nodes = words_of(context), report_of(context), trie_nodes_of(trie)
    if into != WORDS:
        words = row_of(context) if into == ROW else local_of(context)
    allowed = report[ALLOWED] if report[ALLOWED] > 0 else _i8(NO_LIMIT)
    offsets, crossed, stretches = offsets_of(context), crossed_of(context), stretches_of(context)
    offsets[0], offsets[1], crossed[0] = 0, count, 0
    stretches[stretches.shape[0] - 1, END], known_of(context)[SLOTS, 0] = 0, SLOTS if first_only == 1 else 0
    if begin >= end:
        return _i8(0)
    levels, visited, above = levels_of(context), 0, _i8((nodes[begin, WHAT] >> DEEP) - 1)
    level = open_level(context, trie, _i8(1), _i8(0), begin, end, limit, exact, _i8(0))
    while level > 0:
        i = next_node(context, trie, level, words)
        if i < 0:
            level = close_level(context, level)
            continue
        d, byte = _i8((nodes[i, WHAT] >> DEEP) - above), _i8(nodes[i, WHAT] & (PLAIN - 1))
        put_offsets(context, level, d)
        visited += 1
        if visited > allowed:
            return _i8(-1)
        low, high = offsets[d - 1], offsets[d]
        if high - low == 1 and nodes[i, WHAT] & PLAIN and first_only == 0 and _loops(context, low, exact):
            _loop(context, trie, low, i, limit, crossed[d - 1], words)
            continue
        report[CROSSED] = 0
        top = _successors(context, low, high, byte, exact)
        if top < 0:
            return _i8(-1)
        if top == high:
            if exact == 0 and levels[level, LEVEL_KIND] == CHILDREN:
                dead_of(context)[level - 1, classes_of(context)[byte]] = 1
            continue
        offsets[d + 1] = top
        crossed[d] = crossed[d - 1] + report[CROSSED]
        if nodes[i, TOKEN] >= 0 and _read_token(
                context, trie, i, high, top, limit, exact, crossed[d], words) and first_only == 1:
            break
        below = nodes[i, SIZE] - 1
        if below >= LEAST or levels[level, LEVEL_KIND] != SUBTREE:
            level = open_level(context, trie, d + 1, level, i + 1, i + 1 + below, limit, exact, crossed[d])
        else:
            levels[level, NEXT] = i + 1
    return _i8(visited if level >= 0 else -1)


@entry(_i8(CONTEXT_TYPE, _i44, _i8, _i8, _i8))
def read_node(context, parents, node, limit, exact):  # type: ignore[no-untyped-def]
    """Moves `parents`, which stand before a node, into it: threads[:n], n is returned, -1 in trouble. Allows its token.
    No free keys may be open or written."""
    threads, count = threads_of(context), _i8(parents.shape[0])
    for t in range(count):
        for c in range(5):
            threads[t, c] = parents[t, c]
    end = step(context, _i8(0), count, _i8(byte_of(context)[node]), exact)
    if end < 0:
        return _i8(-1)
    left = keep(context, count, end)
    if left > 0 and token_of(context)[node] >= 0:
        _read_token(context, context, node, _i8(0), left, limit, exact, _i8(0), words_of(context))
    return left


@entry(_i8(CONTEXT_TYPE, _i44, _i4, _u1, _i8, _i8))
def walk_nodes(context, parents, nodes, kind, limit, exact):  # type: ignore[no-untyped-def]
    """Like walk, for the subtrees of the nodes whose byte is ELSEWHERE in `kind`; `parents` stand before each.

    Returns 0, -1 in trouble.
    """
    byte, size = byte_of(context), size_of(context)
    for i in nodes:
        if kind[byte[i]] != ELSEWHERE:
            continue
        left = read_node(context, parents, _i8(i), limit, exact)
        if left < 0:
            return _i8(-1)
        if left > 0 and size[i] > 1 and walk(context, context, left, _i8(i + 1), _i8(i + size[i]), limit, exact, _i8(0),
                                             _i8(WORDS)) < 0:
            return _i8(-1)
    return _i8(0)


@entry(_i8(CONTEXT_TYPE, _i44, _i8, _i4, _i8, _u4))
def strike(context, parents, answer, tokens, limit, words):  # type: ignore[no-untyped-def]
    """Tests these tokens exactly and clears the bits of those that cannot be read or leave U > limit.

    parents, answer: the threads before the tokens, and what arena.TEXT is there. The arena is left as it was. Returns
    the bits cleared, -1 in trouble.
    """
    threads, counts, count = threads_of(context), counts_of(context), _i8(parents.shape[0])
    text, starts = text_of(context), starts_of(context)
    nodes, keys, sets = counts[NODES], counts[KEYS], counts[SETS]
    cleared = 0
    for bit in tokens:
        for t in range(count):
            for c in range(5):
                threads[t, c] = parents[t, c]
        counts[TEXT] = answer
        left = advance(context, count, text, starts[bit], starts[bit + 1])
        if left < 0 or counts[FULL] == 1:
            return _i8(-1)
        cost = nearest_alive(context, left, limit) if left > 0 else _i8(-1)
        if cost == -2 or counts[FULL] == 1:
            return _i8(-1)
        good = 0 <= cost <= limit
        undo(context, nodes, keys, sets)
        if not good:
            words[bit >> 5] &= ~(np.uint32(1) << np.uint32(bit & 31))
            cleared += 1
    counts[TEXT] = 0
    return _i8(cleared)
