"""Characters of JSON strings, written out as bytes where a grammar is bound to a vocabulary.

Until then a character in any spelling is an edge on its code, one for a range (ir.CHARACTER). As bytes, a state that
reads strings has an edge for each first byte, and every character is up to three states behind it (UTF-8, RFC 3629) and
twelve behind a backslash (escapes.py), in which nothing is decided but which character it is; so they are made here, by
compiled code, and what compiles, sends and checks a grammar never sees them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..ir import CHARACTER
from ..jit import entry, inner
from .context import CONTEXT_TYPE, Context, Part
from .escapes import (
    DIGITS,
    ESCAPES,
    FULL,
    LEVELS,
    MORE,
    NODE,
    NODES,
    OUT,
    RULE,
    STATES,
    TAILS,
    after_backslash,
    blocks_of,
    counts_of,
    edge,
    more_of,
    nodes_of,
    slots_of,
)
from .flat import ACTION, BYTE_HIGH, BYTE_LOW, OWNER, SOURCE, TARGET, Flat

_BACKSLASH = 0x5C
_PRINTED = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F))  # ASCII that stands for itself
# How many bytes follow a character's first, that byte less its bits of the character, the first and last of these.
_BEHIND = ((1, 0xC0, 0x80, 0x7FF), (2, 0xE0, 0x800, 0xFFFF), (3, 0xF0, 0x10000, 0x10FFFF))
_FIRST_LEAD, _LAST_LEAD = 0xC2, 0xF4
# A node is what a new state of a rule behind a first byte is known by: the target of each of the bytes 0x80 .. 0xBF, -1
# for none; and its slot.
_SIX, _TAIL, _BYTES = 64, 65, 3
_IN_A_RULE = 2_048  # edges on characters of one rule that room is made for at first
_FULL = -1  # there is no more room

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_ROOM = Part(ESCAPES.end)
_out_of, _tails_of, _slots_of = _ROOM.array(_i88, TARGET + 2), _ROOM.array(_i88, _TAIL), _ROOM.array(_i8s)
# by how many bytes follow: targets of the byte that is read, and the bits above it, -1 for none; by first byte: targets
_open_of, _blocks_of, _leads_of = _ROOM.array(_i88, _SIX), _ROOM.array(_i8s), _ROOM.array(_i8s)
_ROOM.complete()


def written_out(flat: Flat) -> Flat:
    """The rules with every character as bytes: more states at the end of each rule, their edges behind its others.

    flat: verified. The edges of each rule are sorted by their source, here as there.
    """
    room, most = flat.characters, min(flat.characters, _IN_A_RULE)
    while room:
        states, context = flat.states.copy(), Context(_ROOM.end)
        out = np.empty((len(flat.edges) + 16 * room + 256, TARGET + 2), np.int64)
        context.put(ESCAPES, (np.empty((8 * most + 256, TARGET + 2), np.int64), *_nodes(6 * most + 64, NODE),
                              np.empty((2 * LEVELS, DIGITS), np.int64), np.empty(2 * LEVELS, np.int64),
                              np.zeros(OUT + 1, np.int64)))
        context.put(_ROOM, (out, *_nodes(most + 32, _TAIL), np.empty((_BYTES, _SIX), np.int64),
                            np.empty(_BYTES, np.int64), np.empty(_LAST_LEAD + 1, np.int64)))
        count = _write_out(context.address, flat.edges, states, most)
        if count >= 0:
            return flat._replace(edges=out[:count], states=states)
        room, most = (4 * room, 4 * most) if count == _FULL else (room, -count)
    return flat


def _nodes(count: int, columns: int) -> tuple[Any, Any]:
    """Room for so many nodes, and a hash table of their numbers."""
    return np.empty((count, columns), np.int64), np.empty(1 << (2 * count - 1).bit_length(), np.int64)


@inner(_i8(CONTEXT_TYPE, _i8s))
def _state(context, node):  # type: ignore[no-untyped-def]
    """The state of this rule that is known by a node's first 64 numbers, made now if there is none."""
    tails, slots, counts = _tails_of(context), _slots_of(context), counts_of(context)
    mixed = _i8(0)
    for k in range(_SIX):
        mixed = (mixed ^ node[k]) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
    slot = mixed & (slots.size - 1)
    while slots[slot] >= 0:
        known, same = tails[slots[slot] >> 32], True
        for k in range(_SIX):
            same = same and known[k] == node[k]
        if same:
            return slots[slot] & 0xFFFFFFFF
        slot = (slot + 1) & (slots.size - 1)
    if counts[TAILS] >= tails.shape[0] - 1:  # the last is for numbers that are being put together
        counts[FULL] = 1
        return _i8(0)
    number, state = counts[TAILS], counts[STATES]
    low = 0
    for k in range(_SIX):
        tails[number, k] = node[k]
        if k == _SIX - 1 or node[k + 1] != node[k]:
            if node[k] >= 0:
                edge(context, state, _i8(0x80 + low), _i8(0x80 + k), node[k])
            low = k + 1
    tails[number, _SIX] = slot
    slots[slot] = number << 32 | state
    counts[TAILS], counts[STATES] = number + 1, state + 1
    return _i8(state)


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _close(context, level, behind, marker):  # type: ignore[no-untyped-def]
    """What is open for the byte before `level` others becomes a state, which the byte before it leads to."""
    open, blocks = _open_of(context), _blocks_of(context)
    state, block = _state(context, open[level]), blocks[level]
    blocks[level] = -1
    if level == behind - 1:
        _leads_of(context)[marker | block] = state
        return
    if blocks[level + 1] < 0:
        open[level + 1, :] = -1
    open[level + 1, block & 63], blocks[level + 1] = state, block >> 6


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _add(context, behind, marker, low, high, target):  # type: ignore[no-untyped-def]
    """Characters low to high, with so many bytes behind the first, lead to the target. Added in ascending order."""
    tails, open, blocks, leads = _tails_of(context), _open_of(context), _blocks_of(context), _leads_of(context)
    while low <= high:
        level = 0
        while level < behind and low % (64 << 6 * level) == 0 and low + (64 << 6 * level) - 1 <= high:
            level += 1
        for lower in range(behind):
            if blocks[lower] >= 0 and (lower < level or blocks[lower] != low >> 6 * (lower + 1)):
                _close(context, _i8(lower), behind, marker)
        state, many = _i8(target), (high - low + 1) >> 6 * level
        for _ in range(level):  # any bytes
            tails[tails.shape[0] - 1, :] = state
            state = _state(context, tails[tails.shape[0] - 1])
        if level == behind:
            first = marker | (low >> 6 * level)
            leads[first: first + many] = state
        else:
            digit = (low >> 6 * level) & 63
            many = min(64 - digit, many)
            if blocks[level] < 0:
                open[level, :] = -1
            blocks[level] = low >> 6 * (level + 1)
            open[level, digit: digit + many] = state
        low += many << 6 * level


