"""Calls entered ahead of a walk: what can only call is walked as what it calls, which may have a body."""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, calls_of, go_of, states_of, threads_of
from ..binding.tables import CALLEE, CALLS, CALLS_END, FINAL
from ..jit import entry
from ..stepping.walk import CROWDED, NODE, OPEN, ORIGIN, REG, STATE, enter

_i8 = types.int64


@entry(_i8(CONTEXT_TYPE, _i8))
def enter_calls(context, exact):  # type: ignore[no-untyped-def]
    """Writes where the calls of threads[0] lead to threads[:n] and returns n; 0 when it can do something else, or
    nothing. In trouble CROWDED, or the arena's counts say that it is full."""
    states, go, calls, threads = states_of(context), go_of(context), calls_of(context), threads_of(context)
    state, register, node, origin = (_i8(threads[0, STATE]), _i8(threads[0, REG]), _i8(threads[0, NODE]),
                                     threads[0, ORIGIN])
    if states[state, FINAL] == 1:
        return _i8(0)
    for c in range(go.shape[1]):
        if go[state, c] != -1:
            return _i8(0)
    count = 0
    for call in range(states[state, CALLS], states[state, CALLS_END]):
        over = enter(context, _i8(call), state, register, node, exact)
        if over == 0 or count >= threads.shape[0]:
            return _i8(CROWDED)
        if over > 0:
            thread = threads[count]
            thread[STATE], thread[REG], thread[NODE], thread[OPEN] = calls[call, CALLEE], 0, over, 0
            thread[ORIGIN] = origin
            count += 1
    return _i8(count)
