"""Rivals: the items written in a list of unlike ones that the open item may still equal.

An item that has no rival left is as free as if it were the first: its masks need no test, and its end is as near as its
text. What is written of it is spelled as item_text.py spells values, but in pieces, a scalar each with its key; a rival
has all of them. (So has an item whose pieces lie elsewhere: it counts as a rival though it is none.)
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import FEW, NEST, OPENED, PARENT, QUOTED, REGISTER, RETURN, STATUS, TEXT, USED
from ..binding.arena import SPELLED as SAID
from ..binding.context import (
    CONTEXT_TYPE,
    byte_of,
    counts_of,
    item_of,
    nodes_of,
    pairs_of,
    places_of,
    row_of,
    sets_of,
    size_of,
    states_of,
    threads_of,
    token_of,
    twin_of,
)
from ..binding.tables import KIND, UNLIKE
from ..jit import entry, inner, shared
from .alike import among_alike
from .item_text import (
    BACKSLASH,
    COMMA,
    LIST,
    LIST_END,
    OBJECT,
    OBJECT_END,
    QUOTE,
    RAW,
    SORTED,
    VALUE,
    escaped,
    number_end,
    put,
    spell_number,
    spell_string,
)
from .walk import NODE, REG, STATE

# answers of `tell_rivals`: bits
SOME, ANY_TOKEN, NARROW = 1, 2, 4

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8))
def _unwind(context, nest):  # type: ignore[no-untyped-def]
    """Copies the open item of the list whose brackets lie so deep to the end of the raw row; returns where it begins,
    -1 without room."""
    pairs, item = pairs_of(context), item_of(context)
    key, at = counts_of(context)[TEXT], _i8(item.shape[1])
    while key > 1:
        byte = pairs[key, 1] - SAID
        if pairs[key, OPENED] == nest << 2 and byte in (COMMA, LIST):
            return at
        if at == 0:
            return _i8(-1)
        at -= 1
        item[RAW, at] = byte
        key = pairs[key, 0]
    return _i8(-1)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _open_number(context, at, end, to):  # type: ignore[no-untyped-def]
    """Spells what every number has that begins so: its sign and digits, without zeros at either end."""
    raw, digits = item_of(context)[RAW], _i8(0)
    sign = raw[at] == 0x2D
    at += 1 if sign else 0
    while at < end and raw[at] != 0x65 and raw[at] != 0x45:
        if raw[at] != 0x2E and (raw[at] != 0x30 or digits > 0):
            if digits == 0 and sign:
                to = put(context, to, _i8(0x2D))
            to, digits = put(context, to, _i8(raw[at])), digits + 1
        at += 1
    while digits > 0 and item_of(context)[VALUE, to - 1] == 0x30:
        to, digits = to - 1, digits - 1
    return to


@inner(_i8(CONTEXT_TYPE, _i8))
def _pieces(context, at):  # type: ignore[no-untyped-def]
    """Spells raw[at:] in pieces, in the row VALUE: piece k ends at places[k], where the next begins. Returns how many
    there are, -1 without room."""
    item, places = item_of(context), places_of(context)
    raw, end, to, first, count = item[RAW], _i8(item.shape[1]), _i8(0), _i8(0), _i8(0)
    while at < end:
        byte = raw[at]
        if count + 2 > places.size or to + 10 >= at:
            return _i8(-1)
        if byte == QUOTE:
            found = spell_string(context, at, end, to)
            at, to = at + (found >> 32), found & 0xFFFFFFFF
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            stop = number_end(context, at)
            to = spell_number(context, at, stop, to) if stop < end else _open_number(context, at, end, to)
            at = stop
        else:
            ends = byte in (COMMA, LIST, LIST_END, OBJECT, OBJECT_END)
            blank = byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0D
            if not blank and byte not in (COMMA, LIST_END, OBJECT_END):
                to = put(context, to, _i8(byte))
            if ends and to > first:
                places[count], first = to, to
                count += 1
            at += 1
    if to > first:
        places[count] = to
        count += 1
    return count


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _in_escape(context, start):  # type: ignore[no-untyped-def]
    """Whether the string in which raw[start:] ends does so inside an escape, a backslash not the last of it."""
    raw, end = item_of(context)[RAW], _i8(item_of(context).shape[1])
    for at in range(end - 1, max(start, end - 7) - 1, -1):
        if raw[at] == BACKSLASH:
            first = at
            while first > start and raw[first - 1] == BACKSLASH:
                first -= 1
            return (at - first) & 1 == 0 and escaped(context, _i8(at), end) == 0
    return False


@inner(_i8(CONTEXT_TYPE, _i8))
def _unpack(context, value):  # type: ignore[no-untyped-def]
    """Writes a value, a key of the arena, to the row SORTED; returns its length."""
    pairs, item = pairs_of(context), item_of(context)
    length = _i8(pairs[value, 2])
    for k in range(length):
        item[SORTED, length - 1 - k] = pairs[value, 1]
        value = pairs[value, 0]
    return length


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _place(context, low, high, start, length):  # type: ignore[no-untyped-def]
    """Behind the first place of the piece [low, high) in the value that is unpacked, from `start` on; -1 for none."""
    piece, value = item_of(context)[VALUE], item_of(context)[SORTED]
    first = piece[low]
    for at in range(start, length - (high - low) + 1):
        if value[at] == first:
            same = 1
            while low + same < high and value[at + same] == piece[low + same]:
                same += 1
            if low + same == high:
                return at + same
    return _i8(-1)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _rival(context, count, length):  # type: ignore[no-untyped-def]
    """Whether the value that is unpacked has all pieces; the last ones tell most."""
    places = places_of(context)
    for k in range(count - 1, -1, -1):
        if _place(context, _i8(places[k - 1] if k > 0 else 0), _i8(places[k]), _i8(0), length) < 0:
            return False
    return True


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _must_differ(context, node):  # type: ignore[no-untyped-def]
    """Whether the frame below a node is a list of unlike items that has some."""
    nodes = nodes_of(context)
    back = _i8(nodes[node, RETURN])
    return states_of(context)[back, KIND] == UNLIKE and nodes[node, REGISTER] > 0 and not among_alike(context, back)


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _is_next(context, at):  # type: ignore[no-untyped-def]
    """Whether threads[at] is in a list of unlike items that has some, between them."""
    thread = threads_of(context)[at]
    state = _i8(thread[STATE])
    return states_of(context)[state, KIND] == UNLIKE and thread[REG] > 0 and not among_alike(context, state)


@shared(_i8(CONTEXT_TYPE, _i8))
def has_rivals(context, at):  # type: ignore[no-untyped-def]
    """Whether an item in which threads[at] is may still equal one that was written, or must, or the next one of its
    list may (1), or not (0)."""
    nodes, sets = nodes_of(context), sets_of(context)
    if _is_next(context, at):
        return _i8(1)
    node = _i8(threads_of(context)[at, NODE])
    while node > 0 and nodes[node, USED] & 2:
        if _must_differ(context, node):
            start = _unwind(context, _i8(nodes[node, NEST]))
            count = _pieces(context, start) if start >= 0 else _i8(-1)
            if count < 0:
                return _i8(1)
            written = _i8(nodes[node, REGISTER])
            while written > 0:
                if _rival(context, count, _unpack(context, _i8(sets[written, 1]))):
                    return _i8(1)
                written = _i8(sets[written, 0])
        node = _i8(nodes[node, PARENT])
    return _i8(0)


@inner(types.void(CONTEXT_TYPE, _i8))
def _tell_token(context, node):  # type: ignore[no-untyped-def]
    row, twin, token = row_of(context), twin_of(context), token_of(context)[node]
    while token >= 0:
        row[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        token = twin[token]


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def _tell_along(context, at, length):  # type: ignore[no-untyped-def]
    """Tells the tokens that go on in an open string as the value does that is unpacked, from its place `at` on, as far
    as the string goes; and all those that have an escape there."""
    byte, size, value = byte_of(context), size_of(context), item_of(context)[SORTED]
    node, end, found = _i8(0), _i8(byte.size), _i8(1)
    while found > 0:
        found, whole = _i8(0), at >= length or value[at] == BACKSLASH
        while node < end:
            if byte[node] == BACKSLASH or (not whole and byte[node] == value[at] and value[at] == QUOTE):
                for k in range(node, node + size[node]):
                    _tell_token(context, _i8(k))
            elif not whole and byte[node] == value[at]:
                _tell_token(context, node)
                found = node + 1
            node += size[node]
        if found > 0:
            node, end, at = found, found - 1 + size[found - 1], at + 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, types.boolean))
def _tell_rivals(context, count, written, along):  # type: ignore[no-untyped-def]
    """Whether a set has rivals. along: tells the tokens that go on as one of them does; there are `count` pieces, of
    which the last is open."""
    places, sets, found = places_of(context), sets_of(context), False
    low = _i8(places[count - 2] if count > 1 else 0)
    high = _i8(places[count - 1])
    while written > 0:
        length = _unpack(context, _i8(sets[written, 1]))
        if _rival(context, count, length):
            found = True
            at = _place(context, low, high, _i8(0), length) if along else _i8(-1)
            while at >= 0:
                _tell_along(context, at, length)
                at = _place(context, low, high, at - (high - low) + 1, length)
        written = _i8(sets[written, 0])
    return found


@inner(_i8(CONTEXT_TYPE, _i8))
def _tell_string(context, at):  # type: ignore[no-untyped-def]
    """What tell_rivals does for threads[at], inside a string: 0 without rivals, SOME, or SOME | ANY_TOKEN."""
    nodes, node, told = nodes_of(context), _i8(threads_of(context)[at, NODE]), _i8(0)
    found = _is_next(context, at)
    while node > 0 and nodes[node, USED] & 2:
        if _must_differ(context, node):
            start = _unwind(context, _i8(nodes[node, NEST]))
            pieces = _pieces(context, start) if start >= 0 else _i8(-1)
            if pieces < 1:
                return _i8(SOME | ANY_TOKEN)
            if _in_escape(context, start):
                told = _i8(ANY_TOKEN)
            found = _tell_rivals(context, pieces, _i8(nodes[node, REGISTER]), told == 0) or found
        node = _i8(nodes[node, PARENT])
    return told | SOME if found else _i8(0)


@entry(_i8(CONTEXT_TYPE, _i8))
def tell_rivals(context, count):  # type: ignore[no-untyped-def]
    """What items written say to the tokens behind the room's threads[:count]; arena.TEXT must be told. 0: nothing.

    SOME: the bits of the room's row are those after which there may be rivals still, in the item or one inside it;
    ANY_TOKEN: after any token there may be. NARROW, with them: behind the frame of a thread few values may be left.
    """
    nodes, threads, row, told = nodes_of(context), threads_of(context), row_of(context), _i8(0)
    quoted = pairs_of(context)[counts_of(context)[TEXT], OPENED] & 3 == QUOTED
    row[:] = 0
    for k in range(count):
        more = _tell_string(context, _i8(k)) if quoted else ANY_TOKEN * has_rivals(context, _i8(k))
        if more == 0:
            continue
        told |= more
        if nodes[threads[k, NODE], STATUS] & FEW != 0:
            told |= NARROW
        if quoted and more & ANY_TOKEN:
            return told
    return told
