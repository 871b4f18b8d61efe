"""Inside an escape of a free key that is compared decoded: what it may still become (new_keys.py asks)."""

from __future__ import annotations

from numba import types

from ..binding.arena import find_pair
from ..binding.context import CONTEXT_TYPE, classes_of, edges_of, go_of, pair_slots_of, pairs_of, single_of
from ..ir import CLOSE_KEY, KEY, NEXT_KEY
from ..jit import inner
from .key_text import PENDING, hex_digit, hex_value, short_letter

BACKSLASH, LETTER_U = 0x5C, 0x75

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def after_byte(context, state, byte):  # type: ignore[no-untyped-def]
    """Where a byte leads inside a key, -1 where it does not or is no token; also from -1."""
    if state < 0 or single_of(context)[byte] == 0:
        return _i8(-1)
    target = go_of(context)[state, classes_of(context)[byte]]
    if target <= -2:
        edge = edges_of(context)[-2 - target]
        return _i8(-1 if edge[2] in (CLOSE_KEY, NEXT_KEY) or edge[2] >= KEY else edge[1])
    return _i8(target)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def after_digits(context, state, value, count):  # type: ignore[no-untyped-def]
    """Where `count` digits lead, of a value; -1 - k where the digit that k others follow leads nowhere."""
    for k in range(count - 1, -1, -1):
        state = after_byte(context, state, hex_digit(value >> 4 * k & 15))
        if state < 0:
            return _i8(-1 - k)
    return state


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _child(context, key, byte):  # type: ignore[no-untyped-def]
    return find_pair(pairs_of(context), pair_slots_of(context), key, byte) if key > 0 else _i8(0)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def with_character(context, key, code):  # type: ignore[no-untyped-def]
    """The key with one more character, in its one spelling; 0 when no such key was met."""
    letter = short_letter(code)
    if letter > 0 or code < 0x20:
        key = _child(context, key, _i8(BACKSLASH))
        if letter > 0:
            return _child(context, key, letter)
        key = _child(context, _child(context, _child(context, key, _i8(LETTER_U)), _i8(0x30)), _i8(0x30))
        return _child(context, _child(context, key, hex_digit(code >> 4)), hex_digit(code & 15))
    if code < 0x80:
        return _child(context, key, code)
    if code < 0x800:
        return _child(context, _child(context, key, 0xC0 | code >> 6), 0x80 | (code & 63))
    if code < 0x10000:
        key = _child(context, key, 0xE0 | code >> 12)
    else:
        key = _child(context, _child(context, key, 0xF0 | code >> 18), 0x80 | (code >> 12 & 63))
    return _child(context, _child(context, key, 0x80 | (code >> 6 & 63)), 0x80 | (code & 63))


@inner(_i8(CONTEXT_TYPE, _i8))
def pending_bytes(context, key):  # type: ignore[no-untyped-def]
    """How many bytes of an escape that is not complete a key ends with."""
    pairs, count = pairs_of(context), 0
    while pairs[key, 1] >= PENDING:
        key = pairs[key, 0]
        count += 1
    return _i8(count)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def pending_value(context, key, skipped, count):  # type: ignore[no-untyped-def]
    """The value of `count` digits before the last `skipped` bytes."""
    pairs, value = pairs_of(context), _i8(0)
    for _ in range(skipped):
        key = pairs[key, 0]
    for k in range(count):
        value |= hex_value(_i8(pairs[key, 1] - PENDING)) << 4 * k
        key = pairs[key, 0]
    return value
