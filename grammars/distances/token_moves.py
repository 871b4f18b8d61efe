"""What every token does in an automaton whose long repetitions are counted by registers: the moves of token_paths.py.

The automaton is a rule without register that calls rules which count and call nothing, each of them in one place; or it
is one rule, with such a register or none. Bytes that it does not tell apart are taken together first, and then tokens
that end alike, so that a class of many letters costs no more than one letter; where too many are told apart, states
have few ways out, and the tokens are read as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    Context,
    Part,
    byte_of,
    calls_of,
    depth_of,
    edges_of,
    go_of,
    rules_of,
    size_of,
    states_of,
    token_of,
)
from ..binding.tables import CALLEE, CALLS, CALLS_END, COUNTER, FINAL, HIGH, KIND, LOW, RULE, Tables
from ..binding.trie import Trie
from ..jit import entry, inner

_i8, _u1, _i4, _i44, _i8s = types.int64, types.uint8[::1], types.int32[::1], types.int32[:, ::1], types.int64[::1]
_NODES, _CELLS = 1 << 17, 1 << 21  # of the vocabulary over classes; these times classes
# Past one of these nothing is found: looks at an edge of the vocabulary; moves; places to go on from.
_STEPS, _MOVES, _PLACES = 3_000_000, 1 << 18, 1 << 14
_SAMPLE = 24  # states after which it can be told that all would take more
_LONGEST = 256  # bytes of a token that is read
_KNOWN, _SEEN = 1 << 13, 1 << 16  # moves that were just found, places that were just met
STAYS = -1
_HERE = -1  # in a place: the token is still in the frame in which it began
_STATE, _OWN, _LEFT, _NODE = 0, 1, 2, 3  # of a place

_READING = Part()  # of TokenGraph; `behind`; room
_first_of, _label_of, _to_of = _READING.array(_i4), _READING.array(_u1), _READING.array(_i4)
_ends_of = _READING.array(_u1)
_behind_of, _places_of = _READING.array(_i4), _READING.array(_i44, 4)
_moves_of, _known_of, _seen_of = _READING.array(_i44, 4), _READING.array(_i44, 4), _READING.array(_i8s)
_steps_of = _READING.array(_i8s)
_READING.complete()


class TokenGraph(NamedTuple):
    """The tokens over classes of bytes. Edges [first[n], first[n + 1]) of node n: label, a class, and the node `to`.
    ends: 1 where a token does. The root is the last node."""

    first: Any
    label: Any
    to: Any
    ends: Any


def read_tokens(context: Context, tables: Tables, trie: Trie, behind: Any) -> Any:
    """int32 [n, 4], each once: (state, counts, state after a token, counts there); None past a budget. `counts` are
    those that the token takes in the frame where it begins; the last number is STAYS when it ends there, else what the
    frame where it ends has counted. behind: int32, by rule, the state behind its call, -1 for none. context: holds
    tables and trie.
    """
    moves = np.empty((_MOVES, 4), np.int32)
    reading = Context(_READING.end)
    reading.put(_READING, (*_graph(context, tables, trie), behind, np.empty((_PLACES, 4), np.int32), moves,
                           np.full((_KNOWN, 4), -1, np.int32), np.full(_SEEN, -1, np.int64), np.array([_STEPS])))
    count = int(_read_all(context.address, reading.address))
    return None if count < 0 else np.unique(moves[:count], axis=0)


def _graph(context: Context, tables: Tables, trie: Trie) -> TokenGraph:
    width = tables.go.shape[1]
    useful = (tables.go != -1).any(axis=0).astype(np.uint8)
    room = min(_NODES, _CELLS // width)
    child, ends, path = np.zeros((room, width), np.int32), np.zeros(room, np.uint8), np.zeros(_LONGEST, np.int32)
    nodes = int(_over_classes(context.address, tables.classes, useful, child, ends, path))
    if nodes < 0:
        return _as_they_are(context, tables, trie, useful)
    graph = TokenGraph(np.zeros(nodes + 1, np.int32), np.empty(nodes, np.uint8), np.empty(nodes, np.int32),
                       np.empty(nodes, np.uint8))
    slots = np.full(1 << nodes.bit_length() + 1, -1, np.int32)
    count = int(_merge(child, ends, np.empty(nodes, np.int32), slots, *graph))
    return graph._replace(first=graph.first[: count + 1].copy())


def _as_they_are(context: Context, tables: Tables, trie: Trie, useful: Any) -> TokenGraph:
    """Its nodes are those of the trie."""
    count = len(trie.byte)
    graph = TokenGraph(np.zeros(count + 2, np.int32), np.empty(count, np.uint8), np.empty(count, np.int32),
                       np.append(trie.token >= 0, False).astype(np.uint8))
    path = np.full(int(trie.depth.max(initial=0)) + 1, count, np.int32)
    _enter_trie(context.address, tables.classes, useful, graph.first, graph.label, graph.to, path)
    return graph


@entry(types.void(CONTEXT_TYPE, _u1, _u1, _i4, _u1, _i4, _i4))
def _enter_trie(context, classes, useful, first, label, to, path):  # type: ignore[no-untyped-def]
    """Fills a TokenGraph, `first` at first 0, from the trie. path: room, by depth, at first the root's number."""
    byte, depth, size = byte_of(context), depth_of(context), size_of(context)
    for turn in range(2):
        i = 0
        while i < byte.size:
            c, above = classes[byte[i]], path[depth[i] - 1]
            if useful[c] == 0:
                i += size[i]
                continue
            if turn == 0:
                first[above] += 1
            else:
                first[above] -= 1
                label[first[above]], to[first[above]] = c, i
            path[depth[i]] = i
            i += 1
        for n in range(1, first.size if turn == 0 else 0):
            first[n] += first[n - 1]


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


