"""Which of the tokens that end a key its object has already, told along the key alone, without reading them whole.

Inside the keys of an object in any order (ir.Members) a text has one way. So a token is followed there in its frame,
while the key it spells is looked up among those written; behind the end of the key nothing else of it can depend on
them. What is not so simple is UNSURE, and read exactly (masking.strike).
"""

from __future__ import annotations

from numba import types

from ..binding.arena import STATUS, WITHIN, find_pair
from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    edges_of,
    go_of,
    marks_of,
    nodes_of,
    pair_slots_of,
    pairs_of,
    rules_of,
    starts_of,
    states_of,
    struck_of,
    text_of,
    threads_of,
    unsure_of,
)
from ..binding.member_keys import INSIDE
from ..binding.tables import (
    CALLS,
    CALLS_END,
    DECODED,
    DEMAND,
    FAR,
    FILLER,
    FINAL,
    HAS_FREE,
    KIND,
    LEAST,
    MEMBERS,
    MOST,
    NEEDED,
    PART,
    RULE,
    TIGHT,
)
from ..binding.used_keys import begins_used, is_used
from ..ir import CLOSE_KEY, KEY, NOTHING, OPEN_KEY
from ..jit import inner, shared
from .key_text import PENDING
from .members import LAX, doubtful, within, wrote
from .walk import NODE, OPEN, REG, STATE

DEAD, KEPT, STRUCK, UNSURE = 0, 1, 2, 3
_NEW = -1  # a key that no key written begins with

_i8 = types.int64


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _simple(context, state, key):  # type: ignore[no-untyped-def]
    """Whether any key may be written that is not there, as far as numbers of keys go, and the open one is whole."""
    row = rules_of(context)[states_of(context)[state, RULE]]
    if states_of(context)[state, KIND] != MEMBERS or row[MOST] >= 0 or row[DEMAND] > 0:
        return False
    return (row[LEAST] <= row[NEEDED] or row[FILLER] < FAR) and pairs_of(context)[key, 1] < PENDING


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _longer(context, key, byte):  # type: ignore[no-untyped-def]
    """The key with one more byte, _NEW when there is none such."""
    if key <= 0:
        return key
    found = find_pair(pairs_of(context), pair_slots_of(context), key, byte)
    return found if found > 0 else _i8(_NEW)


@inner(types.boolean(_i8))
def _stored_so(byte):  # type: ignore[no-untyped-def]
    """Whether a backslash and this byte are how a key of the arena spells a character."""
    return byte in (0x22, 0x5C, 0x62, 0x66, 0x6E, 0x72, 0x74)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _stays_in_value(context, low, high):  # type: ignore[no-untyped-def]
    """Whether the bytes text[low:high] behind a key cannot lead past its value."""
    text, stays = text_of(context), True
    for k in range(low, high):
        stays = stays and text[k] not in (0x2C, 0x7D, 0x5D)
    return stays


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _verdict(context, at, token, marks):  # type: ignore[no-untyped-def]
    """What the keys written say to the one token behind threads[at], as far as its frame tells; marks: how many of
    its moves depend on them."""
    states, go, edges, text = states_of(context), go_of(context), edges_of(context), text_of(context)
    state, keys, key = _i8(threads_of(context)[at, STATE]), _i8(threads_of(context)[at, REG]), _i8(
        threads_of(context)[at, OPEN])
    row = rules_of(context)[states[state, RULE]]
    k, end, seen, escaped = starts_of(context)[token], starts_of(context)[token + 1], 0, 0
    while k < end:
        byte, entry = _i8(text[k]), _i8(go[state, classes_of(context)[text[k]]])
        if states[state, FINAL] == 1 or states[state, CALLS] < states[state, CALLS_END]:
            return _i8(UNSURE)
        if entry == -1:
            return _i8(DEAD)
        target, action = entry, _i8(NOTHING)
        if entry <= -2:
            target, action = _i8(edges[-2 - entry, 1]), _i8(edges[-2 - entry, 2])
        if action == CLOSE_KEY or action >= KEY:
            if wrote(context, keys, _i8(action - KEY)) if action >= KEY else (key > 0 and is_used(context, keys, key)):
                return _i8(STRUCK)
            return _i8(KEPT if seen + 1 == marks or _stays_in_value(context, _i8(k + 1), end) else UNSURE)
        if doubtful(context, target, keys, action):
            seen += 1
        if escaped == 1:
            escaped = 0
        elif byte == 0x5C and row[DECODED] == 1 and key > 0:
            if k + 1 < end and _stored_so(_i8(text[k + 1])):
                key, escaped = _longer(context, _longer(context, key, byte), _i8(text[k + 1])), 1
            elif begins_used(context, keys, key):
                return _i8(UNSURE)
            else:
                key = _i8(_NEW)
        else:
            key = _longer(context, key, byte)
        if action == OPEN_KEY and row[HAS_FREE] == 1:
            key = _i8(1)
        state = target
        k += 1
    if row[HAS_FREE] == 1 or states[state, PART] != INSIDE:
        return _i8(UNSURE)
    return _i8(KEPT if within(context, state, keys, _i8(0), _i8(1), _i8(0)) < FAR else STRUCK)


@inner(types.boolean(CONTEXT_TYPE))
def _is_new(context):  # type: ignore[no-untyped-def]
    """Whether the key that threads[0] has open cannot become one that is written, and always some other."""
    state, keys, key = threads_of(context)[0, STATE], threads_of(context)[0, REG], threads_of(context)[0, OPEN]
    return (key > 0 and rules_of(context)[states_of(context)[state, RULE], TIGHT] == 0
            and not begins_used(context, _i8(keys), _i8(key)))


@shared(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def judge(context, finished, count, least, begin, end):  # type: ignore[no-untyped-def]
    """Of the tokens marks[begin:end] of a finished mask, which the room's threads[:count] can read when no key was
    written, those that are struck and those that are unsure: returns how many (the latter from bit 32 on).

    marks[m]: a token, and how many of its moves depend on the keys written; with less than `least` it is kept.
    The room's struck: ids. unsure: of these the same as of marks.
    """
    threads, marks, simple, gone, open_ones = threads_of(context), marks_of(finished), True, 0, 0
    struck, unsure = struck_of(context), unsure_of(context)
    for at in range(count):
        simple = simple and nodes_of(context)[threads[at, NODE], STATUS] & WITHIN == 0
        simple = simple and threads[at, REG] < LAX and _simple(context, _i8(threads[at, STATE]), _i8(threads[at, OPEN]))
    if simple and count == 1 and _is_new(context):
        least = max(least, _i8(2))
    for m in range(begin, end):
        if marks[m, 1] < least:
            continue
        verdict = _i8(DEAD if simple else UNSURE)
        for at in range(count if simple else 0):
            if (at > 0 and threads[at, STATE] == threads[at - 1, STATE] and threads[at, REG] == threads[at - 1, REG]
                    and threads[at, OPEN] == threads[at - 1, OPEN]):
                continue
            found = _verdict(context, _i8(at), _i8(marks[m, 0]), _i8(marks[m, 1] if count == 1 else -1))
            if found != DEAD:
                verdict = found if verdict in (DEAD, found) else _i8(UNSURE)
            if verdict == UNSURE:
                break
        if verdict == STRUCK:
            struck[gone] = marks[m, 0]
            gone += 1
        elif verdict != KEPT:
            unsure[open_ones, 0], unsure[open_ones, 1] = marks[m, 0], marks[m, 1]
            open_ones += 1
    return _i8(gone) | _i8(open_ones) << 32
