"""Hubs: the states that repeat, inside of a name, a number, a string, and those that may do as they do.

A state is its own hub when many bytes lead back to it, and nowhere else (by a call or a return). Another state has a
hub when one of its common bytes leads to one, and it *covers* that: whatever the hub can do it can do too, step by
step. (In `de` of a name that may yet be the word `def` all that a name allows is allowed, and one byte more is told
apart.) Then its tokens are those of the hub, and those found where the two differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    calls_of,
    classes_of,
    couples_of,
    distance_of,
    first_of,
    follow_of,
    go_of,
    hubs_of,
    loop_sets_of,
    states_of,
)
from ..binding.tables import BACK, BASE, CALLED_RULE, CALLEE, CALLS, CALLS_END, FINAL, KIND, ON_RETURN, PLAIN, RULE
from ..jit import inner
from ..stepping.stretches import COMMON

# columns of `hubs`, by state: its hub and 2 (NONE where it has none, 0 where that is not known), whether it is its own
# (1: no, 2: yes, 0: not known), and of such the set of bytes that lead back, and the most that it is to the end from
# there, inside a character too
HUB, OWN, SET, COST = 0, 1, 2, 3
NONE = 1
# columns of `loop_sets`: the set as four words; which characters of several bytes lead back too (0: not all, ALL, LINE:
# all but the two line ends); and the groups (bits) of which nothing can follow but what leads back
WHOLE, DEAD_GROUPS = 4, 5
ALL, LINE = 1, 2
LETTERS, DIGITS, OTHERS = 1, 2, 4  # groups: of ASCII, and what is above it
_BYTES = 8  # that must lead back
DEAD = 255
_STATES = 10


def _utf8(kind: int) -> Any:
    """uint8 [10, 256]: after a byte in state 0 (between characters) or inside one; DEAD where none goes on."""
    table = np.full((_STATES, 256), DEAD, np.uint8)
    table[0, 0xC2: 0xE0], table[0, 0xE0: 0xF0], table[0, 0xF0: 0xF5] = 1, 2, 3
    table[0, [0xE0, 0xED, 0xF0, 0xF4]] = 4, 5, 6, 7
    table[1, 0x80: 0xC0], table[2, 0x80: 0xC0], table[3, 0x80: 0xC0] = 0, 1, 2
    table[4, 0xA0: 0xC0], table[5, 0x80: 0xA0], table[6, 0x90: 0xC0], table[7, 0x80: 0x90] = 1, 1, 2, 2
    if kind == LINE:
        table[0, 0xE2], table[8, 0x81: 0xC0], table[8, 0x80] = 8, 1, 9
        table[9, 0x80: 0xA8], table[9, 0xAA: 0xC0] = 0, 0
    return table


UTF8 = np.stack([_utf8(0), _utf8(ALL), _utf8(LINE)])  # by kind of WHOLE

_i8 = types.int64


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def calls_too(context, state, call):  # type: ignore[no-untyped-def]
    """Whether a state has a call like call number `call`."""
    calls, states = calls_of(context), states_of(context)
    for k in range(states[state, CALLS], states[state, CALLS_END]):
        if calls[k, CALLEE] == calls[call, CALLEE] and calls[k, BACK] == calls[call, BACK] and (
                calls[k, ON_RETURN] == calls[call, ON_RETURN]):
            return True
    return False


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _covers(context, own, state, hub):  # type: ignore[no-untyped-def]
    """Whether a state can do all that another can."""
    go, states, couples = go_of(context), states_of(context), couples_of(own)
    couples[0, 0], couples[0, 1] = state, hub
    at, count = 0, 1
    while at < count:
        x, y = couples[at, 0], couples[at, 1]
        at += 1
        if states[x, KIND] != PLAIN or states[y, KIND] != PLAIN or states[x, RULE] != states[y, RULE] or (
                states[y, FINAL] > states[x, FINAL]):
            return False
        for k in range(states[y, CALLS], states[y, CALLS_END]):
            if not calls_too(context, _i8(x), _i8(k)):
                return False
        for c in range(go.shape[1]):
            to, beside = go[x, c], go[y, c]
            if to == beside or beside == -1:
                continue
            if to < 0 or beside < 0:
                return False
            known = False
            for k in range(count):
                known = known or (couples[k, 0] == to and couples[k, 1] == beside)
            if not known:
                if count >= couples.shape[0]:
                    return False
                couples[count, 0], couples[count, 1] = to, beside
                count += 1
    return True


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _characters(context, own, hub, kind):  # type: ignore[no-untyped-def]
    """The most that it is to the end inside a character, where just the characters of this kind lead from a hub back to
    it; -1 where others do, or not all."""
    go, states, classes, couples = go_of(context), states_of(context), classes_of(context), couples_of(own)
    most = _i8(0)
    for u in range(_STATES):
        couples[u, 0] = -1
    couples[0, 0] = hub
    for u in (0, 3, 6, 7, 2, 4, 5, 8, 9, 1):  # each before those it leads to
        state = couples[u, 0]
        if state < 0:
            continue
        if u > 0:
            most = max(most, _i8(distance_of(context)[states[state, BASE]]))
            if states[state, KIND] != PLAIN or states[state, FINAL] == 1 or (
                    states[state, CALLS] != states[state, CALLS_END]):
                return _i8(-1)
        for byte in range(256):
            to, v = go[state, classes[byte]], UTF8[kind, u, byte]
            if v == DEAD:
                if u > 0 and to != -1:
                    return _i8(-1)
                continue
            if to < 0 or (to == hub) != (v == 0) or (couples[v, 0] >= 0 and couples[v, 0] != to):
                return _i8(-1)
            couples[v, 0] = to
    return most


@inner(_i8(_i8))
def _group(byte):  # type: ignore[no-untyped-def]
    if byte >= 0x80:
        return _i8(OTHERS)
    if 0x30 <= byte <= 0x39:
        return _i8(DIGITS)
    return _i8(LETTERS if 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A else 0)


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _besides(context, own, state, c):  # type: ignore[no-untyped-def]
    """Whether a byte of class c may be read in a rule that a state calls, or where it returns."""
    states, calls = states_of(context), calls_of(context)
    if states[state, FINAL] == 1 and follow_of(own)[states[state, RULE], c] == 1:
        return True
    for k in range(states[state, CALLS], states[state, CALLS_END]):
        if first_of(context)[calls[k, CALLED_RULE], c] == 1:
            return True
    return False


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _learn_hub(context, own, state):  # type: ignore[no-untyped-def]
    """Fills in what is told of a state that many bytes lead back to; False for others, and without room."""
    go, states, classes, hubs = go_of(context), states_of(context), classes_of(context), hubs_of(own)
    sets, count = loop_sets_of(own), 0
    for byte in range(256):
        count += 1 if go[state, classes[byte]] == state else 0
    last = sets.shape[0] - 1
    at = sets[last, 0]  # how many there are
    if count < _BYTES or states[state, KIND] != PLAIN or at >= last:
        return False
    sets[at, :] = 0
    inside, kind = _characters(context, own, state, _i8(ALL)), ALL
    if inside < 0:
        inside, kind = _characters(context, own, state, _i8(LINE)), LINE
    sets[at, WHOLE], sets[at, DEAD_GROUPS] = kind if inside >= 0 else 0, LETTERS | DIGITS | OTHERS
    for byte in range(256):
        c = classes[byte]
        back, other = go[state, c] == state, _besides(context, own, state, _i8(c))
        stays = back or (inside >= 0 and UTF8[kind, 0, byte] != DEAD)
        if stays and other:
            return False  # what stays could also leave here
        if back:
            sets[at, byte >> 6] |= _i8(1) << (byte & 63)
        elif not stays and (other or go[state, c] != -1):
            sets[at, DEAD_GROUPS] &= ~_group(_i8(byte))
    found, equal = -1, False
    while not equal:
        found, equal = found + 1, True
        for c in range(sets.shape[1]):
            equal = equal and sets[found, c] == sets[at, c]
    if found == at:
        sets[last, 0] = at + 1
    hubs[state, SET] = found
    hubs[state, COST] = max(inside, _i8(distance_of(context)[states[state, BASE]]))
    return True


@inner(types.boolean(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _is_hub(context, own, state):  # type: ignore[no-untyped-def]
    hubs = hubs_of(own)
    if hubs[state, OWN] == 0:
        hubs[state, OWN] = 2 if _learn_hub(context, own, state) else 1
    return hubs[state, OWN] == 2


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def hub_of(context, own, state):  # type: ignore[no-untyped-def]
    """The hub of a state, -1 where it has none. own: the context of `hubs` and what belongs to it."""
    go, classes, hubs = go_of(context), classes_of(context), hubs_of(own)
    if hubs[state, HUB] == 0:
        hubs[state, HUB] = state + 2 if _is_hub(context, own, state) else NONE
    else:
        return _i8(hubs[state, HUB] - 2) if hubs[state, HUB] > NONE else _i8(-1)
    if hubs[state, HUB] == NONE:
        tried = _i8(-1)
        for k in range(COMMON.size):
            to = _i8(go[state, classes[COMMON[k]]])
            if to >= 0 and to != tried and to != state and _is_hub(context, own, to):
                tried = to
                if _covers(context, own, state, to):
                    hubs[state, HUB] = to + 2
                    break
    return _i8(hubs[state, HUB] - 2) if hubs[state, HUB] > NONE else _i8(-1)
