"""What ends in a state of a body costs, after so many counts on the way to it."""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, distance_of, rules_of, states_of
from ..binding.tables import BASE, COUNTER, FAR, HIGH, KIND, LOW, PLAIN, PLATEAU, RULE
from ..jit import inner

BLOCKED = 1 << 60  # more than any limit

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def cost_after(context, state, register, counts):  # type: ignore[no-untyped-def]
    """Tokens to the frame's end from `state` after that many counts; BLOCKED where they are too many or no end is."""
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    rule = states[state, RULE]
    low, high = rules[rule, LOW], rules[rule, HIGH]
    if states[state, KIND] == PLAIN:
        return _i8(distance[states[state, BASE]])
    if states[state, KIND] != COUNTER:
        return _i8(distance[states[state, BASE] + min(register, _i8(low))])
    register += counts
    if high >= 0 and counts > 0 and register > high:
        return _i8(BLOCKED)
    column = min(register, _i8(low)) + max(_i8(0), register - rules[rule, PLATEAU])
    cost = _i8(distance[states[state, BASE] + column])
    return cost if cost < FAR else _i8(BLOCKED)
