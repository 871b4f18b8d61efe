"""Keys of objects in any order (ir.Names), written out as an automaton over characters where a grammar is bound.

Compiled code. The names of an object are a trie; where other keys are free, each of its states reads every character,
and what leaves the trie ends in one state more, behind all names.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..ir import CHARACTER, CLOSE_KEY, KEY
from ..jit import entry, inner
from .context import CONTEXT_TYPE, Context, Part
from .flat import (
    ACTION,
    BYTE_HIGH,
    BYTE_LOW,
    NAME_BEGIN,
    NAME_END,
    NAME_KEY,
    NAME_RULE,
    NAME_TARGET,
    NO_NAMES,
    OWNER,
    SOURCE,
    TARGET,
    Flat,
)

_QUOTE = 0x22
_PIECES = ((0, 0xD7FF), (0xE000, 0x10FFFF))  # all characters
# columns of `nodes`: its character, its first and last child and next sibling, -1 for none, the name that ends there
_CODE, _CHILD, _LAST, _SIBLING, _NAME = range(5)
# `counts`: edges written, nodes of this trie, edges on characters
_EDGES, _NODES, _CHARACTERS = 0, 1, 2

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_ROOM = Part()
_out_of, _nodes_of = _ROOM.array(_i88, TARGET + 2), _ROOM.array(_i88, _NAME + 1)
_path_of, _letters_of, _counts_of = _ROOM.array(_i8s), _ROOM.array(_i8s), _ROOM.array(_i8s)
_ROOM.complete()


def with_names(flat: Flat) -> Flat:
    """The rules with the edges of their keys behind all others: more states at the end of each.

    flat: verified. The edges of each rule are sorted by their source, here as there.
    """
    if not flat.named:
        return flat
    nodes = len(flat.letters) + 2 * len(flat.states)
    out, states = np.empty((len(flat.edges) + 5 * nodes + 8, TARGET + 2), np.int64), flat.states.copy()
    counts, context = np.zeros(_CHARACTERS + 1, np.int64), Context(_ROOM.end)
    context.put(_ROOM, (out, np.empty((nodes, _NAME + 1), np.int64), np.empty(len(flat.letters) + 1, np.int64),
                        flat.letters, counts))
    _write_names(context.address, flat.edges, flat.names, flat.others, states)
    edges, _, characters = counts.tolist()
    return flat._replace(edges=out[:edges], states=states, characters=characters)


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8))
def _edge(context, rule, source, low, high, target, action):  # type: ignore[no-untyped-def]
    out, counts = _out_of(context), _counts_of(context)
    at = counts[_EDGES]
    out[at, OWNER], out[at, SOURCE], out[at, BYTE_LOW], out[at, BYTE_HIGH] = rule, source, low, high
    out[at, TARGET], out[at, ACTION] = target, action
    counts[_EDGES] = at + 1
    counts[_CHARACTERS] += 1 if low >= CHARACTER else 0


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _characters(context, rule, source, low, high, target):  # type: ignore[no-untyped-def]
    for least, most in _PIECES:
        first, last = max(low, _i8(least)), min(high, _i8(most))
        if first <= last:
            _edge(context, rule, source, CHARACTER + first, CHARACTER + last, target, _i8(0))


@inner(_i8(CONTEXT_TYPE, _i8))
def _node(context, code):  # type: ignore[no-untyped-def]
    nodes, counts = _nodes_of(context), _counts_of(context)
    at = counts[_NODES]
    nodes[at, _CODE], nodes[at, _CHILD], nodes[at, _LAST] = code, -1, -1
    nodes[at, _SIBLING], nodes[at, _NAME] = -1, -1
    counts[_NODES] = at + 1
    return _i8(at)


@inner(types.void(CONTEXT_TYPE, _i88, _i8, _i8))
def _grow(context, names, first, last):  # type: ignore[no-untyped-def]
    """The trie of names [first, last), which ascend: a name shares a beginning with the one before it."""
    nodes, path, letters, counts = _nodes_of(context), _path_of(context), _letters_of(context), _counts_of(context)
    counts[_NODES] = 0
    path[0] = _node(context, _i8(-1))
    for n in range(first, last):
        begin, length, same = names[n, NAME_BEGIN], names[n, NAME_END] - names[n, NAME_BEGIN], _i8(0)
        if n > first:
            before = names[n - 1, NAME_BEGIN]
            most = min(length, names[n - 1, NAME_END] - before)
            while same < most and letters[before + same] == letters[begin + same]:
                same += 1
        for depth in range(same, length):
            above, node = path[depth], _node(context, letters[begin + depth])
            if nodes[above, _CHILD] < 0:
                nodes[above, _CHILD] = node
            else:
                nodes[nodes[above, _LAST], _SIBLING] = node
            nodes[above, _LAST] = node
            path[depth + 1] = node
        nodes[path[length], _NAME] = n


@inner(types.void(CONTEXT_TYPE, _i88, _i8, _i8, _i8, _i8))
def _edges_of(context, names, rule, start, node, others):  # type: ignore[no-untyped-def]
    """Edges of one node of the trie. others: the state behind the quote of every other key, negative for none."""
    nodes, sink = _nodes_of(context), start + _counts_of(context)[_NODES]
    name, source, at = nodes[node, _NAME], start + node, _i8(0)
    if name >= 0 and names[name, NAME_KEY] >= 0:
        _edge(context, rule, source, _i8(_QUOTE), _i8(_QUOTE), names[name, NAME_TARGET], KEY + names[name, NAME_KEY])
    elif name < 0 and others >= 0:
        _edge(context, rule, source, _i8(_QUOTE), _i8(_QUOTE), others, _i8(CLOSE_KEY))
    child = nodes[node, _CHILD]
    while child >= 0:
        code = nodes[child, _CODE]
        if others >= 0:
            _characters(context, rule, source, at, code - 1, sink)
        _edge(context, rule, source, CHARACTER + code, CHARACTER + code, start + child, _i8(0))
        at, child = code + 1, nodes[child, _SIBLING]
    if others >= 0:
        _characters(context, rule, source, at, _i8(0x10FFFF), sink)


@entry(types.void(CONTEXT_TYPE, _i88, _i88, _i8s, _i8s))
def _write_names(context, edges, names, others, states):  # type: ignore[no-untyped-def]
    """Fills `out` with the edges of all rules and of their keys, and adds to their states."""
    counts, e, n = _counts_of(context), 0, 0
    for rule in range(states.size):
        while e < edges.shape[0] and edges[e, OWNER] == rule:
            _edge(context, _i8(rule), edges[e, SOURCE], edges[e, BYTE_LOW], edges[e, BYTE_HIGH], edges[e, TARGET],
                  edges[e, ACTION])
            e += 1
        if others[rule] == NO_NAMES:
            continue
        first = n
        while n < names.shape[0] and names[n, NAME_RULE] == rule:
            n += 1
        _grow(context, names, _i8(first), _i8(n))
        start, size = states[rule] - 1, counts[_NODES]
        for node in range(size):
            _edges_of(context, names, _i8(rule), start, _i8(node), others[rule])
        if others[rule] >= 0:
            _edge(context, _i8(rule), start + size, _i8(_QUOTE), _i8(_QUOTE), others[rule], _i8(CLOSE_KEY))
            _characters(context, _i8(rule), start + size, _i8(0), _i8(0x10FFFF), start + size)
        states[rule] = start + size + (1 if others[rule] >= 0 else 0)
