"""What of a configuration a mask depends on: the key under which finished masks are shared.

Registers are told apart only as far as the longest token can feel: a counter's by its columns (tables.py), an object's
in any order by whether it may end and go on (members.class_of).
"""

from __future__ import annotations

from numba import types

from .arena import PARENT, REGISTER, RETURN
from .context import CONTEXT_TYPE, nodes_of, rules_of, states_of, threads_of
from .jit import entry, inner
from .members import class_of
from .tables import COUNTER, HIGH, KIND, LOW, MEMBERS, PLAIN, PLATEAU, RULE, Tables
from .walk import NODE, REG, STATE, nearest

NEAREST, FLAGS, PARTS = 0, 1, 2  # slots of what is signed: U, free keys aside; what it is about; from where on
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


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8s))
def sign(context, count, ends, looked, reach, signed):  # type: ignore[no-untyped-def]
    """Writes what the masks of the room's threads[:count] depend on when a walk looks into `looked` frames below
    theirs; -1: what all of them do. Returns its length, -1 without room.

    ends: 1 when the text may end here. reach: bytes of the longest token. signed[FLAGS:length]: equal where masks are
    equal, up to free keys. signed[NEAREST]: U of the nearest thread, free keys aside.
    """
    threads, nodes = threads_of(context), nodes_of(context)
    if PARTS + count * (4 + 2 * max(looked, _i8(0))) > signed.size:
        return _i8(-1)
    nearby = nearest(context, _i8(0), count, _i8(0))
    signed[NEAREST], signed[FLAGS] = nearby, 2 * looked + ends
    length = PARTS
    for k in range(count):
        state, node = _i8(threads[k, STATE]), _i8(threads[k, NODE])
        signed[length], signed[length + 1] = state, _class(context, state, _i8(threads[k, REG]), reach)
        length += 2
        if looked >= 0 and count > 1:
            signed[length] = nearest(context, _i8(k), _i8(k + 1), _i8(0)) - nearby
            length += 1
        for _ in range(looked):
            if node == 0:
                signed[length] = _BOTTOM
                length += 1
                break
            state = _i8(nodes[node, RETURN])
            signed[length], signed[length + 1] = state, _class(context, state, _i8(nodes[node, REGISTER]), reach)
            length += 2
            node = _i8(nodes[node, PARENT])
    return _i8(length)


def plateau(tables: Tables, reach: int, state: int, register: int) -> int | None:
    """Where the register of a counter may stand for this one: masks are those with it, since no token of `reach` bytes
    comes near a bound. None otherwise."""
    if tables.states[state, KIND] != COUNTER:
        return None
    low, above, high = tables.rules[tables.states[state, RULE], [LOW, PLATEAU, HIGH]].tolist()
    return int(low) if low < register and high >= 0 and register + reach <= above else None
