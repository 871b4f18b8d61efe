"""The tails of a body: what tokens hold behind the place where they leave it, as a trie for each way of leaving.

What follows an exit is a subtree of the vocabulary's trie; the subtrees of all exits of one way are laid over each
other. Those of all quotes are made with the vocabulary: a string's are these, less the tokens that do not come there.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, byte_of, depth_of, size_of, token_of, twin_of
from ..binding.trie import Trie, trie_of
from ..jit import entry, inner
from .body_walk import AFTER, AT, BEFORE, FROM, TAKEN, WITH

_WAYS = 4  # more than values of WITH
_QUOTE = 0x22
_LARGE = 256  # nodes behind an exit from which on it is no part of a tail
DIRECT = 1 << 40  # more than any key of a way
_FEW = 8  # with that part of what all quotes have, the tries of all of them are taken
# columns of ways: FROM, WITH and whether at a quote; which exits; their tokens and nodes; the most that one has TAKEN
_KEY, _BEGIN, _END, _TOKENS, _NODES, _MOST = range(6)
# columns of the tree that is grown: a node's byte, its first child, its next sibling (0: none), its tokens
_BYTE, _DOWN, _NEXT, _FIRST, _LAST = 0, 1, 2, 3, 4

_i8, _i4, _i44, _u1, _i88 = (types.int64, types.int32[::1], types.int32[:, ::1], types.uint8[::1],
                             types.int64[:, ::1])


class Tails(NamedTuple):
    """tails, ids, tries: as BodyRows has them. direct: the exits that are no part of one."""

    tails: Any
    ids: Any
    tries: tuple[Trie, ...]
    direct: Any


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


def overlaid(context: int, exits: Any, path: Any, ids: Any, nodes: int) -> Trie:
    """What follows these exits, so many nodes in all, with numbers for tokens; which tokens these are, with their
    counts, is written to `ids`, int32 [tokens, 2]."""
    tree, twin = np.empty((1 + nodes, 5), np.int32), np.empty(len(ids), np.int32)
    grown = int(grow(context, exits, path, tree, ids, twin)) - 1
    byte, (depth, size, token) = np.empty(grown, np.uint8), (np.empty(grown, np.int32) for _ in range(3))
    lay_out(tree, path, byte, depth, size, token)
    return trie_of(byte, depth, size, token, twin)


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
        ids = np.zeros((int(counts.sum()), 2), np.int32)
        self.before = overlaid(context, exits, path, ids, int(trie.size[nodes].sum()))
        self.tokens, self.first = ids[:, 0].copy(), np.full(len(trie.byte), -1, np.int32)
        self.first[nodes] = np.cumsum(counts) - counts
        byte, (depth, size, token) = self.before.byte[1:], (array[1:].copy() for array in self.before[1:4])
        self.behind = trie_of(byte.copy(), depth - 1, size, token, self.before.twin)


@entry(types.void(CONTEXT_TYPE, _i44, _i4, _i4, _i4, _i44))
def pick(context, exits, first, before, tokens, ids):  # type: ignore[no-untyped-def]
    """Fills ids, by number of what all quotes have (`tokens`): the token that leaves by these exits before or behind
    a quote, else -1, and its counts."""
    size = size_of(context)
    for k in range(ids.shape[0]):
        ids[k, 0], ids[k, 1] = -1, 0
    for e in range(exits.shape[0]):
        at = exits[e, AT]
        begin = at + 1 if exits[e, WITH] == AFTER else at
        for k in range(before[begin], before[at + size[at]]):
            number = first[at] + k - before[at]
            ids[number, 0], ids[number, 1] = tokens[number], exits[e, TAKEN]


@entry(_i8(CONTEXT_TYPE, _i4, _i44, _i8, _i44, _i88))
def part(context, before, exits, large, parted, ways):  # type: ignore[no-untyped-def]
    """Sorts exits by their ways of leaving into `parted`, and fills `ways` (columns above), by their keys; the last one
    (DIRECT) is of those with more than `large` nodes behind them. Returns how many ways there are, -1 where they have
    no room or more nodes than the vocabulary."""
    byte, size, count, nodes = byte_of(context), size_of(context), 0, 0
    for again in range(2):
        for e in range(exits.shape[0]):
            at, w = exits[e, AT], 0
            key = (_i8(exits[e, FROM]) * _WAYS + exits[e, WITH]) * 2 + (1 if byte[at] == _QUOTE else 0)
            key = key if size[at] <= large else _i8(DIRECT)
            while w < count and ways[w, _KEY] < key:
                w += 1
            if again == 1:
                for c in range(exits.shape[1]):
                    parted[ways[w, _END], c] = exits[e, c]
                ways[w, _END] += 1
                continue
            if w == count or ways[w, _KEY] > key:
                if count == ways.shape[0]:
                    return _i8(-1)
                for k in range(count, w, -1):
                    for c in range(ways.shape[1]):
                        ways[k, c] = ways[k - 1, c]
                for c in range(ways.shape[1]):
                    ways[w, c] = key if c == _KEY else 0
                count += 1
            begin, end = at + (1 if exits[e, WITH] == AFTER else 0), at + size[at]
            ways[w, _END] += 1
            ways[w, _TOKENS] += before[end] - before[begin]
            ways[w, _NODES] += end - begin
            ways[w, _MOST] = max(ways[w, _MOST], _i8(exits[e, TAKEN]))
            nodes += size[at] if key < DIRECT else 0
        first = _i8(0)
        for w in range(count if again == 0 else 0):
            ways[w, _BEGIN] = first
            first += ways[w, _END]
            ways[w, _END] = ways[w, _BEGIN]
    return _i8(-1 if nodes > byte.size else count)


def tails_of(context: int, exits: Any, room: tuple[Any, Any, Any], before: Any, quotes: Quotes) -> Tails | None:
    """The tails of the exits of a body. room: parted and ways, of `part`, and the path of `grow`. before: [nodes + 1]
    how many tokens of the trie come before each node."""
    parted, ways, path = room
    count = part(context, before, exits, _LARGE, parted, ways)
    if count < 0:
        return None
    told, direct, all_quotes = ways[:count].tolist(), parted[:0], len(quotes.tokens)
    if told and told[-1][_KEY] == DIRECT:
        *told, (_, begin, end, _, _, _) = told
        direct = parted[begin:end].copy()
    many = [bool(key & 1) and tokens * _FEW >= all_quotes for key, _, _, tokens, _, _ in told]
    ends = list(accumulate((all_quotes if most else way[_TOKENS] for way, most in zip(told, many, strict=True)),
                           initial=0))
    ids, tails, tries = np.empty((ends[-1], 2), np.int32), np.empty((len(told), 6), np.int32), list[Trie]()
    for k, (key, begin, end, _, nodes, most) in enumerate(told):
        state, how = divmod(key >> 1, _WAYS)
        tails[k] = -1, how, state, most, ends[k], ends[k + 1]
        here, exits = ids[ends[k]: ends[k + 1]], parted[begin:end]
        if many[k]:
            pick(context, exits, quotes.first, before, quotes.tokens, here)
            tries.append(quotes.behind if how == AFTER else quotes.before)
        else:
            tries.append(overlaid(context, exits, path, here, nodes))
    return Tails(tails, ids, tuple(tries), direct)
