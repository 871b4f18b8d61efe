"""What of a configuration a mask depends on: the key under which finished masks are shared.

Registers are told apart only as far as the longest token can feel: a counter's by its columns (tables.py), an object's
in any order by whether it may end and go on (members.class_of).
"""

from __future__ import annotations

from numba import types

from ..binding.arena import FEW, FIXED, PARENT, REGISTER, RETURN, STATUS
from ..binding.context import CONTEXT_TYPE, nodes_of, rules_of, states_of, threads_of
from ..binding.tables import COUNTER, HIGH, KIND, LOW, MEMBERS, PLAIN, PLATEAU, RULE
from ..jit import inner
from ..stepping.members import class_of
from ..stepping.nearest import nearest
from ..stepping.walk import NODE, REG, STATE

_BOTTOM = -1

_i8, _i8s = types.int64, types.int64[::1]


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _class(context, state, register, reach):  # type: ignore[no-untyped-def]
    """A register, where tokens of `reach` bytes cannot tell it from another by the same number."""
    kind = states_of(context)[state, KIND]
    if kind == PLAIN:
        return _i8(0)
    if kind == MEMBERS:
        return class_of(context, state, register)
    row = rules_of(context)[states_of(context)[state, RULE]]
    if kind != COUNTER or (register >= row[LOW] and (row[HIGH] < 0 or register + reach <= row[PLATEAU])):
        return min(register, _i8(row[LOW]))
    return register


@inner(_i8(_i8, _i8))
def longest_signature(count, looked):  # type: ignore[no-untyped-def]
    """Numbers that the signature of so many threads takes, at most."""
    return 1 + count * (4 + 2 * max(looked, _i8(0)))


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8s, _i8))
def sign(context, count, ends, looked, reach, signed, length):  # type: ignore[no-untyped-def]
    """Writes what the masks of the room's threads[:count] depend on when a walk looks into `looked` frames below
    theirs; -1: what all of them do. Returns its end.

    ends: 1 when the text may end here. reach: bytes of the longest token. signed, from `length` on: equal where masks
    are equal, up to free keys.
    """
    threads, nodes, nearby = threads_of(context), nodes_of(context), _i8(0)
    if looked >= 0 and count > 1:
        nearby = nearest(context, _i8(0), count, _i8(0))
    signed[length] = 2 * looked + ends
    length += 1
    for k in range(count):
        state, node = _i8(threads[k, STATE]), _i8(threads[k, NODE])
        signed[length] = 8 * state + (nodes[node, STATUS] & (FEW | FIXED))
        signed[length + 1] = _class(context, state, _i8(threads[k, REG]), reach)
        length += 2
        if looked >= 0 and count > 1:
            signed[length] = nearest(context, _i8(k), _i8(k + 1), _i8(0)) - nearby
            length += 1
        for _ in range(looked):
            if node == 0:
                signed[length] = _BOTTOM
                length += 1
                break
            state, register = _i8(nodes[node, RETURN]), _i8(nodes[node, REGISTER])
            node = _i8(nodes[node, PARENT])
            signed[length] = 8 * state + (nodes[node, STATUS] & (FEW | FIXED))
            signed[length + 1] = _class(context, state, register, reach)
            length += 2
    return length
