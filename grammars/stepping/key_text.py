"""A free key as it is read byte by byte, where every escape of JSON may be written: keys are compared decoded.

A key of the arena is spelled as `json.dumps(ensure_ascii=False)` would. Bytes of an escape that is not complete yet are
kept above 255, and replaced by the character once it is known.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import KEYS, intern_pair
from ..binding.context import CONTEXT_TYPE, pairs_of
from ..jit import inner

PENDING = 256  # added to the bytes of an escape that is not complete

_i8 = types.int64
_SHORT_UNICODE, _UNICODE, _PAIR = 2, 6, 12  # bytes of escapes


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _add(context, key, byte):  # type: ignore[no-untyped-def]
    return intern_pair(context, KEYS, key, byte) if key > 0 else _i8(0)


@inner(_i8(_i8))
def hex_value(byte):  # type: ignore[no-untyped-def]
    return _i8(byte - 0x30 if byte < 0x3A else (byte | 0x20) - 0x57) & 15


@inner(_i8(_i8))
def hex_digit(value):  # type: ignore[no-untyped-def]
    return _i8(0x30 + value if value < 10 else 0x57 + value)


@inner(_i8(_i8))
def short_letter(code):  # type: ignore[no-untyped-def]
    """The letter of the short escape of a character, 0 for none."""
    if code == 0x22 or code == 0x5C:
        return code
    if code == 0x08:
        return _i8(0x62)
    if code == 0x09:
        return _i8(0x74)
    if code == 0x0A:
        return _i8(0x6E)
    if code == 0x0C:
        return _i8(0x66)
    return _i8(0x72 if code == 0x0D else 0)


@inner(_i8(_i8))
def meant(letter):  # type: ignore[no-untyped-def]
    """The character of a short escape."""
    if letter == 0x62:
        return _i8(0x08)
    if letter == 0x74:
        return _i8(0x09)
    if letter == 0x6E:
        return _i8(0x0A)
    if letter == 0x66:
        return _i8(0x0C)
    return _i8(0x0D) if letter == 0x72 else letter


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _character(context, key, code):  # type: ignore[no-untyped-def]
    """The key with one more character, in its one spelling."""
    letter = short_letter(code)
    if letter > 0:
        return _add(context, _add(context, key, _i8(0x5C)), letter)
    if code < 0x20:
        for byte in (0x5C, 0x75, 0x30, 0x30):
            key = _add(context, key, _i8(byte))
        return _add(context, _add(context, key, hex_digit(code >> 4)), hex_digit(code & 15))
    if code < 0x80:
        return _add(context, key, code)
    if code < 0x800:
        return _add(context, _add(context, key, 0xC0 | code >> 6), 0x80 | (code & 63))
    if code < 0x10000:
        key = _add(context, key, 0xE0 | code >> 12)
    else:
        key = _add(context, _add(context, key, 0xF0 | code >> 18), 0x80 | (code >> 12 & 63))
    return _add(context, _add(context, key, 0x80 | (code >> 6 & 63)), 0x80 | (code & 63))


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def read_key(context, key, byte):  # type: ignore[no-untyped-def]
    """The open key after one more byte of its text; 0 when the arena is full."""
    pairs = pairs_of(context)
    if pairs[key, 1] < PENDING:
        return _add(context, key, PENDING + byte if byte == 0x5C else byte)
    # value: the digits that were read, the last of them lowest; base: the key before the escape.
    base, length, value = key, 1, hex_value(byte)
    while pairs[base, 1] >= PENDING:
        digit = pairs[base, 1] - PENDING
        # Places of a pair, from its end: digits of the second unit 0 to 3, u and backslash 4 and 5, the first's 6 to 9.
        if length < 4 or 6 <= length < 10:
            value |= hex_value(_i8(digit)) << (4 * (length if length < 4 else length - 2))
        length += 1
        base = _i8(pairs[base, 0])
    if length == _SHORT_UNICODE and byte != 0x75:
        return _character(context, base, meant(byte))
    if length == _UNICODE and not 0xD800 <= value & 0xFFFF < 0xDC00:
        return _character(context, base, value & 0xFFFF)
    if length == _PAIR:
        return _character(context, base, 0x10000 + ((value >> 16 & 0x3FF) << 10) + (value & 0x3FF))
    return _add(context, key, PENDING + byte)
