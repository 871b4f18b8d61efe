"""The tails of a body: what tokens hold behind the place where they leave it, as a trie for each way of leaving.

What follows an exit is a subtree of the vocabulary's trie; the subtrees of all exits of one way are laid over each
other. Those of all quotes are made with the vocabulary: a string's are these, less the tokens that do not come there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, byte_of, depth_of, size_of, token_of, twin_of
from ..binding.trie import Trie, trie_of
from ..jit import entry, inner
from .body_walk import AFTER, AT, BEFORE, FROM, TAKEN, WITH

_WAYS = 4  # more than values of WITH
_QUOTE = 0x22
_FEW = 8  # with that part of what all quotes have, the tries of all of them are taken
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


def overlaid(context: int, exits: Any, path: Any, tokens: int, nodes: int) -> tuple[Trie, Any]:
    """(what follows these exits, with numbers for tokens, and which tokens these are with their counts), of so many
    tokens and nodes in all."""
    ids = np.zeros((tokens, 2), np.int32)
    tree, twin = np.empty((1 + nodes, 5), np.int32), np.empty(tokens, np.int32)
    grown = int(grow(context, exits, path, tree, ids, twin)) - 1
    byte, (depth, size, token) = np.empty(grown, np.uint8), (np.empty(grown, np.int32) for _ in range(3))
    lay_out(tree, path, byte, depth, size, token)
    return trie_of(byte, depth, size, token, twin), ids


class Quotes:
    """What all tokens hold from a quote on, and behind one: with it bodies end more often than with all other bytes.

    before, behind: tries, whose tokens are numbers of `tokens`, by the quote and in order. first: by node of a quote in
    the vocabulary's trie, the number of the first of its tokens, else -1.
    """

    def __init__(self, context: int, trie: Trie, before: Any, path: Any) -> None:
        nodes = np.flatnonzero(trie.byte == _QUOTE)
        counts = before[nodes + trie.size[nodes]] - before[nodes]
        exits = np.zeros((len(nodes), 4), np.int32)
        exits[:, AT], exits[:, WITH] = nodes, BEFORE
        self.before, ids = overlaid(context, exits, path, int(counts.sum()), int(trie.size[nodes].sum()))
        self.tokens, self.first = ids[:, 0].copy(), np.full(len(trie.byte), -1, np.int32)
        self.first[nodes] = np.cumsum(counts) - counts
        byte, (depth, size, token) = self.before.byte[1:], (array[1:].copy() for array in self.before[1:4])
        self.behind = trie_of(byte.copy(), depth - 1, size, token, self.before.twin)

    def ids(self, exits: Any, before: Any, trie: Trie) -> Any:
        """[numbers, 2] the tokens that leave by these exits before or behind quotes, else -1, and counts."""
        ids = np.zeros((len(self.tokens), 2), np.int32)
        pick(exits, self.first, before, trie.size, self.tokens, ids)
        return ids


@entry(types.void(_i44, _i4, _i4, _i4, _i4, _i44))
def pick(exits, first, before, size, tokens, ids):  # type: ignore[no-untyped-def]
    """Fills what Quotes.ids returns."""
    ids[:, 0] = -1
    for e in range(exits.shape[0]):
        at = exits[e, AT]
        begin = at + 1 if exits[e, WITH] == AFTER else at
        for k in range(before[begin], before[at + size[at]]):
            number = first[at] + k - before[at]
            ids[number, 0], ids[number, 1] = tokens[number], exits[e, TAKEN]


def tails_of(context: int, exits: Any, trie: Trie, before: Any, path: Any,
             quotes: Quotes) -> tuple[Any, Any, tuple[Trie, ...]]:
    """(tails, ids, tries) of the exits of a body, as BodyRows has them. before: [nodes + 1] how many tokens of the trie
    come before each node."""
    begin, end = exits[:, AT] + (exits[:, WITH] == AFTER), exits[:, AT] + trie.size[exits[:, AT]]
    counts, nodes = before[end] - before[begin], end - begin
    ways = (exits[:, FROM] * _WAYS + exits[:, WITH]) * 2 + (trie.byte[exits[:, AT]] == _QUOTE)
    tails, found, tries, first = [], [], list[Trie](), 0
    for way in sorted({*ways.tolist()}):
        here = ways == way
        state, how = divmod(way >> 1, _WAYS)
        tokens = int(counts[here].sum())
        if way & 1 and tokens * _FEW >= len(quotes.tokens):
            tries.append(quotes.behind if how == AFTER else quotes.before)
            ids = quotes.ids(exits[here], before, trie)
        else:
            trie_here, ids = overlaid(context, exits[here], path, tokens, int(nodes[here].sum()))
            tries.append(trie_here)
        tails.append((-1, how, state, ids[:, 1].max(initial=0), first, first + len(ids)))
        found.append(ids)
        first += len(ids)
    return (np.array(tails, np.int32).reshape(-1, 6), np.concatenate(found) if found else np.zeros((0, 2), np.int32),
            tuple(tries))
