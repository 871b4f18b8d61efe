"""What grows while a grammar is explored: interned stack nodes, the keys that objects hold, and sets of such keys.

All three are hash-consed, so equal continuations have equal numbers. What a walk interns is taken back when it ends
(`undo`); only what an accepted token interns stays. Numbers start at 1; 0 is the empty stack, no key, the empty set.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..errors import ConstraintTooLarge
from ..jit import entry, inner
from .context import (
    ARENA,
    CONTEXT_TYPE,
    Context,
    costs_of,
    counts_of,
    node_slots_of,
    nodes_of,
    pair_slots_of,
    pairs_of,
    set_slots_of,
    sets_of,
)

# slots of `counts`; TEXT: the key that is the answer since its outermost list of unlike items began (another.py), 0
# outside of one
NODES, KEYS, SETS, FULL, LONGEST, TEXT = 0, 1, 2, 3, 4, 5
# the number of the pass at hand (walk.step), from 1 on; of used_keys.py the set marked last (0: none), its mark,
# whether it has the empty key, and the column of distances that SPENT_IN is told by
PASS, MARKED, MARKING, HAS_EMPTY, MARKED_BY = 6, 7, 8, 9, 10
# columns of `nodes`; NEST: of one that a list of unlike items goes on in, how deep its brackets lie in the answer, 0:
# not known; LEFT: the last pass that left the frame above it
PARENT, RETURN, REGISTER, DEPTH, USED, STATUS, NEST, LEFT = 0, 1, 2, 3, 4, 5, 6, 7
# bits of STATUS: the value of an unlike item may have few ways left; the frame is in such an item, or in one of a list
# in which two must be equal; it must be a copy of one before
FEW, WITHIN, FIXED = 1, 2, 4
# column of `keys` that are an answer: brackets open behind it, times four, and QUOTED inside a string, ESCAPED behind a
# backslash there
OPENED, QUOTED, ESCAPED = 3, 1, 2
# Of free keys used_keys.py marks what they begin with in the same column; in the next, where no key is left that begins
# so and is not used, the state behind it, plus 1.
MARK, SPENT_IN = 3, 4
SPELLED = 1 << 10  # added to the bytes of the answer where they are a key, which is compared with none
# columns of `sets`, after the parent set and the key: what closing.py remembers, and what members.py knows of the set
STARTS, SPENT, FOUND, AMOUNT, MET, DECLARED, KIND_OF, NEXT_COST = 2, 3, 4, 5, 6, 7, 8, 9
BEGUN_AT = 3  # of Order, with STARTS: the state whose keys that is of, -1 for all

_table = types.int32[:, ::1]
_slots = types.int32[::1]
_i8 = types.int64


@inner(_i8(_i8, _i8, _i8))
def _hash(a, b, c):  # type: ignore[no-untyped-def]
    h = (a * 0x9E3779B1 + b * 0x85EBCA77 + c * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    return h ^ (h >> 15) ^ (h >> 29)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8))
def intern_node(context, parent, state, register, cost, used, status):  # type: ignore[no-untyped-def]
    """The node of a frame that goes on in `state` with `register` over `parent`; 0 when the arena is full.

    cost: bytes that the frame needs after the return. used: bits, of frames below too: 1 when it has free keys
    written, 2 when it has items that others must not equal. status: bits, see above.
    """
    nodes, costs, slots, counts = nodes_of(context), costs_of(context), node_slots_of(context), counts_of(context)
    mask = slots.size - 1
    at = _hash(parent, state, register) & mask
    while slots[at] != 0:
        node = slots[at]
        if nodes[node, PARENT] == parent and nodes[node, RETURN] == state and nodes[node, REGISTER] == register:
            return _i8(node)
        at = (at + 1) & mask
    node = counts[NODES]
    if node >= nodes.shape[0]:
        counts[FULL] = 1
        return _i8(0)
    counts[NODES] = node + 1
    nodes[node, PARENT] = parent
    nodes[node, RETURN] = state
    nodes[node, REGISTER] = register
    nodes[node, DEPTH] = nodes[parent, DEPTH] + 1
    nodes[node, USED] = used | nodes[parent, USED]
    nodes[node, STATUS] = status
    nodes[node, NEST], nodes[node, LEFT] = 0, 0
    costs[node] = costs[parent] + cost
    slots[at] = node
    return _i8(node)


@inner(_i8(_table, _slots, _i8, _i8))
def find_pair(table, slots, first, second):  # type: ignore[no-untyped-def]
    """The number of (first, second) in a table of pairs, or 0."""
    mask = slots.size - 1
    at = _hash(first, second, 7) & mask
    while slots[at] != 0:
        k = slots[at]
        if table[k, 0] == first and table[k, 1] == second:
            return _i8(k)
        at = (at + 1) & mask
    return _i8(0)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def intern_pair(context, which, first, second):  # type: ignore[no-untyped-def]
    """The number of a key (parent key, byte) or of a set (parent set, key); 0 when the arena is full.

    The third column of a key: its length; the next: `say`. What is remembered of a set is -1 before.
    """
    counts = counts_of(context)
    if which == KEYS:
        table, slots = pairs_of(context), pair_slots_of(context)
    else:
        table, slots = sets_of(context), set_slots_of(context)
    mask = slots.size - 1
    at = _hash(first, second, 7) & mask
    while slots[at] != 0:
        k = slots[at]
        if table[k, 0] == first and table[k, 1] == second:
            return _i8(k)
        at = (at + 1) & mask
    k = counts[which]
    if k >= table.shape[0]:
        counts[FULL] = 1
        return _i8(0)
    counts[which] = k + 1
    table[k, 0] = first
    table[k, 1] = second
    if which == KEYS:
        table[k, 2], table[k, OPENED] = table[first, 2] + 1, 0
        if second < SPELLED:
            counts[LONGEST] = max(counts[LONGEST], _i8(table[k, 2]))
    else:
        for c in range(STARTS, table.shape[1]):
            table[k, c] = -1
    slots[at] = k
    return _i8(k)


@inner(_i8(_i8, _i8))
def _opened(before, byte):  # type: ignore[no-untyped-def]
    """The column OPENED behind one more byte."""
    inside = before & 3
    if inside == ESCAPED:
        return before - ESCAPED + QUOTED
    if inside == QUOTED:
        return before - QUOTED if byte == 0x22 else before + ESCAPED - QUOTED if byte == 0x5C else before
    if byte == 0x22:
        return before + QUOTED
    return before + (4 if byte in (0x5B, 0x7B) else -4 if byte in (0x5D, 0x7D) else 0)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def say(context, answer, byte):  # type: ignore[no-untyped-def]
    """The key that is an answer with one more byte; 0 when the arena is full."""
    pairs, key = pairs_of(context), intern_pair(context, KEYS, answer, SPELLED + byte)
    if key > 0:
        pairs[key, OPENED] = _opened(_i8(pairs[answer, OPENED]), byte)
    return key


@inner(types.void(_table, _slots, _i8, _i8, _i8))
def _forget(table, slots, low, high, width):  # type: ignore[no-untyped-def]
    """Frees the slots of [low, high). Last in, first out: so no probe chain is broken."""
    mask = slots.size - 1
    for k in range(high - 1, low - 1, -1):
        third = table[k, 2] if width == 3 else 7
        at = _hash(table[k, 0], table[k, 1], third) & mask
        while slots[at] != k:
            at = (at + 1) & mask
        slots[at] = 0


@entry(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def undo(context, nodes, keys, sets):  # type: ignore[no-untyped-def]
    """Takes back everything interned since the counts were (nodes, keys, sets)."""
    counts = counts_of(context)
    _forget(nodes_of(context), node_slots_of(context), nodes, counts[NODES], 3)
    _forget(pairs_of(context), pair_slots_of(context), keys, counts[KEYS], 2)
    _forget(sets_of(context), set_slots_of(context), sets, counts[SETS], 2)
    counts[NODES] = nodes
    counts[KEYS] = keys
    counts[SETS] = sets
    counts[FULL] = 0
    if counts[MARKED] >= sets:
        counts[MARKED] = 0


@inner(types.void(_table, _slots, _i8, _i8, _i8))
def _remember(table, slots, low, high, width):  # type: ignore[no-untyped-def]
    mask = slots.size - 1
    for k in range(low, high):
        third = table[k, 2] if width == 3 else 7
        at = _hash(table[k, 0], table[k, 1], third) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = k


@entry(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _rehash(context, nodes, keys, sets):  # type: ignore[no-untyped-def]
    _remember(nodes_of(context), node_slots_of(context), 1, nodes, 3)
    _remember(pairs_of(context), pair_slots_of(context), 2, keys, 2)
    _remember(sets_of(context), set_slots_of(context), 1, sets, 2)


class Arrays(NamedTuple):
    """nodes, pairs (the keys), sets: rows by number, their columns as named above; *_slots: hash tables of the numbers.
    costs: by node, bytes to acceptance from there on. counts: how many there are of each, FULL, and the bytes of
    the longest key, at least."""

    nodes: Any
    costs: Any
    node_slots: Any
    pairs: Any
    pair_slots: Any
    sets: Any
    set_slots: Any
    counts: Any


class Arena:
    """The arrays that the compiled code of a context reads and grows into. Doubles when full, up to `limit` nodes."""

    def __init__(self, context: Context, limit: int, first: int = 1 << 10) -> None:
        self._context = context
        self._limit = limit
        counts = np.array([1, 2, 1, *[0] * (MARKED_BY - SETS)], np.int64)  # key 1 is the empty key
        self._put(_arrays(min(first, limit), counts))
        self.arrays.pairs[1] = 0

    def _put(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._context.put(ARENA, arrays)

    def mark(self) -> tuple[int, int, int]:
        """Where the arena stands, for `undo_to`."""
        counts = self.arrays.counts
        return int(counts[NODES]), int(counts[KEYS]), int(counts[SETS])

    def undo_to(self, mark: tuple[int, int, int]) -> None:
        undo(self._context.address, *mark)

    def grow(self) -> None:
        """Doubles every table. Raises ConstraintTooLarge at the limit."""
        old, size = self.arrays, 2 * len(self.arrays.nodes)
        if size > self._limit:
            raise ConstraintTooLarge(f"the text so far needs more than {self._limit} stack nodes or keys",
                                     keyword="stack", fix="Nest less deeply, or write fewer distinct keys.")
        new = _arrays(size, old.counts.copy())
        new.counts[FULL] = 0
        for larger, smaller in ((new.nodes, old.nodes), (new.costs, old.costs), (new.pairs, old.pairs),
                                (new.sets, old.sets)):
            larger[: len(smaller)] = smaller
        self._put(new)
        _rehash(self._context.address, *self.mark())


def _arrays(size: int, counts: Any) -> Arrays:
    slots = [np.zeros(4 * size, np.int32) for _ in range(3)]
    nodes, pairs, sets = (np.zeros((size, columns), np.int32) for columns in (LEFT + 1, SPENT_IN + 1, NEXT_COST + 1))
    return Arrays(nodes, np.zeros(size, np.int64), slots[0], pairs, slots[1], sets, slots[2], counts)


NO_KEYS = _arrays(2, np.zeros(MARKED_BY + 1, np.int64))  # of a context in which nothing is interned
