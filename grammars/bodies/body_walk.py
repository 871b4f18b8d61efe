"""Most of the vocabulary at once: the tokens that a state reads without leaving its frame, ready as rows.

A *body* is the part of a rule's automaton that is reached from a state over plain edges and counts, without a call, a
return, or another action: the inside of a string, a key, a class that repeats. (Where a frame may return anywhere, as
in a string with a least length, the bytes that can follow are part of the body.) What the tokens do inside it depends
neither on the stack nor on the grammar around. So it is found once for all grammars of a vocabulary, by the spelling
of the body (`spell`), and kept as groups of tokens by (state in which they end, counts on the way). Tokens that leave
the body, as those with a closing quote in a string, are left to the walk, from the node of the trie where they leave.

A state near a body that repeats (a key that may yet be a declared one) is told by its difference from that body
(body_beside.py).
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    byte_of,
    calls_of,
    classes_of,
    depth_of,
    edges_of,
    first_of,
    go_of,
    rules_of,
    size_of,
    states_of,
    votes_of,
)
from ..binding.tables import CALLED_RULE, CALLS, CALLS_END, COUNTER, DISTINCT, FINAL, KIND, LOOSE, RULE, TIGHT
from ..ir import COUNT
from ..jit import entry, inner

# what a byte does inside a body, where it is not a state
DEAD, LEAVES = -1, -2
# columns of found tokens; of exits: the node, where there, the state, counts before
TOKEN, END, COUNTS = 0, 1, 2
AT, WITH, FROM, TAKEN = 0, 1, 2, 3
# values of WITH: the walk goes on after the node's byte, before it, or before it and in the frame below
AFTER, BEFORE, RETURNED = 0, 1, 2
# columns of groups
BIG, BEGIN, FINISH = 2, 3, 4

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1 = types.int64[::1], types.uint8[::1]
LIGHT, RETURNING, ALONE = -1, -2, -3  # answers of `scout`
_CHAIN = 8  # steps from a state to the body that repeats


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def inside(context, state, byte):  # type: ignore[no-untyped-def]
    """2 * target + counts of a byte inside a body; DEAD; LEAVES when only a step of the walk can tell."""
    states, edges = states_of(context), edges_of(context)
    target, counts = go_of(context)[state, classes_of(context)[byte]], 0
    if target == -1:
        return _i8(DEAD)
    if target <= -2:
        edge = -2 - target
        if states[state, KIND] != COUNTER or edges[edge, 2] != COUNT:
            return _i8(LEAVES)
        target, counts = edges[edge, 1], 1
    loose = states[target, LOOSE] > 0 or states[target, KIND] == COUNTER  # its cost is looked at for each count
    return _i8(2 * target + counts) if loose else _i8(LEAVES)


@entry(types.boolean(CONTEXT_TYPE, _i8, _i8))
def borders(context, state, returning):  # type: ignore[no-untyped-def]
    """Whether a frame in this state may call, or heeds the keys written, or (unless `returning`) may return: the end of
    a body."""
    states = states_of(context)
    if (states[state, FINAL] == 1 and returning == 0) or states[state, CALLS] < states[state, CALLS_END]:
        return True
    return (states[state, KIND] >= DISTINCT and rules_of(context)[states[state, RULE], TIGHT] == 1
            and states[state, LOOSE] == 0)


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i4, _i4, _i4))
def spell(context, start, returning, local, order, code):  # type: ignore[no-untyped-def]
    """Writes the body of `start` to `code`, the same for equal bodies; returns its length, -1 when it has no room.

    order: its states by local number; local[state]: that number plus 1 (0 before, and to be put back by the caller for
    the states of `order`, of which order[-1] holds how many).
    """
    states, classes, go = states_of(context), classes_of(context), go_of(context)
    last, begins = order.size - 1, code.size
    for byte in range(255, -1, -1):  # where a class begins; laid behind what is written
        if byte == 0 or classes[byte] != classes[byte - 1]:
            begins -= 1
            code[begins] = byte
    order[0], order[last] = start, 1
    local[start] = 1
    at, length = 0, 0
    while at < order[last]:
        state = order[at]
        at += 1
        if length + 257 * 2 > begins:
            return _i8(-1)
        border = borders(context, _i8(state), returning)
        code[length] = -7 if border else -8 - states[state, FINAL]
        length += 1
        if border:
            continue
        before, reads = _i8(-10), _i8(0)
        for k in range(begins, code.size):
            byte = code[k]
            entry = _i8(go[state, classes[byte]])
            if byte > 0 and entry == reads:
                continue
            reads, to = entry, inside(context, _i8(state), _i8(byte))
            if to >= 0:
                target = to >> 1
                if local[target] == 0:
                    if order[last] >= last:
                        return _i8(-1)
                    order[order[last]] = target
                    order[last] += 1
                    local[target] = order[last]
                to = 2 * local[target] + (to & 1)
            if to != before:
                code[length], code[length + 1] = byte, to
                length += 2
                before = to
    return _i8(length)


@inner(types.boolean(_i44, _i8s, _i8, _i8, _i8, _i8))
def add_exit(exits, sizes, at, way, state, counts):  # type: ignore[no-untyped-def]
    """Adds an exit; False without room."""
    if sizes[2] >= exits.shape[0]:
        return False
    row = exits[sizes[2]]
    row[AT], row[WITH], row[FROM], row[TAKEN] = at, way, state, counts
    sizes[2] += 1
    return True


@inner(_i8(CONTEXT_TYPE, _i8, _u1, _i44))
def hub_of(context, state, likely, votes):  # type: ignore[no-untyped-def]
    """The state to which most of the bytes `likely` lead again and again; -1 when there is none. votes: room."""
    for _ in range(_CHAIN):
        count, most = 0, 0
        for k in range(likely.size):
            to = inside(context, state, _i8(likely[k])) >> 1
            at = 0
            while at < count and votes[at, 0] != to:
                at += 1
            if at == count:
                votes[at, 0], votes[at, 1] = to, 0
                count += 1
            votes[at, 1] += 1
            if votes[at, 1] > votes[most, 1]:
                most = at
        target = _i8(votes[most, 0])
        if target < 0 or borders(context, target, _i8(0)):
            return _i8(-1)
        if target == state:
            return target
        state = target
    return _i8(-1)


@entry(_i8(CONTEXT_TYPE, _i8s, _i8, _i8))
def looping(context, nodes, state, returning):  # type: ignore[no-untyped-def]
    """Nodes of the vocabulary below the first bytes on which a state loops; nodes: by byte class. -1 where a body ends,
    or where a byte may come that begins no character: what is known of a token by its characters holds between two."""
    total, go, classes = _i8(0), go_of(context), classes_of(context)
    if borders(context, state, returning):
        return _i8(-1)
    for byte in range(0x80, 0xC0):
        if go[state, classes[byte]] != -1:
            return _i8(-1)
    for c in range(nodes.size):
        if go[state, c] == state:
            total += nodes[c]
    return total


@entry(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, _i44))
def broad(context, start, returning, least, stack):  # type: ignore[no-untyped-def]
    """Whether the tokens that a body reads pass through `least` nodes at least. stack: as for explore."""
    byte, depth, size = byte_of(context), depth_of(context), size_of(context)
    i, visited = 0, 0
    stack[0, 0] = start
    while i < byte.size and visited < least:
        visited += 1
        to = inside(context, _i8(stack[depth[i] - 1, 0]), _i8(byte[i]))
        if to < 0 or borders(context, to >> 1, returning):
            i += size[i]
        else:
            stack[depth[i], 0] = to >> 1
            i += 1
    return visited >= least


@entry(types.void(_u1, _i8s, _i8s))
def nodes_by_class(classes, first, nodes):  # type: ignore[no-untyped-def]
    """Fills nodes, by class: how many nodes of a vocabulary begin with one of its bytes. first: by byte."""
    nodes[:] = 0
    for byte in range(first.size):
        nodes[classes[byte]] += first[byte]


@entry(_i8(CONTEXT_TYPE, _i8s, _i8))
def weigh(context, nodes, state):  # type: ignore[no-untyped-def]
    """Nodes of the vocabulary below the first bytes that a state reads, itself or by a call. nodes: by byte class."""
    total, states, calls = 0, states_of(context), calls_of(context)
    go, first = go_of(context), first_of(context)
    for c in range(nodes.size):
        readable = go[state, c] != -1
        for call in range(states[state, CALLS], states[state, CALLS_END]):
            readable = readable or first[calls[call, CALLED_RULE], c] == 1
        if readable:
            total += nodes[c]
    return _i8(total)


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8s, _i8, _u1, _i8))
def scout(context, search, nodes, worth, likely, state):  # type: ignore[no-untyped-def]
    """Where to look for the body of a state: LIGHT, nowhere, since a walk comes to less than `worth` nodes or there is
    none; RETURNING, it depends on the frame below; else the state that most of the bytes `likely` lead to, or ALONE."""
    if weigh(context, nodes, state) < worth:
        return _i8(LIGHT)
    if states_of(context)[state, FINAL] == 1:
        return _i8(RETURNING)
    if borders(context, state, _i8(0)):
        return _i8(LIGHT)
    hub = hub_of(context, state, likely, votes_of(search))
    return hub if hub >= 0 else _i8(ALONE)


@inner(types.void(_u4, _i4, _i8))
def set_bits(words, twin, token):  # type: ignore[no-untyped-def]
    while token >= 0:
        words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        token = _i8(twin[token])


@inner(types.void(_u4, _i4, _i8))
def clear_bits(words, twin, token):  # type: ignore[no-untyped-def]
    while token >= 0:
        words[token >> 5] &= ~(np.uint32(1) << np.uint32(token & 31))
        token = _i8(twin[token])
