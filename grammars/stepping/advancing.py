"""A text read by threads, exactly: what accepting a token and testing one by itself are made of."""

from __future__ import annotations

from numba import types

from ..binding.arena import KEYS, TEXT, intern_pair
from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    costs_of,
    counts_of,
    distance_of,
    edges_of,
    go_of,
    rules_of,
    states_of,
    threads_of,
)
from ..binding.tables import (
    BASE,
    CALLS,
    CALLS_END,
    COUNTER,
    DECODED,
    FAR,
    FINAL,
    HIGH,
    KIND,
    LOOSE,
    LOW,
    MEMBERS,
    PLATEAU,
    RULE,
    UNLIKE,
)
from ..ir import COUNT
from ..jit import entry, inner
from .another import ANY, closest
from .closing import remaining
from .key_text import read_key
from .nearest import nearest
from .walk import NODE, OPEN, REG, STATE, heed, keep, step

_i8, _u1 = types.int64, types.uint8[::1]
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8))
def _slip(context, byte):  # type: ignore[no-untyped-def]
    """Moves threads[0], the only one, over a byte where no frame is entered or left, and nothing written but a key.

    Returns 1, 0 when there is no way, -1 when the case is not so simple. Whether a frame with keys can still end is not
    asked inside it: where it cannot, no further byte changes that.
    """
    states, rules, edges, threads = states_of(context), rules_of(context), edges_of(context), threads_of(context)
    state, register, key = threads[0, STATE], threads[0, REG], _i8(threads[0, OPEN])
    if states[state, FINAL] == 1 or states[state, CALLS] != states[state, CALLS_END]:
        return _i8(-1)
    entry = go_of(context)[state, classes_of(context)[byte]]
    if entry == -1:
        return _i8(0)
    rule = states[state, RULE]
    low, high = rules[rule, LOW], rules[rule, HIGH]
    if entry <= -2:
        if states[state, KIND] != COUNTER or edges[-2 - entry, 2] != COUNT:
            return _i8(-1)
        if high >= 0 and register >= high:
            return _i8(0)
        register = register + 1 if high >= 0 else min(register + 1, low)
        entry = edges[-2 - entry, 1]
    if states[entry, FINAL] == 1 and states[entry, KIND] == MEMBERS:
        return _i8(-1)
    if states[state, KIND] == COUNTER and states[entry, LOOSE] == 0:
        column = min(register, low) + max(0, register - rules[rule, PLATEAU])
        if distance_of(context)[states[entry, BASE] + column] >= _FAR:
            return _i8(0)
    if key > 0:
        key = read_key(context, key, byte) if rules[rule, DECODED] == 1 else intern_pair(context, KEYS, key, byte)
        if key == 0:
            return _i8(-1)
    threads[0, STATE], threads[0, REG], threads[0, OPEN] = entry, register, key
    return _i8(1)


@inner(_i8(CONTEXT_TYPE, _i8, _u1, _i8, _i8))
def advance(context, count, text, low, high):  # type: ignore[no-untyped-def]
    """threads[:count] over text[low:high]; the result replaces them. Returns how many live, -1 in trouble. One alone
    may be unable to end (`nearest_alive`)."""
    for k in range(low, high):
        moved = _slip(context, _i8(text[k])) if count == 1 else _i8(-1)
        if moved < 0:
            end = step(context, _i8(0), count, _i8(text[k]), _i8(1))
            if end < 0:
                return _i8(-1)
            heed(context, count, end, _i8(text[k]))
            count = keep(context, count, end)
        elif moved == 0:
            count = _i8(0)
        elif counts_of(context)[TEXT] > 0 or states_of(context)[threads_of(context)[0, STATE], KIND] == UNLIKE:
            heed(context, _i8(0), _i8(1), _i8(text[k]))
        if count == 0:
            return _i8(0)
    return count


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def nearest_alive(context, count, limit):  # type: ignore[no-untyped-def]
    """U of threads[:count] after `advance`; -1 when they cannot end, -2 in trouble. limit: as in another.closest."""
    if counts_of(context)[TEXT] > 0:
        found = closest(context, count, limit)
        return _i8(-2 if found < 0 else -1 if found >= _FAR else found)
    if count > 1:
        return nearest(context, _i8(0), count, _i8(1))
    thread = threads_of(context)[0]
    cost = remaining(context, _i8(thread[STATE]), _i8(thread[REG]), _i8(thread[OPEN]), _i8(1))
    return _i8(-1) if cost >= _FAR else cost + costs_of(context)[thread[NODE]]


@entry(_i8(CONTEXT_TYPE, _i8, _i8))
def exact_distance(context, count, limit):  # type: ignore[no-untyped-def]
    """U of the room's threads[:count], which live: items that were written are heeded. FAR when a search gave up, or
    found none within `limit`, -1 in trouble."""
    return closest(context, count, min(limit, _i8(ANY - 1)))