@inner(types.void(CONTEXT_TYPE, _i88, _i8, _i8))
def _fill_leads(context, edges, first, last):  # type: ignore[no-untyped-def]
    """Where the first bytes of the characters of edges [first, last) lead that are not ASCII."""
    blocks, leads = _blocks_of(context), _leads_of(context)
    leads[:] = -1
    for behind, marker, begin, end in _BEHIND:
        for e in range(first, last):
            low, high = edges[e, BYTE_LOW] - CHARACTER, edges[e, BYTE_HIGH] - CHARACTER
            _add(context, _i8(behind), _i8(marker), max(low, begin), min(high, end), edges[e, TARGET])
        for level in range(behind):
            if blocks[level] >= 0:
                _close(context, _i8(level), _i8(behind), _i8(marker))


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _put(context, source, low, high, target, action):  # type: ignore[no-untyped-def]
    """Writes an edge of a state that was there."""
    out, counts = _out_of(context), counts_of(context)
    at = counts[OUT]
    if at >= out.shape[0]:
        counts[FULL] = 1
        return
    out[at, OWNER], out[at, SOURCE], out[at, BYTE_LOW], out[at, BYTE_HIGH] = counts[RULE], source, low, high
    out[at, TARGET], out[at, ACTION] = target, action
    counts[OUT] = at + 1


@inner(types.boolean(_i88, _i8, _i8, _i8, _i8))
def _alike(edges, first, last, other, end):  # type: ignore[no-untyped-def]
    """Whether edges [first, last) and [other, end) agree beyond ASCII."""
    while first < last and edges[first, BYTE_HIGH] - CHARACTER <= 0x7F:
        first += 1
    while other < end and edges[other, BYTE_HIGH] - CHARACTER <= 0x7F:
        other += 1
    if last - first != end - other:
        return False
    for k in range(last - first):
        one, two = first + k, other + k
        if edges[one, BYTE_HIGH] != edges[two, BYTE_HIGH] or edges[one, TARGET] != edges[two, TARGET] or max(
                edges[one, BYTE_LOW], CHARACTER + 0x80) != max(edges[two, BYTE_LOW], CHARACTER + 0x80):
            return False
    return True


