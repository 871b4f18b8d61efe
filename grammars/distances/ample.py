"""From which states more values follow than a list ever holds: there an item that must be unlike others needs no look.

Texts are counted, each state's from those behind it. What may spell one value in several ways counts for nothing:
blanks that may repeat, escapes, points before digits, exponents. Nor do declared keys that could be written already. So
many texts are many values. A state on a cycle has endlessly many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, Context, calls_of, edges_of, go_of, rules_of, states_of
from ..binding.tables import (
    AMPLE,
    BACK,
    CALLEE,
    CALLS,
    CALLS_END,
    COPIED,
    COUNTER,
    DISTINCT,
    FINAL,
    HAS_FREE,
    HIGH,
    KIND,
    MEMBERS,
    MOST,
    NARROW,
    PART,
    RULE,
    TIGHT,
    TWICE,
    UNLIKE,
    Tables,
)
from ..ir import CLOSE_KEY, COUNT, KEY, NEXT_KEY, NOTHING, OPEN_KEY
from ..jit import entry, inner

_MANY = 1 << 24  # more than a list ever holds
_SPARE, _CHARACTERS = 7, 16  # counts left, each of so many characters, that make many texts
_BLANKS, _DIGITS = (0x09, 0x0A, 0x0D, 0x20), range(0x30, 0x3A)
# what is told of a class of bytes: how many are tokens, how many of these blanks; which are digits, a point, an E
_WAYS, _IDLE, _SORT = 0, 1, 2
_OTHER, _DIGIT, _POINT, _POWER = 0, 1, 2, 3

_i8, _i44, _i4, _u1, _i8s = types.int64, types.int32[:, ::1], types.int32[::1], types.uint8[::1], types.int64[::1]


def mark_ample(context: Context, tables: Tables) -> None:
    """Fills the column AMPLE, in place, of finished tables. context: holds them."""
    states = len(tables.states)
    room = states + int((tables.go != -1).sum()) + 2 * len(tables.calls)
    known = np.full(states, -1, np.int64)
    _count_all(context.address, _sorts(tables), _closed(tables), known, np.empty(room + 1, np.int32),
               np.zeros(states, np.uint8))


def _sorts(tables: Tables) -> Any:
    classes, many = tables.classes, tables.go.shape[1]
    found = np.zeros((many, 3), np.int32)
    idle, plain = tables.single.copy(), tables.single.copy()
    plain[[*_BLANKS, 0x5C]] = 0
    idle[[byte for byte in range(256) if byte not in _BLANKS]] = 0
    found[:, _WAYS] = np.bincount(classes, weights=plain, minlength=many)
    found[:, _IDLE] = np.bincount(classes, weights=idle, minlength=many)
    for sort, some in ((_DIGIT, _DIGITS), (_POINT, (0x2E,)), (_POWER, (0x45, 0x65))):
        found[[int(classes[byte]) for byte in some], _SORT] = sort
    return found


def _closed(tables: Tables) -> Any:
    """By rule, 1 where the register allows so many keys only, or some of its keys are few."""
    rules, states = tables.rules, tables.states
    kinds = np.zeros(len(rules), np.int32)
    kinds[states[:, RULE]] = states[:, KIND]
    closed = (rules[:, TIGHT] != 0) | ((kinds == MEMBERS) & ((rules[:, MOST] >= 0) | (rules[:, HAS_FREE] == 0)))
    closed[states[(states[:, PART] == NARROW) & (states[:, KIND] == DISTINCT), RULE]] = True
    return closed.astype(np.uint8)


@inner(types.boolean(CONTEXT_TYPE, _i44, _i8))
def _only_digits(context, sorts, state):  # type: ignore[no-untyped-def]
    go, only = go_of(context), True
    for c in range(go.shape[1]):
        only = only and (go[state, c] == -1 or sorts[c, _SORT] == _DIGIT)
    return only


@inner(_i8(CONTEXT_TYPE, _i44, _u1, _i8, _i8, _i8, _i8))
def _ways(context, sorts, closed, state, c, live, powers):  # type: ignore[no-untyped-def]
    """How many bytes of a class count as ways on from a state; live: the classes that do lead on, powers: those of an
    exponent among them."""
    states, edges, entry = states_of(context), edges_of(context), _i8(go_of(context)[state, c])
    target, action = entry, _i8(NOTHING)
    if entry <= -2:
        target, action = _i8(edges[-2 - entry, 1]), _i8(edges[-2 - entry, 2])
    if powers == 2 and sorts[c, _SORT] == _POWER:
        return _i8(0)
    if action == COUNT and rules_of(context)[states[state, RULE], HIGH] > 0:
        if target == state and sorts[c, _WAYS] > 0:
            states[state, AMPLE] -= sorts[c, _WAYS]  # until all are known
        return _i8(0)
    if (action >= KEY and live > 1) or (
            action in (OPEN_KEY, CLOSE_KEY, NEXT_KEY) and closed[states[state, RULE]] == 1):
        return _i8(0)
    if sorts[c, _SORT] == _POINT and _only_digits(context, sorts, target):
        return _i8(0)
    return _i8(sorts[c, _WAYS] + (sorts[c, _IDLE] if target != state else 0))


@entry(types.void(CONTEXT_TYPE, _i44, _u1, _i8s, _i4, _u1))
def _count_all(context, sorts, closed, known, stack, begun):  # type: ignore[no-untyped-def]
    """known: -1, by state; begun: 0. stack: room for every state, edge and twice every call."""
    go, states, edges, calls = go_of(context), states_of(context), edges_of(context), calls_of(context)
    for root in range(states.shape[0]):
        stack[0], top = root, 0
        while top >= 0:
            state = _i8(stack[top])
            if known[state] >= 0:
                top -= 1
                continue
            fresh, waits, total = begun[state] == 0, False, _i8(states[state, FINAL])
            begun[state], states[state, AMPLE] = 1, 0
            live, powers = _i8(0), _i8(0)
            for c in range(go.shape[1]):
                live += go[state, c] != -1
                powers += go[state, c] != -1 and sorts[c, _SORT] == _POWER
            for c in range(go.shape[1]):
                entry = _i8(go[state, c])
                ways = _ways(context, sorts, closed, state, _i8(c), live, powers) if entry != -1 else _i8(0)
                if ways == 0:
                    continue
                target = entry if entry >= 0 else _i8(edges[-2 - entry, 1])
                if fresh and known[target] < 0 and begun[target] == 0:
                    top, waits = top + 1, True
                    stack[top] = target
                total += ways * (known[target] if known[target] >= 0 else _MANY)
            for k in range(states[state, CALLS], states[state, CALLS_END]):
                product = _i8(1)
                # A list of unlike items goes on without end only where one item may be many, and not one written again.
                first, last = (CALLEE, BACK) if states[state, KIND] != UNLIKE else (CALLEE, CALLEE)
                if states[state, KIND] == UNLIKE and states[calls[k, BACK], PART] in (TWICE, COPIED):
                    first, last = BACK, BACK
                for column in (first, last):
                    follower = calls[k, column]
                    if fresh and known[follower] < 0 and begun[follower] == 0:
                        top, waits = top + 1, True
                        stack[top] = follower
                    if states[state, KIND] == UNLIKE:
                        product = known[follower] if known[follower] >= 0 else _i8(_MANY)
                    else:
                        product = min(_i8(_MANY), product * (known[follower] if known[follower] >= 0 else _i8(_MANY)))
                total += product
            if not waits:
                known[state] = min(total, _i8(_MANY))
                top -= 1
    for state in range(states.shape[0]):
        counted = -states[state, AMPLE]
        states[state, AMPLE] = 0
        if known[state] >= _MANY:
            states[state, AMPLE] = 1
        elif counted >= _CHARACTERS and states[state, KIND] == COUNTER:
            states[state, AMPLE] = 1 + _SPARE
