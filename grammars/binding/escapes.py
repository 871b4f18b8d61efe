"""Characters of JSON strings (ir.CHARACTER) as escapes: what may stand behind the backslash, written out as bytes.

Every character is up to twelve states there, in which nothing is decided but which character it is.
"""

from __future__ import annotations

from numba import types

from ..ir import CHARACTER
from ..jit import inner, shared
from .context import CONTEXT_TYPE, Part
from .flat import ACTION, BYTE_HIGH, BYTE_LOW, OWNER, SOURCE, TARGET

_BACKSLASH = 0x5C
# The letters of the short escapes, and what they mean.
_LETTERS, _MEANT = tuple(b'"\\/bfnrt'), tuple(b'"\\/\b\f\n\r\t')
_LOW_FIRST, _LOW_LAST, _HIGH_FIRST, _BEYOND = 0xDC00, 0xDFFF, 0xD800, 0xE000  # units of pairs, and the first behind

# A node is what one new state of a rule is known by: 16 numbers; and its slot. A digit's: the target of each of those
# that are hexadecimal, -1 for none. A byte's: -2 - byte, its target. Behind a backslash: _AFTER, the targets of the
# letters, that of the u. Each rule begins without nodes: so they lie in little memory, which stays near.
DIGITS, NODE = 16, 17
_AFTER = -300
# rows of `open`: digits of the unit that is read, from the last to the first; the same of the second unit of a pair
_FIRST_UNIT, _SECOND_UNIT, LEVELS = 0, 4, 4
# `counts`: edges of new states, nodes, and states of this rule, this rule, 1 when there is no more room; of
# characters.py: nodes of this rule, edges written out
MORE, NODES, STATES, RULE, FULL, TAILS, OUT = range(7)

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
ESCAPES = Part()
more_of, nodes_of, slots_of = ESCAPES.array(_i88, TARGET + 2), ESCAPES.array(_i88, NODE), ESCAPES.array(_i8s)
open_of, blocks_of, counts_of = ESCAPES.array(_i88, DIGITS), ESCAPES.array(_i8s), ESCAPES.array(_i8s)
ESCAPES.complete()


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def edge(context, source, low, high, target):  # type: ignore[no-untyped-def]
    """Writes an edge of a new state."""
    more, counts = more_of(context), counts_of(context)
    at = counts[MORE]
    if at >= more.shape[0]:
        counts[FULL] = 1
        return
    more[at, OWNER], more[at, SOURCE], more[at, BYTE_LOW], more[at, BYTE_HIGH] = counts[RULE], source, low, high
    more[at, TARGET], more[at, ACTION] = target, 0
    counts[MORE] = at + 1


@inner(types.void(CONTEXT_TYPE, _i8, _i8s))
def _edges_of(context, state, node):  # type: ignore[no-untyped-def]
    """Writes the edges of a new state."""
    if node[0] == _AFTER:
        for k in range(len(_LETTERS)):
            if node[1 + k] >= 0:
                edge(context, state, _LETTERS[k], _LETTERS[k], node[1 + k])
        if node[9] >= 0:
            edge(context, state, 0x75, 0x75, node[9])
        return
    if node[0] < -1:
        edge(context, state, -2 - node[0], -2 - node[0], node[1])
        return
    for first, last, origin in ((0, 9, 0x30), (10, 15, 0x41 - 10), (10, 15, 0x61 - 10)):
        low = first
        for digit in range(first, last + 1):
            if digit == last or node[digit + 1] != node[digit]:
                if node[digit] >= 0:
                    edge(context, state, origin + low, origin + digit, node[digit])
                low = digit + 1


@inner(_i8(CONTEXT_TYPE, _i8s))
def _state(context, node):  # type: ignore[no-untyped-def]
    """The state of this rule that is known by a node's first 16 numbers, made now if there is none."""
    nodes, slots, counts = nodes_of(context), slots_of(context), counts_of(context)
    mixed = _i8(0)
    for k in range(DIGITS):
        mixed = (mixed ^ node[k]) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
    slot = mixed & (slots.size - 1)
    while slots[slot] >= 0:
        known, same = nodes[slots[slot] >> 32], True
        for k in range(DIGITS):
            same = same and known[k] == node[k]
        if same:
            return slots[slot] & 0xFFFFFFFF
        slot = (slot + 1) & (slots.size - 1)
    if counts[NODES] >= nodes.shape[0] - 1:  # the last is for numbers that are being put together
        counts[FULL] = 1
        return _i8(0)
    number, state = counts[NODES], counts[STATES]
    for k in range(DIGITS):
        nodes[number, k] = node[k]
    nodes[number, DIGITS] = slot
    slots[slot] = number << 32 | state
    counts[NODES], counts[STATES] = number + 1, state + 1
    _edges_of(context, state, nodes[number])
    return _i8(state)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _byte(context, byte, target):  # type: ignore[no-untyped-def]
    """The state from which one byte leads to the target. Uses the row of the second unit's first digit."""
    open = open_of(context)
    row = open[_SECOND_UNIT]
    row[:] = -1
    row[0], row[1] = -2 - byte, target
    return _state(context, row)


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def _close(context, unit, level):  # type: ignore[no-untyped-def]
    """The open digits of a level become a state, which a digit of the next level leads to."""
    open, blocks = open_of(context), blocks_of(context)
    at, block = unit + level, blocks[unit + level]
    state = _state(context, open[at])
    if blocks[at + 1] < 0:
        open[at + 1, :] = -1
    open[at + 1, block & 15], blocks[at + 1], blocks[at] = state, block >> 4, -1


