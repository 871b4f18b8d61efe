"""The fewest tokens to the end, exactly, for a grammar that is one automaton without register or calls.

Regular expressions and choices are such. The shortest path in automaton times vocabulary: from each state all tokens
are read, and a breadth-first search goes backwards from the final states. Bytes that the automaton does not tell apart
are taken together first, so that a class of many letters costs no more than one letter; where that leaves too many
nodes, states have few ways out, and the tokens are read as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .context import CONTEXT_TYPE, Context, byte_of, depth_of, size_of, token_of
from .jit import entry
from .tables import FAR, FINAL, Tables

_i8, _u1, _i4, _i44 = types.int64, types.uint8[::1], types.int32[::1], types.int32[:, ::1]
_FAR = FAR
_NODES = 1 << 14  # of the vocabulary over classes
# Past one of these the bound that is there stays: steps in automaton times vocabulary; moves from state to state.
_STEPS, _MOVES = 2_000_000, 1 << 18
_LONGEST = 256  # bytes of a token that is read


@entry(_i8(CONTEXT_TYPE, _u1, _u1, _i44, _u1, _i4))
def _over_classes(context, classes, useful, child, ends, path):  # type: ignore[no-untyped-def]
    """Fills child[node, class] (0: none) and ends[node] of the trie of tokens over classes; node 0 is its root. Returns
    how many nodes, -1 when they are too many. path: scratch, by depth."""
    byte, depth, size, token = byte_of(context), depth_of(context), size_of(context), token_of(context)
    nodes, i = 1, 0
    while i < byte.size:
        d, c = depth[i], classes[byte[i]]
        if useful[c] == 0 or d >= path.size:
            i += size[i]
            continue
        above = path[d - 1]
        node = child[above, c]
        if node == 0:
            if nodes >= child.shape[0]:
                return -1
            node = nodes
            child[above, c] = node
            nodes += 1
        if token[i] >= 0:
            ends[node] = 1
        path[d] = node
        i += 1
    return nodes


@entry(_i8(_i44, _i44, _u1, _i44, _i4, _i44, _i8))
def _moves(go, child, ends, moves, seen, stack, steps):  # type: ignore[no-untyped-def]
    """All (state, state after a token), each once, into `moves`; returns how many, -1 past a budget."""
    count = 0
    for start in range(go.shape[0]):
        stack[0, 0], stack[0, 1] = start, 0
        top = 1
        while top > 0:
            top -= 1
            state, node = stack[top, 0], stack[top, 1]
            for c in range(go.shape[1]):
                below, target = child[node, c], go[state, c]
                steps -= 1
                if below == 0 or target < 0:
                    continue
                if ends[below] == 1 and seen[target] != start:
                    if count >= moves.shape[0]:
                        return _i8(-1)
                    seen[target] = start
                    moves[count, 0], moves[count, 1] = start, target
                    count += 1
                if top >= stack.shape[0]:
                    return _i8(-1)
                stack[top, 0], stack[top, 1] = target, below
                top += 1
            if steps < 0:
                return _i8(-1)
    return _i8(count)


@entry(_i8(CONTEXT_TYPE, _u1, _i44, _i44, _i4, _i4, _i8))
def _moves_of_bytes(context, classes, go, moves, seen, path, steps):  # type: ignore[no-untyped-def]
    """As _moves, over the bytes of the tokens. path: scratch, the state at each depth."""
    byte, depth, size, token = byte_of(context), depth_of(context), size_of(context), token_of(context)
    count = 0
    for start in range(go.shape[0]):
        path[0] = start
        i = 0
        while i < byte.size:
            d = depth[i]
            steps -= 1
            target = go[path[d - 1], classes[byte[i]]] if d < path.size else _i8(-1)
            if target < 0:
                i += size[i]
                continue
            path[d] = target
            if token[i] >= 0 and seen[target] != start:
                if count >= moves.shape[0]:
                    return _i8(-1)
                seen[target] = start
                moves[count, 0], moves[count, 1] = start, target
                count += 1
            i += 1
        if steps < 0:
            return _i8(-1)
    return _i8(count)


def _levels(moves: Any, finals: Any) -> Any:
    """int32 [states]: the fewest moves to a final state, FAR for none."""
    distance = np.where(finals, 0, FAR).astype(np.int32)
    level = 0
    while True:
        nearer = moves[(distance[moves[:, 1]] == level) & (distance[moves[:, 0]] > level + 1), 0]
        if not len(nearer):
            return distance
        level += 1
        distance[nearer] = level


def solve_exactly(context: Context, tables: Tables) -> None:
    """Distances of the one rule there is, in tokens; unchanged where that would cost too much. context:
    holds the trie."""
    states, classes = tables.go.shape
    if states > _MOVES:
        return
    useful = (tables.go >= 0).any(axis=0).astype(np.uint8)
    child, ends, path = np.zeros((_NODES, classes), np.int32), np.zeros(_NODES, np.uint8), np.zeros(_LONGEST, np.int32)
    nodes = int(_over_classes(context.address, tables.classes, useful, child, ends, path))
    moves, seen = np.empty((_MOVES, 2), np.int32), np.full(states, -1, np.int32)
    if nodes >= 0:
        stack = np.empty((_LONGEST * classes, 2), np.int32)
        count = int(_moves(tables.go, child[:nodes], ends, moves, seen, stack, _STEPS))
    else:
        count = int(_moves_of_bytes(context.address, tables.classes, tables.go, moves, seen, path, _STEPS))
    if count >= 0:
        tables.distance[:] = np.minimum(tables.distance, _levels(moves[:count], tables.states[:, FINAL] == 1))
