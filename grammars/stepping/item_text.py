"""The value of a text: items of a list that must be unlike are compared by it (ir.Unlike).

One spelling of each value, as a key of the arena: no blanks, the characters of strings as
`json.dumps(ensure_ascii=False)` spells them, numbers as their digits and a power of ten, the members of objects sorted
by their keys.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import FULL, KEYS, SPELLED, TEXT, intern_pair
from ..binding.context import CONTEXT_TYPE, counts_of, item_of, pairs_of, places_of
from ..jit import inner, shared

RAW, VALUE, SORTED = 0, 1, 2  # rows of `item`: the text as it was written, its one spelling, room to sort

_i8 = types.int64
QUOTE, BACKSLASH, COMMA, COLON = 0x22, 0x5C, 0x2C, 0x3A
LIST, LIST_END, OBJECT, OBJECT_END = 0x5B, 0x5D, 0x7B, 0x7D


@inner(_i8(CONTEXT_TYPE))
def _unwind(context):  # type: ignore[no-untyped-def]
    """Copies the item that the answer ends with to the end of the raw row; returns where it begins, -1 without room."""
    pairs, item = pairs_of(context), item_of(context)
    key, at, depth, quoted = counts_of(context)[TEXT], _i8(item.shape[1]), 0, False
    while key > 1:
        byte, before = pairs[key, 1] - SPELLED, pairs[key, 0]
        if byte == QUOTE:
            behind, odd = before, False
            while behind > 1 and pairs[behind, 1] - SPELLED == BACKSLASH:
                behind, odd = pairs[behind, 0], not odd
            if not (quoted and odd):
                quoted = not quoted
        elif not quoted:
            if depth == 0 and byte in (COMMA, LIST):
                return at
            if byte in (LIST_END, OBJECT_END):
                depth += 1
            elif byte in (LIST, OBJECT):
                depth -= 1
        if at == 0:
            return _i8(-1)
        at -= 1
        item[RAW, at] = byte
        key = before
    return at


@inner(_i8(_i8))
def _hex(byte):  # type: ignore[no-untyped-def]
    return _i8(byte - 0x30 if byte < 0x3A else (byte | 0x20) - 0x57)


@inner(_i8(CONTEXT_TYPE, _i8))
def _unit(context, at):  # type: ignore[no-untyped-def]
    """The four digits of an escape."""
    raw, value = item_of(context)[RAW], _i8(0)
    for k in range(4):
        value = value << 4 | _hex(_i8(raw[at + k]))
    return value


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def put(context, to, byte):  # type: ignore[no-untyped-def]
    item_of(context)[VALUE, to] = byte
    return to + 1


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _character(context, to, code):  # type: ignore[no-untyped-def]
    """Spells one character of a string. Never longer than an escape of it."""
    letter = _i8(0)
    if code in (QUOTE, BACKSLASH):
        letter = code
    elif 8 <= code <= 13 and code != 11:
        letter = _i8(0x62 if code == 8 else 0x74 if code == 9 else 0x6E if code == 10 else 0x66 if code == 12 else 0x72)
    if letter > 0:
        return put(context, put(context, to, _i8(BACKSLASH)), letter)
    if code < 0x20:
        for byte in (BACKSLASH, 0x75, 0x30, 0x30):
            to = put(context, to, _i8(byte))
        low = code & 15
        return put(context, put(context, to, 0x30 + (code >> 4)), _i8(0x30 + low if low < 10 else 0x57 + low))
    if code < 0x80:
        return put(context, to, code)
    if code < 0x800:
        to = put(context, to, 0xC0 | code >> 6)
    else:
        if code < 0x10000:
            to = put(context, to, 0xE0 | code >> 12)
        else:
            to = put(context, put(context, to, 0xF0 | code >> 18), 0x80 | (code >> 12 & 63))
        to = put(context, to, 0x80 | (code >> 6 & 63))
    return put(context, to, 0x80 | (code & 63))


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def escaped(context, at, end):  # type: ignore[no-untyped-def]
    """The character that is escaped at `at` << 4 | the bytes of that; 0 where it is not whole before `end`."""
    raw = item_of(context)[RAW]
    if at + 1 >= end:
        return _i8(0)
    letter = raw[at + 1]
    if letter == 0x75:
        if at + 6 > end:
            return _i8(0)
        code = _unit(context, at + 2)
        if not 0xD800 <= code < 0xDC00:
            return code << 4 | 6
        if at + 12 > end:
            return _i8(0)
        return (0x10000 + ((code & 0x3FF) << 10) + (_unit(context, at + 8) & 0x3FF)) << 4 | 12
    code = _i8(letter)
    if letter == 0x62:
        code = _i8(8)
    elif letter == 0x66:
        code = _i8(12)
    elif letter == 0x6E:
        code = _i8(10)
    elif letter == 0x72:
        code = _i8(13)
    elif letter == 0x74:
        code = _i8(9)
    return code << 4 | 2


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def spell_string(context, at, end, to):  # type: ignore[no-untyped-def]
    """Spells the string whose quote is at `at`; its length as written << 32 | where its spelling ends. One that goes on
    behind `end` is spelled without its last quote, up to its last whole character."""
    raw, start = item_of(context)[RAW], at
    to, at = put(context, to, _i8(QUOTE)), at + 1
    while at < end and raw[at] != QUOTE:
        if raw[at] != BACKSLASH:
            to, at = put(context, to, _i8(raw[at])), at + 1
            continue
        found = escaped(context, at, end)
        if found == 0:
            at = end
            break
        to, at = _character(context, to, found >> 4), at + (found & 15)
    if at < end:
        to, at = put(context, to, _i8(QUOTE)), at + 1
    return (at - start) << 32 | to


@inner(_i8(CONTEXT_TYPE, _i8))
def number_end(context, at):  # type: ignore[no-untyped-def]
    """Where the number ends that begins at `at`."""
    raw, end, stop = item_of(context)[RAW], item_of(context).shape[1], at + 1
    while stop < end and (0x30 <= raw[stop] <= 0x39 or raw[stop] in (0x2E, 0x65, 0x45, 0x2B, 0x2D)):
        stop += 1
    return _i8(stop)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def spell_number(context, at, end, to):  # type: ignore[no-untyped-def]
    """Spells the number raw[at:end]: sign, digits without zeros at either end, E and the power of ten; 0 as itself."""
    raw, power, first = item_of(context)[RAW], _i8(0), to
    if raw[at] == 0x2D:
        to, at = put(context, to, _i8(0x2D)), at + 1
    digits, fraction = to, False
    while at < end and raw[at] != 0x65 and raw[at] != 0x45:
        if raw[at] == 0x2E:
            fraction = True
        else:
            power -= 1 if fraction else 0
            if raw[at] != 0x30 or to > digits:
                to = put(context, to, _i8(raw[at]))
        at += 1
    if at < end:
        at, sign, exponent = at + 1, 1, 0
        if raw[at] == 0x2D or raw[at] == 0x2B:
            sign, at = (-1 if raw[at] == 0x2D else 1), at + 1
        while at < end:
            exponent, at = min(exponent * 10 + raw[at] - 0x30, 1 << 20), at + 1
        power += sign * exponent
    while to > digits and item_of(context)[VALUE, to - 1] == 0x30:
        to, power = to - 1, power + 1
    if to == digits:
        return put(context, first, _i8(0x30))
    to = put(context, to, _i8(0x45))
    if power < 0:
        to, power = put(context, to, _i8(0x2D)), -power
    for unit in (1000000, 100000, 10000, 1000, 100, 10, 1):
        if power >= unit or unit == 1:
            to = put(context, to, _i8(0x30 + power // unit % 10))
    return to


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _before(context, one, other):  # type: ignore[no-untyped-def]
    """Whether the member spelled from `one` on comes before that from `other` on: no key begins another, quotes and
    all."""
    value = item_of(context)[VALUE]
    while value[one] == value[other]:
        one, other = one + 1, other + 1
    return value[one] < value[other]


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _sort(context, first, last, to):  # type: ignore[no-untyped-def]
    """Sorts the members of an object, places[first:last] by where they begin, each but the last before a comma; they
    end at `to`."""
    places, item = places_of(context), item_of(context)
    start, end = places[first], _i8(0)
    for k in range(first, last):  # how long each is, behind all places
        end = places[k + 1] - 1 if k + 1 < last else to
        places[places.size // 2 + k] = end - places[k]
    for k in range(first + 1, last):
        at = k
        while at > first and _before(context, _i8(places[at]), _i8(places[at - 1])):
            for row in (0, places.size // 2):
                places[at + row], places[at - 1 + row] = places[at - 1 + row], places[at + row]
            at -= 1
    end = start
    for k in range(first, last):
        if k > first:
            item[SORTED, end] = COMMA
            end += 1
        for b in range(places[places.size // 2 + k]):
            item[SORTED, end] = item[VALUE, places[k] + b]
            end += 1
    for b in range(start, end):
        item[VALUE, b] = item[SORTED, b]


@inner(_i8(CONTEXT_TYPE, _i8))
def _spell(context, at):  # type: ignore[no-untyped-def]
    """Spells raw[at:] in the row VALUE; returns its length, -1 without room. places: of each open object, where its
    members begin, behind minus the number of places that the containers around it have; of a list that alone."""
    item, places = item_of(context), places_of(context)
    raw, end, to, top, room = item[RAW], _i8(item.shape[1]), _i8(0), _i8(0), _i8(places.size // 2 - 2)
    opened = _i8(-1)  # the place of the innermost container
    while at < end:
        byte = raw[at]
        if top >= room or to + 10 >= at:
            return _i8(-1)
        if byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0D:
            at += 1
        elif byte == QUOTE:
            found = spell_string(context, at, end, to)
            at, to = at + (found >> 32), found & 0xFFFFFFFF
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            stop = number_end(context, at)
            at, to = stop, spell_number(context, at, stop, to)
        else:
            if byte == OBJECT_END and top - opened - 1 > 1:
                _sort(context, opened + 1, top, to)
            to, at = put(context, to, _i8(byte)), at + 1
            if byte in (LIST, OBJECT):
                places[top] = -2 - opened if byte == OBJECT else -(1 << 30) - opened
                opened, top = top, top + 1
                if byte == OBJECT:
                    places[top] = to
                    top += 1
            elif byte in (LIST_END, OBJECT_END):
                top = opened
                opened = _i8(-2 - places[top] if places[top] > -(1 << 29) else -(1 << 30) - places[top])
            elif byte == COMMA and opened >= 0 and places[opened] > -(1 << 29):
                places[top] = to
                top += 1
    return to


@shared(_i8(CONTEXT_TYPE))
def value_of(context):  # type: ignore[no-untyped-def]
    """The key of the arena that is the value of the item with which the answer so far ends; 0 when there is no room."""
    start = _unwind(context)
    length = _spell(context, start) if start >= 0 else _i8(-1)
    if length < 0:
        counts_of(context)[FULL] = 1
        return _i8(0)
    item, key = item_of(context), _i8(1)
    for k in range(length):
        key = intern_pair(context, KEYS, key, _i8(item[VALUE, k]))
        if key == 0:
            return _i8(0)
    return key
