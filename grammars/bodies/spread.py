"""A mask by hubs (hubs.py): the walk of a vocabulary that takes what repeats as rows, in grammars without registers.

Each reading of each part of the vocabulary is an *item* on a stack: the children of a node, a state, the frames below.
Where many children lead to one hub, or to states that cover it, its loop there (loops.py) is taken, then the tails of
that loop are walked, and what the others can do besides.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import DEPTH, FULL, KEYS, NODES, PARENT, REGISTER, RETURN, SETS, undo
from ..binding.context import (
    CONTEXT_TYPE,
    LOOP,
    bundles_of,
    byte_of,
    calls_of,
    classes_of,
    costs_of,
    counts_of,
    distance_of,
    go_of,
    hubs_of,
    items_of,
    kids_of,
    loop_ids_of,
    loop_row_of,
    loop_sets_of,
    loop_tokens_of,
    loops_of,
    nodes_of,
    report_of,
    spelt_of,
    states_of,
    threads_of,
    trie_nodes_of,
    twin_of,
    wanted_of,
    words_of,
)
from ..binding.tables import BASE, CALLEE, CALLS, CALLS_END, FAR, FINAL, KIND, PLAIN
from ..binding.trie import LAST, PLACE, SIZE, TOKEN
from ..jit import inner, shared
from ..stepping.walk import LOOKED, NODE, ORIGIN, REG, STATE, WORST, enter
from .hubs import COST, SET, WHOLE, calls_too, hub_of

GIVEN_UP, WANTS = -1, -2  # answers of `spread` but for the nodes visited
# columns of items: the trie, its part, the state, the stack node, the hub beside (-1: none) whose tokens are there
# already, the loop whose tails the trie is (0: none), the depth of the stack at the walk's start
_TRIE, _BEGIN, _END, _STATE, _NODE, _BESIDE, _LOOP, _ORIGIN = range(8)
# columns of bundles: the hub, the first bytes that lead to it (four words), the nodes below these, and the loop
_HUB, _BYTES, _WEIGHT, _TAKEN = 0, 1, 5, 6
# columns of loops: the node, the bytes (four words), the set of bytes that go on, and the address
AT, BYTES, THEN, ADDRESS = 0, 1, 5, 6
# slots of `wanted` behind what a loop is told by: how many loops are there; the nodes of the vocabulary from which on
# children are looked at together, and taken so
FOUND, LARGE, WORTH = 6, 7, 8
_APART = 4  # first bytes of characters that are read one by one
_ALLOWED = 1 << 13  # nodes visited

_i8, _i88 = types.int64, types.int64[:, ::1]
_TAILS = 8 * LOOP.end  # bytes before the trie of a loop's tails


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def _allow(context, loop, token):  # type: ignore[no-untyped-def]
    """Sets the bits of the tokens that end at a node of the vocabulary's trie, or of a loop's tails."""
    words = words_of(context)
    if loop == 0:
        twin = twin_of(context)
        while token >= 0:
            words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
            token = _i8(twin[token])
        return
    ids, twin = loop_ids_of(loop), twin_of(loop + _TAILS)
    while token >= 0:
        found = ids[token, 0]
        words[found >> 5] |= np.uint32(1) << np.uint32(found & 31)
        token = _i8(twin[token])


@inner(_i8(_i88, _i8, _i8, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _push(items, top, trie, begin, end, state, node, beside, loop, origin):  # type: ignore[no-untyped-def]
    """Adds an item; returns how many there are, more than there is room for where it has none."""
    if top < items.shape[0]:
        row = items[top]
        row[_TRIE], row[_BEGIN], row[_END], row[_STATE], row[_NODE] = trie, begin, end, state, node
        row[_BESIDE], row[_LOOP], row[_ORIGIN] = beside, loop, origin
    return top + 1


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _follow(context, own, top, at):  # type: ignore[no-untyped-def]
    """Adds the items of what items[at] calls and of where it returns; returns how many there are, -1 in trouble."""
    items, states, calls, nodes = items_of(own), states_of(context), calls_of(context), nodes_of(context)
    row = items[at]
    trie, begin, end, state, node = row[_TRIE], row[_BEGIN], row[_END], row[_STATE], row[_NODE]
    beside, loop, origin = row[_BESIDE], row[_LOOP], row[_ORIGIN]
    for call in range(states[state, CALLS], states[state, CALLS_END]):
        callee = _i8(calls[call, CALLEE])
        if distance_of(context)[states[callee, BASE]] >= FAR or (beside >= 0 and calls_too(context, beside, _i8(call))):
            continue
        over = enter(context, _i8(call), state, _i8(0), node, _i8(0))
        if over == 0 or top >= items.shape[0]:
            return _i8(-1)
        if over > 0:
            top = _push(items, top, trie, begin, end, callee, over, _i8(-1), loop, origin)
    if states[state, FINAL] == 1 and (beside < 0 or states[beside, FINAL] == 0):
        report_of(context)[LOOKED] = max(report_of(context)[LOOKED], origin - nodes[node, DEPTH] + 1)
        if nodes[node, REGISTER] != 0 or top >= items.shape[0]:
            return _i8(-1)
        if node > 0:
            top = _push(items, top, trie, begin, end, _i8(nodes[node, RETURN]), _i8(nodes[node, PARENT]), _i8(-1), loop,
                        origin)
    return _i8(top)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _read(context, own, top, trie, i, state, node, beside, loop, origin):  # type: ignore[no-untyped-def]
    """Allows the token of node i, which leads to a state, and adds the item of what is below."""
    row = trie_nodes_of(trie)[i]
    cost = distance_of(context)[states_of(context)[state, BASE]] + costs_of(context)[node]
    if row[TOKEN] >= 0:
        report_of(context)[WORST] = max(report_of(context)[WORST], cost)
        _allow(context, loop, _i8(row[TOKEN]))
    if row[SIZE] > 1:
        top = _push(items_of(own), top, trie, i + 1, i + row[SIZE], state, node, beside, loop, origin)
    return top


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _each(context, own, top, at):  # type: ignore[no-untyped-def]
    """The children of items[at], one by one; adds their items and returns how many there are."""
    go, classes, row = go_of(context), classes_of(context), items_of(own)[at]
    trie, begin, state, node = row[_TRIE], row[_BEGIN], row[_STATE], row[_NODE]
    beside, loop, origin = row[_BESIDE], row[_LOOP], row[_ORIGIN]
    kids, spelt = kids_of(trie), spelt_of(trie)
    place = trie_nodes_of(trie)[begin, PLACE] - 1
    more = True
    while more:
        place += 1
        more = spelt[place] < LAST
        c = classes[spelt[place] & (LAST - 1)]
        to, other = _i8(go[state, c]), _i8(-1)
        if beside >= 0:
            other = _i8(go[beside, c])
        if to >= 0 and to != other:
            top = _read(context, own, top, trie, _i8(kids[place]), to, node, other, loop, origin)
    return top


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _bundle_of(context, own, count, to):  # type: ignore[no-untyped-def]
    """Which of bundles[:count] a state belongs to, `count` for a new one, -1 for none."""
    bundles = bundles_of(own)
    hub = hub_of(context, own, to)
    if hub < 0:
        return _i8(-1)
    k = 0
    while k < count and bundles[k, _HUB] != hub:
        k += 1
    if k == count:
        if k == bundles.shape[0]:
            return _i8(-1)
        bundles[k, _HUB], bundles[k, _WEIGHT] = hub, 0
        for w in range(4):
            bundles[k, _BYTES + w] = 0
    return _i8(k)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8))
def _opening(context, own, count, to, c):  # type: ignore[no-untyped-def]
    """Which of bundles[:count] a character of several bytes belongs to that a byte of class c begins, -1 for none."""
    bundles, hubs, sets = bundles_of(own), hubs_of(own), loop_sets_of(own)
    for k in range(count):
        if sets[hubs[bundles[k, _HUB], SET], WHOLE] > 0 and go_of(context)[bundles[k, _HUB], c] == to:
            return _i8(k)
    return _i8(-1)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _gather(context, own, begin, state):  # type: ignore[no-untyped-def]
    """Fills in bundles of the children from `begin` on in the vocabulary's trie; returns how many, -1 where characters
    of several bytes are read in ways of their own."""
    kids, spelt, classes, bundles = kids_of(context), spelt_of(context), classes_of(context), bundles_of(own)
    hubs, sets = hubs_of(own), loop_sets_of(own)
    place, count, more, apart = trie_nodes_of(context)[begin, PLACE] - 1, _i8(0), True, 0
    while more:
        place += 1
        more = spelt[place] < LAST
        byte = _i8(spelt[place] & (LAST - 1))
        to = _i8(go_of(context)[state, classes[byte]])
        if to < 0:
            continue
        k = _bundle_of(context, own, count, to)
        if 0xC2 <= byte < 0xF5 and (k < 0 or sets[hubs[bundles[k, _HUB], SET], WHOLE] > 0):
            k = _opening(context, own, count, to, _i8(classes[byte]))
            apart += 1 if k < 0 else 0
        if k >= 0:
            bundles[k, _BYTES + (byte >> 6)] |= _i8(1) << (byte & 63)
            bundles[k, _WEIGHT] += trie_nodes_of(context)[kids[place], SIZE]
            count = max(count, k + 1)
    return count if apart <= _APART else _i8(-1)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _find_loop(own, begin, k, then):  # type: ignore[no-untyped-def]
    """The address of the loop of bundle k below the node before `begin`, 0 where it is not there."""
    loops, wanted, bundle = loops_of(own), wanted_of(own), bundles_of(own)[k]
    wanted[AT], wanted[THEN] = begin - 1, then
    for w in range(4):
        wanted[BYTES + w] = bundle[_BYTES + w]
    for at in range(wanted[FOUND]):
        row, equal = loops[at], True
        for c in range(THEN + 1):
            equal = equal and row[c] == wanted[c]
        if equal:
            return _i8(row[ADDRESS])
    return _i8(0)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _take(context, own, top, hub, node, loop, origin):  # type: ignore[no-untyped-def]
    """Allows the tokens that stay in a loop, and adds the item of its tails."""
    words, row, tokens, size = words_of(context), loop_row_of(loop), loop_tokens_of(loop), byte_of(loop + _TAILS).size
    for w in range(row.size):
        words[w] |= row[w]
    for k in range(tokens.size):
        words[tokens[k] >> 5] |= np.uint32(1) << np.uint32(tokens[k] & 31)
    report = report_of(context)
    report[WORST] = max(report[WORST], _i8(hubs_of(own)[hub, COST]) + costs_of(context)[node])
    if size > 0:
        top = _push(items_of(own), top, loop + _TAILS, _i8(0), _i8(size), hub, node, _i8(-1), loop, origin)
    return top


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _together(context, own, top, at):  # type: ignore[no-untyped-def]
    """As _each, for a part of the vocabulary's trie: those that lead to one hub as one. WANTS where a loop is not
    there."""
    bundles, classes, hubs, row = bundles_of(own), classes_of(context), hubs_of(own), items_of(own)[at]
    begin, state, node, origin = row[_BEGIN], row[_STATE], row[_NODE], row[_ORIGIN]
    kids, spelt = kids_of(context), spelt_of(context)
    count = _gather(context, own, begin, state)
    if count < 0:
        return _i8(GIVEN_UP)
    for k in range(count):
        bundles[k, _TAKEN] = 0
        if bundles[k, _WEIGHT] >= wanted_of(own)[WORTH]:
            bundles[k, _TAKEN] = _find_loop(own, begin, _i8(k), _i8(hubs[bundles[k, _HUB], SET]))
            if bundles[k, _TAKEN] == 0:
                return _i8(WANTS)
    place, more = trie_nodes_of(context)[begin, PLACE] - 1, True
    while more:
        place += 1
        more = spelt[place] < LAST
        byte, hub = _i8(spelt[place] & (LAST - 1)), _i8(-1)
        to = _i8(go_of(context)[state, classes[byte]])
        if to < 0:
            continue
        for k in range(count):
            if bundles[k, _TAKEN] != 0 and (bundles[k, _BYTES + (byte >> 6)] >> (byte & 63)) & 1 == 1:
                hub = bundles[k, _HUB]
        if to != hub and (hub < 0 or hub_of(context, own, to) == hub):  # else inside a character of the loop
            top = _read(context, own, top, context, _i8(kids[place]), to, node, hub, _i8(0), origin)
    for k in range(count):
        if bundles[k, _TAKEN] != 0:
            top = _take(context, own, top, bundles[k, _HUB], node, bundles[k, _TAKEN], origin)
    return top


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _run(context, own, top):  # type: ignore[no-untyped-def]
    """Reads items[:top] and what they lead to; returns as `spread` does."""
    items, states, visited, least = items_of(own), states_of(context), 0, wanted_of(own)[LARGE]
    while top > 0:
        at, visited = top - 1, visited + 1
        row = items[at]
        if states[row[_STATE], KIND] != PLAIN or visited > _ALLOWED:
            return _i8(GIVEN_UP)
        large = row[_LOOP] == 0 and row[_BESIDE] < 0 and row[_END] - row[_BEGIN] >= least
        top = _follow(context, own, top, at)
        if top >= 0 and large:
            top = _together(context, own, top, at)
        elif top >= 0:
            top = _each(context, own, top, at)
        if top < 0 or top > items.shape[0]:
            return _i8(WANTS if top == WANTS else GIVEN_UP)
        top -= 1
        for c in range(row.size):
            row[c] = items[top, c]
    return _i8(visited)


@shared(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def spread(context, own, count):  # type: ignore[no-untyped-def]
    """The mask of the room's threads[:count] over the whole vocabulary, in the room's words and report. own: the
    context of the hubs of the grammar.

    Returns the nodes visited; GIVEN_UP where that comes to too many, or registers are met; WANTS where the loop in
    `wanted` must be put among `loops` first. The arena is left as it was.
    """
    threads, counts, report, items = threads_of(context), counts_of(context), report_of(context), items_of(own)
    marks, end, found = (counts[NODES], counts[KEYS], counts[SETS]), _i8(byte_of(context).size), _i8(0)
    report[:] = 0
    words_of(context)[:] = 0
    for k in range(count):
        if threads[k, REG] != 0 or count > items.shape[0]:
            return _i8(GIVEN_UP)
        _push(items, _i8(k), context, _i8(0), end, _i8(threads[k, STATE]), _i8(threads[k, NODE]), _i8(-1), _i8(0),
              _i8(threads[k, ORIGIN]))
    found = _run(context, own, count)
    full = counts[FULL] == 1
    undo(context, marks[0], marks[1], marks[2])
    return _i8(GIVEN_UP) if full else found
