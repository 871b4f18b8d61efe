"""What grows while a grammar is explored: interned stack nodes, the keys that objects hold, and sets of such keys.

All three are hash-consed, so equal continuations have equal numbers. What a walk interns is taken back when it ends
(`undo`); only what an accepted token interns stays. Numbers start at 1; 0 is the empty stack, no key, the empty set.
"""

from __future__ import annotations

import numpy as np
from numba import types

from .errors import ConstraintTooLarge
from .jit import kernel

NODES, KEYS, SETS, FULL = 0, 1, 2, 3  # slots of `counts`
PARENT, RETURN, REGISTER, DEPTH, USED = 0, 1, 2, 3, 4  # columns of `nodes`
# columns of `sets`, after the parent set and the key: what closing.py remembers, and what members.py knows of the set
STARTS, SPENT, FOUND, AMOUNT, MET, DECLARED, KIND_OF, NEXT_COST = 2, 3, 4, 5, 6, 7, 8, 9

_table = types.int32[:, ::1]
_slots = types.int32[::1]
ARENA_TYPE = types.Tuple((_table, types.int64[::1], _slots, _table, _slots, _table, _slots, types.int64[::1]))  # type: ignore[no-untyped-call]
_i8 = types.int64


@kernel(_i8(_i8, _i8, _i8))
def _hash(a, b, c):  # type: ignore[no-untyped-def]
    h = (a * 0x9E3779B1 + b * 0x85EBCA77 + c * 0xC2B2AE3D) & 0x7FFFFFFFFFFF
    return h ^ (h >> 15) ^ (h >> 29)


@kernel(_i8(ARENA_TYPE, _i8, _i8, _i8, _i8, _i8))
def intern_node(arena, parent, state, register, cost, used):  # type: ignore[no-untyped-def]
    """The node of a frame that goes on in `state` with `register` over `parent`; 0 when the arena is full.

    cost: bytes that the frame needs after the return. used: the frame, or one below, has free keys written.
    """
    nodes, costs, slots, counts = arena[0], arena[1], arena[2], arena[7]
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
    nodes[node, USED] = max(used, nodes[parent, USED])
    costs[node] = costs[parent] + cost
    slots[at] = node
    return _i8(node)


@kernel(_i8(_table, _slots, _i8, _i8))
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


@kernel(_i8(ARENA_TYPE, _i8, _i8, _i8))
def intern_pair(arena, which, first, second):  # type: ignore[no-untyped-def]
    """The number of a key (parent key, byte) or of a set (parent set, key); 0 when the arena is full.

    The third column of a key: its length. What is remembered of a set is -1 before.
    """
    counts = arena[7]
    if which == KEYS:
        table, slots = arena[3], arena[4]
    else:
        table, slots = arena[5], arena[6]
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
        table[k, 2] = table[first, 2] + 1
    else:
        for c in range(STARTS, table.shape[1]):
            table[k, c] = -1
    slots[at] = k
    return _i8(k)


@kernel(types.void(_table, _slots, _i8, _i8, _i8))
def _forget(table, slots, low, high, width):  # type: ignore[no-untyped-def]
    """Frees the slots of [low, high). Last in, first out: so no probe chain is broken."""
    mask = slots.size - 1
    for k in range(high - 1, low - 1, -1):
        third = table[k, 2] if width == 3 else 7
        at = _hash(table[k, 0], table[k, 1], third) & mask
        while slots[at] != k:
            at = (at + 1) & mask
        slots[at] = 0


@kernel(types.void(ARENA_TYPE, _i8, _i8, _i8))
def undo(arena, nodes, keys, sets):  # type: ignore[no-untyped-def]
    """Takes back everything interned since the counts were (nodes, keys, sets)."""
    counts = arena[7]
    _forget(arena[0], arena[2], nodes, counts[NODES], 3)
    _forget(arena[3], arena[4], keys, counts[KEYS], 2)
    _forget(arena[5], arena[6], sets, counts[SETS], 2)
    counts[NODES] = nodes
    counts[KEYS] = keys
    counts[SETS] = sets
    counts[FULL] = 0


class Arena:
    """The arrays, `kernel`, that the compiled code reads and grows into. Doubles when full, up to `limit` nodes."""

    def __init__(self, limit: int, first: int = 1 << 10) -> None:
        self._limit = limit
        self._first = first
        self.clear()

    def clear(self) -> None:
        """Forgets everything. Legal only when no configuration lives."""
        size = min(self._first, self._limit)
        counts = np.array([1, 2, 1, 0], np.int64)  # key 1 is the empty key
        self.kernel = (*self._nodes(size), *self._pairs(size), *self._pairs(size, NEXT_COST + 1), counts)
        self.kernel[3][1] = (0, 0, 0)

    @staticmethod
    def _nodes(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros((size, 5), np.int32), np.zeros(size, np.int64), np.zeros(4 * size, np.int32)

    @staticmethod
    def _pairs(size: int, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((size, columns), np.int32), np.zeros(4 * size, np.int32)

    def mark(self) -> tuple[int, int, int]:
        """Where the arena stands, for `undo_to`."""
        counts = self.kernel[7]
        return int(counts[NODES]), int(counts[KEYS]), int(counts[SETS])

    def undo_to(self, mark: tuple[int, int, int]) -> None:
        undo(self.kernel, *mark)

    def grow(self) -> None:
        """Doubles every table. Raises ConstraintTooLarge at the limit."""
        nodes, costs, _, keys, _, sets, _, counts = self.kernel
        size = 2 * nodes.shape[0]
        if size > self._limit:
            raise ConstraintTooLarge(f"the text so far needs more than {self._limit} stack nodes or keys",
                                     keyword="stack", fix="Nest less deeply, or write fewer distinct keys.")
        mark = self.mark()
        new_nodes, new_costs, slots = self._nodes(size)
        new_nodes[: nodes.shape[0]], new_costs[: costs.shape[0]] = nodes, costs
        new_keys, key_slots = self._pairs(size)
        new_keys[: keys.shape[0]] = keys
        new_sets, set_slots = self._pairs(size, NEXT_COST + 1)
        new_sets[: sets.shape[0]] = sets
        counts = counts.copy()
        counts[FULL] = 0
        self.kernel = (new_nodes, new_costs, slots, new_keys, key_slots, new_sets, set_slots, counts)
        _rehash(self.kernel, *mark)


@kernel(types.void(_table, _slots, _i8, _i8, _i8))
def _remember(table, slots, low, high, width):  # type: ignore[no-untyped-def]
    mask = slots.size - 1
    for k in range(low, high):
        third = table[k, 2] if width == 3 else 7
        at = _hash(table[k, 0], table[k, 1], third) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = k


@kernel(types.void(ARENA_TYPE, _i8, _i8, _i8))
def _rehash(arena, nodes, keys, sets):  # type: ignore[no-untyped-def]
    _remember(arena[0], arena[2], 1, nodes, 3)
    _remember(arena[3], arena[4], 2, keys, 2)
    _remember(arena[5], arena[6], 1, sets, 2)