@entry(_i8(_i44, _u1, _i4, _i4, _i4, _u1, _i4, _u1))
def _merge(child, ends, merged, slots, first, label, to, kept):  # type: ignore[no-untyped-def]
    """Fills a TokenGraph from a trie; nodes with equal subtrees become one. Returns how many there are. merged: room,
    by node of the trie, the children of which have higher numbers; slots: -1, a power of two."""
    count = 0
    for n in range(merged.size - 1, -1, -1):
        begin, digest = first[count], _i8(ends[n])
        end = begin
        for c in range(child.shape[1]):
            if child[n, c] > 0:
                label[end], to[end] = c, merged[child[n, c]]
                digest = (digest * 1_000_003 + c * 8_191 + to[end]) & 0x3FFFFFFFFFFF
                end += 1
        slot = (digest ^ (digest >> 17)) & (slots.size - 1)
        while slots[slot] >= 0:
            other = slots[slot]
            same = kept[other] == ends[n] and first[other + 1] - first[other] == end - begin
            for k in range(end - begin if same else 0):
                at = first[other] + k
                same = same and label[at] == label[begin + k] and to[at] == to[begin + k]
            if same:
                break
            slot = (slot + 1) & (slots.size - 1)
        if slots[slot] < 0 or n == 0:
            slots[slot], kept[count], first[count + 1] = count, ends[n], end
            count += 1
        merged[n] = slots[slot]
    return _i8(count)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _read(context, reading, end, state, own, left, c):  # type: ignore[no-untyped-def]
    """Adds where an edge of `state` leads on class c as place number `end`; returns the new end."""
    states, rules, edges, places = states_of(context), rules_of(context), edges_of(context), _places_of(reading)
    target = go_of(context)[state, c]
    if target == -1 or end >= places.shape[0]:
        return end
    if target <= -2:
        target, high = edges[-2 - target, 1], rules[states[state, RULE], HIGH]
        own += 1
        if high >= 0 and own > high:
            return end
    place = places[end]
    place[_STATE], place[_OWN], place[_LEFT] = target, own, left
    return end + 1


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _read_place(context, reading, end, state, own, left, c):  # type: ignore[no-untyped-def]
    """Adds where a place leads on class c from `end` on; returns the new end."""
    states, rules, calls = states_of(context), rules_of(context), calls_of(context)
    end = _read(context, reading, end, state, own, left, c)
    if states[state, KIND] == COUNTER:
        behind = _i8(_behind_of(reading)[states[state, RULE]])
        if states[state, FINAL] == 0 or behind < 0 or (left != _HERE and own < rules[states[state, RULE], LOW]):
            return end
        left = own if left == _HERE else left
        state, own = behind, _i8(0)
        end = _read(context, reading, end, state, own, left, c)
    for call in range(states[state, CALLS], states[state, CALLS_END]):
        end = _read(context, reading, end, _i8(calls[call, CALLEE]), _i8(0), left, c)
    return end


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _note(reading, source, state, own, left, count):  # type: ignore[no-untyped-def]
    """Adds the move from `source` to a place, unless it was just found; returns how many moves there are."""
    known, moves = _known_of(reading), _moves_of(reading)
    counts = own if left == _HERE else left
    counted = _i8(STAYS) if left == _HERE else own
    slot = known[(state * 31 + counts * 1021 + counted * 65_537) & (known.shape[0] - 1)]
    if slot[0] == source and slot[1] == counts and slot[2] == state and slot[3] == counted:
        return count
    if count < moves.shape[0]:
        row = moves[count]
        slot[0], slot[1], slot[2], slot[3] = source, counts, state, counted
        row[0], row[1], row[2], row[3] = source, counts, state, counted
    return count + 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _met(reading, source, state, own, left, node):  # type: ignore[no-untyped-def]
    """Whether a place before a node was just met from `source`; from now on it was. Those with one digest, of 60 bits,
    are taken for one: a way less is a bound that is not the least."""
    seen = _seen_of(reading)
    digest = ((left * 1_021 + own) * 1_048_583 + state) * 2_097_169 + source
    digest = (digest * 0x9E3779B97F4A7C1 + node) * 0x2545F4914F6CDD1 & 0xFFFFFFFFFFFFFFF
    slot = (digest >> 20) & (seen.size - 1)
    same = seen[slot] == digest
    seen[slot] = digest
    return same


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _read_from(context, reading, source, count):  # type: ignore[no-untyped-def]
    """Adds the moves of a state; returns how many there are, -1 past a budget."""
    states, places, steps = states_of(context), _places_of(reading), _steps_of(reading)
    first, label, to, ends = _first_of(reading), _label_of(reading), _to_of(reading), _ends_of(reading)
    go, place = go_of(context), places[0]
    place[_STATE], place[_OWN], place[_NODE] = source, 0, first.size - 2
    place[_LEFT] = _HERE if states[source, KIND] == COUNTER else 0
    top = _i8(1)
    while top > 0:
        top -= 1
        place = places[top]
        state, own, left, node = _i8(place[_STATE]), _i8(place[_OWN]), _i8(place[_LEFT]), place[_NODE]
        simple = states[state, KIND] != COUNTER and states[state, CALLS] == states[state, CALLS_END]
        steps[0] -= first[node + 1] - first[node]
        for e in range(first[node], first[node + 1]):
            if simple and go[state, label[e]] == -1:
                continue
            end = _read_place(context, reading, top, state, own, left, _i8(label[e]))
            if end >= places.shape[0] - 1:
                return _i8(-1)
            goal, begin = _i8(to[e]), top
            for at in range(begin, end):
                now, counted, gone = _i8(places[at, _STATE]), _i8(places[at, _OWN]), _i8(places[at, _LEFT])
                if ends[goal] == 1:
                    count = _note(reading, source, now, counted, gone, count)
                if first[goal] < first[goal + 1] and not _met(reading, source, now, counted, gone, goal):
                    row = places[top]
                    row[_STATE], row[_OWN], row[_LEFT], row[_NODE] = now, counted, gone, goal
                    top += 1
        if steps[0] < 0 or count > _moves_of(reading).shape[0]:
            return _i8(-1)
    return count


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE))
def _read_all(context, reading):  # type: ignore[no-untyped-def]
    """Fills the moves of all states; returns how many, -1 past a budget."""
    count, states, steps = _i8(0), states_of(context).shape[0], _steps_of(reading)
    budget = steps[0]
    for source in range(states):
        count = _read_from(context, reading, _i8(source), count)
        hopeless = source >= _SAMPLE and (budget - steps[0]) * states > 2 * budget * source
        if count < 0 or hopeless:
            return _i8(-1)
    return count