@shared(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _add(context, unit, low, high, target):  # type: ignore[no-untyped-def]
    """Units low to high lead to the target. They are added in ascending order."""
    nodes, open, blocks = nodes_of(context), open_of(context), blocks_of(context)
    while low <= high:
        level = 0
        while level < LEVELS - 1 and low % (16 << 4 * level) == 0 and low + (16 << 4 * level) - 1 <= high:
            level += 1
        for lower in range(LEVELS - 1):
            if blocks[unit + lower] >= 0 and (lower < level or blocks[unit + lower] != low >> 4 * (lower + 1)):
                _close(context, unit, _i8(lower))
        digit = (low >> 4 * level) & 15
        many = min(16 - digit, (high - low + 1) >> 4 * level)
        state = _i8(target)
        for _ in range(level):  # any digits
            nodes[nodes.shape[0] - 1, :] = state
            state = _state(context, nodes[nodes.shape[0] - 1])
        if blocks[unit + level] < 0:
            open[unit + level, :] = -1
        blocks[unit + level] = low >> 4 * (level + 1)
        open[unit + level, digit: digit + many] = state
        low += many << 4 * level


@inner(_i8(CONTEXT_TYPE, _i8))
def _unit(context, unit):  # type: ignore[no-untyped-def]
    """The state before the first digit of what was added; -1 when nothing was."""
    open, blocks = open_of(context), blocks_of(context)
    for level in range(LEVELS - 1):
        if blocks[unit + level] >= 0:
            _close(context, unit, _i8(level))
    last = unit + LEVELS - 1
    if blocks[last] < 0:
        return _i8(-1)
    blocks[last] = -1
    return _state(context, open[last])


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def _end_pair(context, low, high):  # type: ignore[no-untyped-def]
    """First units low to high (their last ten bits) lead to the second unit that was added."""
    second = _unit(context, _i8(_SECOND_UNIT))
    if second >= 0:
        second = _byte(context, _i8(0x75), second)
        second = _byte(context, _i8(_BACKSLASH), second)
        _add(context, _i8(_FIRST_UNIT), _HIGH_FIRST + low, _HIGH_FIRST + high, second)


@inner(types.void(CONTEXT_TYPE, _i88, _i8, _i8))
def _pairs(context, edges, first, last):  # type: ignore[no-untyped-def]
    """Adds the characters of edges [first, last) that are written as pairs."""
    second, pending = _i8(_SECOND_UNIT), _i8(-1)  # the first unit whose second ones are being added
    for e in range(first, last):
        low, high, target = edges[e, BYTE_LOW] - CHARACTER, edges[e, BYTE_HIGH] - CHARACTER, edges[e, TARGET]
        low = max(low, 0x10000) - 0x10000
        high -= 0x10000
        while low <= high:
            unit = low >> 10
            if pending >= 0 and pending != unit:
                _end_pair(context, pending, pending)
                pending = _i8(-1)
            if low & 1023 or low + 1023 > high:
                end = min(high, low | 1023)
                _add(context, second, _LOW_FIRST + (low & 1023), _LOW_FIRST + (end & 1023), target)
                pending, low = unit, end + 1
            else:
                end = ((high + 1) >> 10) - 1
                _add(context, second, _i8(_LOW_FIRST), _i8(_LOW_LAST), target)
                _end_pair(context, unit, end)
                low = (end + 1) << 10
    if pending >= 0:
        _end_pair(context, pending, pending)


@inner(_i8(CONTEXT_TYPE, _i88, _i8, _i8))
def after_backslash(context, edges, first, last):  # type: ignore[no-untyped-def]
    """The state behind the backslash for the characters of edges [first, last)."""
    open = open_of(context)
    unit = _i8(_FIRST_UNIT)
    for e in range(first, last):
        _add(context, unit, edges[e, BYTE_LOW] - CHARACTER, min(edges[e, BYTE_HIGH] - CHARACTER, _HIGH_FIRST - 1),
             edges[e, TARGET])
    _pairs(context, edges, first, last)
    for e in range(first, last):
        _add(context, unit, max(edges[e, BYTE_LOW] - CHARACTER, _BEYOND), min(edges[e, BYTE_HIGH] - CHARACTER, 0xFFFF),
             edges[e, TARGET])
    digits = _unit(context, unit)
    node = open[_FIRST_UNIT]
    node[:] = -1
    node[0], node[9] = _AFTER, digits
    for k in range(len(_MEANT)):
        for e in range(first, last):
            if edges[e, BYTE_LOW] - CHARACTER <= _MEANT[k] <= edges[e, BYTE_HIGH] - CHARACTER:
                node[1 + k] = edges[e, TARGET]
    return _state(context, node)
