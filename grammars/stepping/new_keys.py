"""The shortest rest of a free key that gives none of the keys written before."""

from __future__ import annotations

from numba import types

from ..binding.arena import find_pair
from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    distance_of,
    dive_of,
    edges_of,
    go_of,
    pair_slots_of,
    pairs_of,
    rules_of,
    single_of,
    states_of,
)
from ..binding.tables import (
    BASE,
    CALLS,
    CALLS_END,
    DECODED,
    FAR,
    FREE,
    HOME,
    KIND,
    MEETS,
    MEMBERS,
    OTHER,
    RULE,
    SURPLUS,
)
from ..binding.used_keys import begins_used, is_spent, is_used, spend, spend_by
from ..ir import CLOSE_KEY, KEY, NEXT_KEY
from ..jit import inner, shared
from .escaped_keys import BACKSLASH, LETTER_U, after_byte, after_digits, pending_bytes, pending_value, with_character
from .key_text import PENDING, meant, short_letter

_i8 = types.int64
_FAR = FAR
_ESCAPED_ONLY = 0x20  # characters below are spelled by escapes only
_UNICODE, _OPENED = 6, 9  # bytes of an escape by its code; of what just began
_TRIES = 64  # characters that an escape may become which are looked at
# columns of `dive`, by depth below the key at hand: the state, the longer key, the next byte to look at, and how much
# of an escape is open
AT, GIVES, NEXT, ESCAPE = 0, 1, 2, 3


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _after_key(context, state, low):  # type: ignore[no-untyped-def]
    """Bytes from the end of a key on, without another free key where that is possible; of `Members`, to the end of the
    value."""
    states, distance = states_of(context), distance_of(context)
    base = states[state, BASE]
    if states[state, KIND] != MEMBERS:
        alone = distance[base + low + 1]
        return _i8(alone if alone < _FAR else distance[base + low])
    if low == FREE or (low == OTHER and distance[base + MEETS] >= _FAR):
        return _i8(distance[base + HOME])
    return _i8(distance[base + MEETS] if low == MEETS else _FAR)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _new_character(context, state, key, code, keys):  # type: ignore[no-untyped-def]
    """Whether a character that leads to `state` (-1: nowhere) makes a key that none of the set begins with."""
    if state < 0:
        return _i8(0)
    child = with_character(context, key, code)
    return _i8(1 if child == 0 or not begins_used(context, keys, child) else 0)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _leave_escaped(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """As _leave, by a character that is spelled by an escape only."""
    states, distance, best = states_of(context), distance_of(context), _i8(_FAR)
    begin = after_byte(context, state, _i8(BACKSLASH))
    if begin < 0:
        return best
    for k in range(_ESCAPED_ONLY + 2):
        code = _i8(k if k < _ESCAPED_ONLY else 0x22 if k == _ESCAPED_ONLY else BACKSLASH)
        length, there = _i8(2), _i8(-1)
        if short_letter(code) > 0:
            there = after_byte(context, begin, short_letter(code))
        if there < 0:
            length, there = _i8(6), after_byte(context, begin, _i8(LETTER_U))
            there = after_digits(context, there, code, _i8(4)) if there >= 0 else there
        if _new_character(context, there, key, code, keys) == 1:
            best = min(best, length + distance[states[there, BASE] + low])
    return best


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _leave(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end when the very next byte leaves the tree of used keys: ends the key, or makes it new."""
    classes, go, states, single = classes_of(context), go_of(context), states_of(context), single_of(context)
    rules, edges, distance = rules_of(context), edges_of(context), distance_of(context)
    pairs, pair_slots = pairs_of(context), pair_slots_of(context)
    best = _i8(_FAR)
    used, decoded = is_used(context, keys, key), rules[states[state, RULE], DECODED] == 1
    if decoded:
        best = _leave_escaped(context, state, key, keys, low)
    for byte in range(256):
        entry = go[state, classes[byte]]
        if entry == -1 or single[byte] == 0 or (decoded and byte == BACKSLASH):
            continue
        target = entry
        if entry <= -2:
            target = edges[-2 - entry, 1]
            action = edges[-2 - entry, 2]
            if action in (CLOSE_KEY, NEXT_KEY) and not used:
                more = rules[states[state, RULE], SURPLUS] if action == NEXT_KEY else 0
                best = min(best, 1 + more + _after_key(context, target, low))
            if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY:
                continue
        cost = 1 + distance[states[target, BASE] + low]
        if cost < best:
            child = find_pair(pairs, pair_slots, key, byte)
            if child == 0 or not begins_used(context, keys, child):
                best = _i8(cost)
    return best


@inner(_i8(_i8, _i8))
def _in_escape(before, byte):  # type: ignore[no-untyped-def]
    """Bytes that an escape of a key's one spelling still has after this one; _OPENED: one or five."""
    if before == _OPENED:
        return _i8(4 if byte == LETTER_U else 0)
    if before > 0:
        return before - 1
    return _i8(_OPENED if byte == BACKSLASH else 0)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _deeper(context, depth, keys):  # type: ignore[no-untyped-def]
    """Puts below dive[depth] the next longer key with which one of the set begins, and returns its depth; one less than
    that of dive[depth] where there is none."""
    dive, pairs, pair_slots = dive_of(context), pairs_of(context), pair_slots_of(context)
    state, key, byte, escape = dive[depth, AT], dive[depth, GIVES], _i8(dive[depth, NEXT]), _i8(dive[depth, ESCAPE])
    while byte < 256:
        there = after_byte(context, _i8(state), byte)
        child = find_pair(pairs, pair_slots, key, byte) if there >= 0 else 0
        if (child > 0 and begins_used(context, keys, _i8(child)) and not is_spent(context, _i8(child), there)
                and depth + 1 < dive.shape[0]):
            if rules_of(context)[states_of(context)[state, RULE], DECODED] == 1:
                escape = _in_escape(escape, byte)
            dive[depth, NEXT] = byte + 1
            row = dive[depth + 1]
            row[AT], row[GIVES], row[NEXT], row[ESCAPE] = there, child, 0, escape
            return depth + 1
        byte += 1
    return depth - 1


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _along_used(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """As new_key, where no escape is open: over the tree of used keys that begin with this one, from the least byte."""
    states, distance, dive = states_of(context), distance_of(context), dive_of(context)
    spend_by(context, low)
    if not begins_used(context, keys, key):
        return _i8(distance[states[state, BASE] + low])
    if is_spent(context, key, state):
        return _i8(_FAR)
    row, best, depth, whole = dive[0], _i8(_FAR), _i8(0), True
    row[AT], row[GIVES], row[NEXT], row[ESCAPE] = state, key, 0, 0
    while depth >= 0:
        here = _i8(dive[depth, AT])
        least = depth + distance[states[here, BASE] + low]
        if dive[depth, NEXT] == 0:
            if states[here, CALLS] < states[here, CALLS_END]:
                best = min(best, _i8(least))  # a called key body: presumed endless
            elif dive[depth, ESCAPE] == 0:
                best = min(best, depth + _leave(context, here, _i8(dive[depth, GIVES]), keys, low))
        # A byte brings the end nearer by one at most, as distances are closed under single bytes: those in bytes by how
        # they are found, those in tokens by shortening._close. So once this way cannot win, no longer one along it can.
        before, depth = depth, depth - 1 if least >= best else _deeper(context, depth, keys)
        whole = whole and before + 1 < dive.shape[0]
        if depth < before and best >= _FAR and whole and dive[before, GIVES] > 1:
            spend(context, _i8(dive[before, GIVES]), here)
    return best


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _digits_left(context, state, key, keys, low, high, value, left):  # type: ignore[no-untyped-def]
    """As new_key, before `left` digits of a second unit (high: the first; value: of the digits read), or of a unit that
    is a character (high: 0)."""
    states, distance, best, tries = states_of(context), distance_of(context), _i8(_FAR), 0
    code = _i8(0)
    while state >= 0 and code < 1 << 4 * left and tries < _TRIES:
        there, unit = after_digits(context, state, code, left), value << 4 * left | code
        code = ((code >> 4 * (-1 - there)) + 1) << 4 * (-1 - there) if there < 0 else code + 1
        half = 0xDC00 <= unit < 0xE000
        if there < 0 or half != (high > 0) or 0xD800 <= unit < 0xDC00:
            continue
        character = unit if high == 0 else 0x10000 + ((high & 0x3FF) << 10) + (unit & 0x3FF)
        tries += 1
        if _new_character(context, there, key, character, keys) == 1:
            return min(best, left + _i8(distance[states[there, BASE] + low]))
        best = min(best, left + _along_used(context, there, with_character(context, key, character), keys, low))
    return best


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8))
def _second_unit(context, state, key, keys, low, high, read):  # type: ignore[no-untyped-def]
    """As new_key, before the second unit of a pair, of which `read` bytes were read, no digit."""
    if read == 0:
        state = after_byte(context, state, _i8(BACKSLASH))
    state = after_byte(context, state, _i8(LETTER_U))
    return 2 - read + _digits_left(context, state, key, keys, low, high, _i8(0), _i8(4))


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8))
def _first_unit(context, state, key, keys, low, value, left):  # type: ignore[no-untyped-def]
    """As new_key, before `left` digits of an escape, which may be the first of a pair."""
    best, tries = _digits_left(context, state, key, keys, low, _i8(0), value, left), 0
    code = _i8(0)
    while state >= 0 and code < 1 << 4 * left and tries < _TRIES and best >= _FAR:
        there, unit = after_digits(context, state, code, left), value << 4 * left | code
        code = ((code >> 4 * (-1 - there)) + 1) << 4 * (-1 - there) if there < 0 else code + 1
        if there >= 0 and 0xD800 <= unit < 0xDC00:
            tries += 1
            best = min(best, left + _second_unit(context, there, key, keys, low, unit, _i8(0)))
    return best


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _escape_left(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """As new_key, inside an escape: by the first character that is new, in the order of their codes."""
    pairs, base, read, best = pairs_of(context), key, pending_bytes(context, key), _i8(_FAR)
    for _ in range(read):
        base = _i8(pairs[base, 0])
    if read >= _UNICODE:
        high = pending_value(context, key, read - _UNICODE, _i8(4))
        if read < _UNICODE + 2:
            return _second_unit(context, state, base, keys, low, high, read - _UNICODE)
        value = pending_value(context, key, _i8(0), read - _UNICODE - 2)
        return _digits_left(context, state, base, keys, low, high, value, 2 * _UNICODE - read)
    if read >= 2:
        value = pending_value(context, key, _i8(0), read - 2)
        return _first_unit(context, state, base, keys, low, value, _UNICODE - read)
    for letter in (0x22, 0x2F, BACKSLASH, 0x62, 0x66, 0x6E, 0x72, 0x74):
        there = after_byte(context, state, _i8(letter))
        if _new_character(context, there, base, meant(_i8(letter)), keys) == 1:
            best = min(best, 1 + _i8(distance_of(context)[states_of(context)[there, BASE] + low]))
        elif there >= 0:
            child = with_character(context, base, meant(_i8(letter)))
            best = min(best, 1 + _along_used(context, there, child, keys, low))
    there = after_byte(context, state, _i8(LETTER_U))
    return min(best, 1 + _first_unit(context, there, base, keys, low, _i8(0), _i8(4)))


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def new_key(context, state, key, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from `state` inside the key `key`, by the shortest way that was found which gives no key
    of the set `keys`. low: the column of the distances that lead there; of `Members` they lead to the end of the value.
    """
    if keys > 0 and pairs_of(context)[key, 1] >= PENDING:
        return min(_i8(_FAR), _escape_left(context, state, key, keys, low))
    return _along_used(context, state, key, keys, low)
