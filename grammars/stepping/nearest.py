"""How far threads are from the end of the text: U of a set of them, where keys and items written play no part."""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, costs_of, distance_of, rules_of, states_of, threads_of
from ..binding.tables import BASE, COUNTER, FAR, KIND, LOW, MEMBERS, PLAIN, PLATEAU, RULE
from ..jit import entry, inner, shared
from .closing import remaining
from .walk import NODE, OPEN, REG, STATE

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def near(context, at, exact):  # type: ignore[no-untyped-def]
    """The common case of `nearest`: one thread in whose frame free keys play no part; -1 for others."""
    states, rules, threads = states_of(context), rules_of(context), threads_of(context)
    state = threads[at, STATE]
    if states[state, KIND] == MEMBERS or (states[state, KIND] > COUNTER and exact == 1):
        return _i8(-1)
    column = 0
    if states[state, KIND] != PLAIN:
        rule, register = states[state, RULE], threads[at, REG]
        column = min(register, rules[rule, LOW])
        if states[state, KIND] == COUNTER:
            column += max(0, register - rules[rule, PLATEAU])
    return distance_of(context)[states[state, BASE] + column] + costs_of(context)[threads[at, NODE]]


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def nearest(context, low, high, exact):  # type: ignore[no-untyped-def]
    """U of threads[low:high]: bytes to acceptance over the nearest thread. 0 means that the text may end."""
    threads, costs = threads_of(context), costs_of(context)
    best = _i8(_FAR) * 1024
    for k in range(low, high):
        cost = remaining(context, _i8(threads[k, STATE]), _i8(threads[k, REG]), _i8(threads[k, OPEN]), exact)
        best = min(best, cost + costs[threads[k, NODE]])
    return best


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def distance(context, low, high, exact):  # type: ignore[no-untyped-def]
    """`nearest`, for Python."""
    return nearest(context, low, high, exact)
