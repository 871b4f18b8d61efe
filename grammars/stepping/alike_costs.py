"""What two equal items of a list cost: law 4 while generating, where ir.Unlike asks for them.

Distances take the second for the cheapest item there is. The shortest way is a text written again, or, while there is
room for it, the cheapest item twice: who follows one of these finds it again from each place, a byte shorter.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import DEPTH, LONGEST, PARENT, REGISTER, RETURN, USED
from ..binding.context import CONTEXT_TYPE, counts_of, nodes_of, states_of, threads_of
from ..binding.tables import BOTH, COPIED, FAR, FREELY, MAYBE, PART, SAME, TWICE
from ..jit import inner, shared
from .alike import among_alike, left_of_copy, shortest_of, written_before, written_of_item
from .closing import remaining
from .walk import NODE, OPEN, REG, STATE

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def bytes_in_item(context, at, top):  # type: ignore[no-untyped-def]
    """Bytes from threads[at] to the end of the item over the node `top`, whatever was written."""
    nodes, threads = nodes_of(context), threads_of(context)
    total = remaining(context, _i8(threads[at, STATE]), _i8(threads[at, REG]), _i8(threads[at, OPEN]), _i8(1))
    node = _i8(threads[at, NODE])
    while node > 0 and node != top and nodes[node, DEPTH] > nodes[top, DEPTH]:
        total += remaining(context, _i8(nodes[node, RETURN]), _i8(nodes[node, REGISTER]), _i8(0), _i8(1))
        node = _i8(nodes[node, PARENT])
    return total


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _second(context, state, keys, length):  # type: ignore[no-untyped-def]
    """Bytes of the second of two equal items beyond the cheapest, in a list that stands in `state`; length: of one
    that is about to be written too."""
    row = states_of(context)[state]
    return _i8(min(min(length, shortest_of(context, keys)), row[BOTH]) - row[SAME])


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _in_item(context, at, node, more, exact):  # type: ignore[no-untyped-def]
    """As dearer, inside the item over a node. more: what is inside the item needs beyond its distances."""
    back, register = _i8(nodes_of(context)[node, RETURN]), _i8(nodes_of(context)[node, REGISTER])
    part, counts = states_of(context)[back, PART], counts_of(context)
    if part == FREELY:
        return more + (_second(context, back, register, _i8(_FAR)) if exact == 1 and register > 0 else _i8(0))
    if more >= _FAR or (exact == 0 and part in (MAYBE, TWICE)):
        return more
    inside = bytes_in_item(context, at, node)
    length = written_of_item(context, register) + inside + more
    if part != MAYBE:
        counts[LONGEST] = max(counts[LONGEST], length)
    if part in (TWICE, COPIED):
        left = left_of_copy(context, register)
        return left - inside if left < _FAR else left
    return more + (_second(context, back, written_before(context, register), length) if exact == 1 else _i8(0))


@shared(_i8(CONTEXT_TYPE, _i8, _i8))
def dearer(context, at, exact):  # type: ignore[no-untyped-def]
    """How much more than its distances say threads[at] needs for two equal items; FAR or more: it cannot end. exact 0:
    only whether it can, its siblings in the same item included."""
    nodes, state, more = nodes_of(context), _i8(threads_of(context)[at, STATE]), _i8(0)
    if among_alike(context, state):
        keys = _i8(threads_of(context)[at, REG])
        more = _second(context, state, keys, _i8(_FAR)) if exact == 1 and keys > 0 else _i8(0)
    node = _i8(threads_of(context)[at, NODE])
    while node > 0 and nodes[node, USED] & 2:
        if among_alike(context, _i8(nodes[node, RETURN])):
            more = _in_item(context, at, node, more, exact)
        node = _i8(nodes[node, PARENT])
    return more
