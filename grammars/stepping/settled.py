"""The threads of a configuration between two tokens: in order, so that equal sets are equal, and what they hold."""

from __future__ import annotations

from numba import types

from ..binding.arena import DEPTH, STATUS, USED, WITHIN
from ..binding.context import CONTEXT_TYPE, nodes_of, rules_of, states_of, threads_of
from ..binding.tables import DISTINCT, KIND, LOW, RULE, UNLIKE
from ..jit import entry, inner
from .walk import NODE, ORIGIN, REG, STATE

_i8 = types.int64


@entry(_i8(CONTEXT_TYPE, _i8))
def settle(context, count):  # type: ignore[no-untyped-def]
    """Sets the origin of threads[:count] to their depth. Returns bits: 1 when a frame of theirs holds free keys, 2
    when one holds items that others must not equal."""
    states, rules, nodes, threads = states_of(context), rules_of(context), nodes_of(context), threads_of(context)
    used = 0
    for k in range(count):
        node, state = threads[k, NODE], threads[k, STATE]
        threads[k, ORIGIN] = nodes[node, DEPTH]
        used |= nodes[node, USED]
        if states[state, KIND] >= DISTINCT and threads[k, REG] > rules[states[state, RULE], LOW]:
            used |= 2 if states[state, KIND] == UNLIKE else 1
    return _i8(used)


@inner(types.boolean(CONTEXT_TYPE, _i8))
def within_list(context, count):  # type: ignore[no-untyped-def]
    """Whether one of threads[:count] is in a list of unlike items."""
    states, nodes, threads, found = states_of(context), nodes_of(context), threads_of(context), False
    for k in range(count):
        found = found or nodes[threads[k, NODE], STATUS] & WITHIN != 0 or states[threads[k, STATE], KIND] == UNLIKE
    return found


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _before(context, a, b):  # type: ignore[no-untyped-def]
    threads = threads_of(context)
    for c in range(4):
        if threads[a, c] != threads[b, c]:
            return threads[a, c] < threads[b, c]
    return False


@inner(types.void(CONTEXT_TYPE, _i8))
def arrange(context, count):  # type: ignore[no-untyped-def]
    """Sorts threads[:count] by their columns, so that equal sets are equal arrays."""
    threads = threads_of(context)
    for k in range(1, count):
        at = k
        while at > 0 and _before(context, at, at - 1):
            for c in range(5):
                threads[at, c], threads[at - 1, c] = threads[at - 1, c], threads[at, c]
            at -= 1