@inner(types.void(CONTEXT_TYPE, _i88, _i8, _i8))
def _spell(context, edges, first, last):  # type: ignore[no-untyped-def]
    """Writes out the characters of one state, edges [first, last). `leads`: filled."""
    leads, source, action = _leads_of(context), edges[first, SOURCE], edges[first, ACTION]
    for begin, end in _PRINTED:
        for e in range(first, last):
            low, high = max(edges[e, BYTE_LOW] - CHARACTER, begin), min(edges[e, BYTE_HIGH] - CHARACTER, end)
            if low <= high:
                _put(context, source, low, high, edges[e, TARGET], action)
    low = _FIRST_LEAD
    for byte in range(_FIRST_LEAD, _LAST_LEAD + 1):
        if byte == _LAST_LEAD or leads[byte + 1] != leads[byte]:
            if leads[byte] >= 0:
                _put(context, source, _i8(low), _i8(byte), leads[byte], action)
            low = byte + 1
    _put(context, source, _i8(_BACKSLASH), _i8(_BACKSLASH), after_backslash(context, edges, first, last), action)


@inner(_i8(_i88))
def _most(edges):  # type: ignore[no-untyped-def]
    """How many edges on characters a rule has, at most."""
    rule, count, most = _i8(-1), 0, 0
    for e in range(edges.shape[0]):
        if edges[e, OWNER] != rule:
            rule, count = edges[e, OWNER], 0
        count += 1 if edges[e, BYTE_LOW] >= CHARACTER else 0
        most = max(most, count)
    return _i8(most)


@inner(types.void(CONTEXT_TYPE))
def _forget(context):  # type: ignore[no-untyped-def]
    """The nodes of one rule are none of the next."""
    counts = counts_of(context)
    for k in range(counts[NODES]):
        slots_of(context)[nodes_of(context)[k, DIGITS]] = -1
    for k in range(counts[TAILS]):
        _slots_of(context)[_tails_of(context)[k, _SIX]] = -1
    counts[NODES], counts[TAILS] = 0, 0


@entry(_i8(CONTEXT_TYPE, _i88, _i8s, _i8))
def _write_out(context, edges, states, room):  # type: ignore[no-untyped-def]
    """Fills `out` with the edges of all rules, and adds to their states. Returns how many edges; _FULL without room;
    the negative of how many edges on characters a rule has where this is more than `room`."""
    out, more, counts = _out_of(context), more_of(context), counts_of(context)
    most = _most(edges)
    if most > room:
        return -most
    _slots_of(context)[:] = -1
    slots_of(context)[:] = -1
    blocks_of(context)[:] = -1
    _blocks_of(context)[:] = -1
    e, count = 0, edges.shape[0]
    while e < count:
        rule = edges[e, OWNER]
        _forget(context)
        counts[RULE], counts[STATES], counts[MORE] = rule, states[rule], 0
        first, end = _i8(0), _i8(0)  # the characters that `leads` are of
        while e < count and edges[e, OWNER] == rule:
            last = e + 1
            if edges[e, BYTE_LOW] < CHARACTER:
                _put(context, edges[e, SOURCE], edges[e, BYTE_LOW], edges[e, BYTE_HIGH], edges[e, TARGET],
                     edges[e, ACTION])
            else:
                while last < count and edges[last, OWNER] == rule and edges[last, SOURCE] == edges[e, SOURCE]:
                    last += 1
                if first == end or not _alike(edges, _i8(e), _i8(last), first, end):
                    _fill_leads(context, edges, _i8(e), _i8(last))
                first, end = _i8(e), _i8(last)
                _spell(context, edges, first, end)
            e = last
        if counts[FULL] == 1 or counts[OUT] + counts[MORE] > out.shape[0]:
            return _i8(_FULL)
        for k in range(counts[MORE]):
            for column in range(out.shape[1]):
                out[counts[OUT] + k, column] = more[k, column]
        counts[OUT] += counts[MORE]
        states[rule] = counts[STATES]
    return counts[OUT]
