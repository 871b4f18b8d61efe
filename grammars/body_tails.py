"""The tails of a body: what tokens hold behind the place where they leave it, as a trie for each way of leaving.

What follows an exit is a subtree of the vocabulary's trie; the subtrees of all exits of one way are laid over each
other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .body_walk import AFTER, AT, FROM, TAKEN, WITH
from .context import CONTEXT_TYPE, byte_of, depth_of, size_of, token_of, twin_of
from .jit import entry, inner
from .trie import Trie, trie_of

_WAYS = 4  # more than values of WITH
# columns of the tree that is grown: a node's byte, its first child, its next sibling (0: none), its tokens
_BYTE, _DOWN, _NEXT, _FIRST, _LAST = 0, 1, 2, 3, 4

_i8, _i4, _i44, _u1 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint8[::1]


@inner(_i8(_i44, _i8, _i8, _i8))
def _child(tree, parent, byte, nodes):  # type: ignore[no-untyped-def]
    """The child of a node by a byte; a new one has the number `nodes`."""
    before, child = _i8(0), _i8(tree[parent, _DOWN])
    while child > 0 and tree[child, _BYTE] < byte:
        before, child = child, _i8(tree[child, _NEXT])
    if child > 0 and tree[child, _BYTE] == byte:
        return child
    row = tree[nodes]
    row[_BYTE], row[_DOWN], row[_NEXT], row[_FIRST], row[_LAST] = byte, 0, child, -1, -1
    if before == 0:
        tree[parent, _DOWN] = nodes
    else:
        tree[before, _NEXT] = nodes
    return nodes


@entry(_i8(CONTEXT_TYPE, _i44, _i44, _i44, _i44, _i4))
def grow(context, exits, path, tree, ids, twin):  # type: ignore[no-untyped-def]
    """Lays what follows these exits over each other as a tree, whose node 0 is its root; returns how many nodes it has.

    path: room. ids[k]: token and counts of the k-th token, which the tree knows by k; twin[k]: the next with its text.
    """
    byte, depth, size, token, twins = (byte_of(context), depth_of(context), size_of(context), token_of(context),
                                       twin_of(context))
    nodes, count = _i8(1), 0
    path[0, 0], tree[0, _DOWN] = 0, 0
    for e in range(exits.shape[0]):
        at, after = exits[e, AT], 1 if exits[e, WITH] == AFTER else 0
        above = depth[at] - 1 + after
        for i in range(at + after, at + size[at]):
            d = depth[i] - above
            node = _child(tree, _i8(path[d - 1, 0]), _i8(byte[i]), nodes)
            nodes = max(nodes, node + 1)
            path[d, 0] = node
            here = token[i]
            while here >= 0:
                ids[count, 0], ids[count, 1], twin[count] = here, exits[e, TAKEN], -1
                if tree[node, _FIRST] < 0:
                    tree[node, _FIRST] = count
                else:
                    twin[tree[node, _LAST]] = count
                tree[node, _LAST] = count
                count += 1
                here = twins[here]
    return nodes


@entry(types.void(_i44, _i44, _u1, _i4, _i4, _i4))
def lay_out(tree, path, byte, depth, size, token):  # type: ignore[no-untyped-def]
    """Writes a tree as the nodes of a trie (trie.py). path: room."""
    at, d, node = 0, 1, tree[0, _DOWN]
    while d > 0:
        if node > 0:
            byte[at], depth[at], token[at] = tree[node, _BYTE], d, tree[node, _FIRST]
            path[d, 0], path[d, 1] = node, at
            at += 1
            d += 1
            node = tree[node, _DOWN]
            continue
        d -= 1
        if d > 0:
            size[path[d, 1]] = at - path[d, 1]
            node = tree[path[d, 0], _NEXT]


def tails_of(context: int, exits: Any, trie: Trie, before: Any, path: Any) -> tuple[Any, Any, tuple[Trie, ...]]:
    """(tails, ids, tries) of the exits of a body, as BodyRows has them. before: [nodes + 1] how many tokens of the trie
    come before each node."""
    ways, way = np.unique(exits[:, FROM] * _WAYS + exits[:, WITH], return_inverse=True)
    exits = exits[np.argsort(way.reshape(-1), kind="stable")]
    ends = np.cumsum(np.bincount(way.reshape(-1), minlength=len(ways))).tolist()
    begin, end = exits[:, AT] + (exits[:, WITH] == AFTER), exits[:, AT] + trie.size[exits[:, AT]]
    counts, nodes = before[end] - before[begin], end - begin
    ids = np.zeros((int(counts.sum()), 2), np.int32)
    tails, tries, low, first = np.zeros((len(ways), 6), np.int32), [], 0, 0
    for k, (state, how) in enumerate(divmod(both, _WAYS) for both in ways.tolist()):
        high = ends[k]
        last = first + int(counts[low:high].sum())
        tree, twin = np.empty((1 + int(nodes[low:high].sum()), 5), np.int32), np.empty(last - first, np.int32)
        grown = int(grow(context, exits[low:high], path, tree, ids[first:last], twin)) - 1
        byte, (depth, size, token) = np.empty(grown, np.uint8), (np.empty(grown, np.int32) for _ in range(3))
        lay_out(tree, path, byte, depth, size, token)
        tails[k] = (-1, how, state, ids[first:last, 1].max(initial=0), first, last)
        tries.append(trie_of(byte, depth, size, token, twin))
        low, first = high, last
    return tails, ids, tuple(tries)
