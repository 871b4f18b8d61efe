"""Loops: what the vocabulary holds of a state that repeats, whichever it is: the tokens that stay in it, as a row, and
behind those that leave it what follows, as one trie.

A loop is told by a node of the vocabulary's trie, the bytes that may come first there, and those that go on. What is
behind the place of leaving is the same few texts for most tokens (`(`, `.`, `=`, `":`); so a state that repeats costs a
row and a walk of some hundred nodes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, LOOP, TRIE, Context, byte_of, depth_of, size_of
from ..binding.trie import Trie
from ..jit import entry, inner
from .body_steps import SPACES
from .body_store import BodyStore
from .body_tails import overlaid
from .body_walk import AT, BEFORE, WITH
from .hubs import ALL, DEAD, DEAD_GROUPS, DIGITS, LETTERS, OTHERS, UTF8, WHOLE
from .scanning import before_of, next_apart

_TOUCHED = 1 << 13  # of room, that have their memory before they are needed
_WORTH = 1 << 10  # nodes of the vocabulary
_KEPT = 256  # loops remembered
_FEW = 512  # tokens up to which they are a list and no row
_NOTHING = np.zeros(0, np.int32)
_GROUPS = ((LETTERS, (0x41, 0x5B)), (LETTERS, (0x61, 0x7B)), (DIGITS, (0x30, 0x3A)), (OTHERS, (0x80, 0x100)))

_i8, _u1, _i4, _u4 = types.int64, types.uint8[::1], types.int32[::1], types.uint32[::1]
_i44 = types.int32[:, ::1]


@inner(_i8(_i4, _i44, _i8, _i8, _i8))
def _add(before, ranges, count, low, high):  # type: ignore[no-untyped-def]
    """Adds the tokens of the nodes [low, high) to ranges[:count]; returns how many there are."""
    begin, end = before[low], before[high]
    if begin == end:
        return count
    if count > 0 and ranges[count - 1, 1] == begin:
        ranges[count - 1, 1] = end
        return count
    ranges[count, 0], ranges[count, 1] = begin, end
    return count + 1


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _u1, _u1, _u1, _i8, _i8, _i44, _i44, _i4))
def _cut(trie, scan, node, first, then, behind, kind, free, inside, ranges, exits):  # type: ignore[no-untyped-def]
    """Fills in which tokens stay, as ranges of those in the trie's order, and exits, the nodes at which another byte
    follows, for the texts that begin with the bytes of a node (-1: none). behind: the bytes that may do so. kind: of
    characters that stay (hubs.WHOLE). free: the kinds of nodes (scanning.py) that stay, as bits. inside: room. Returns
    how many ranges + exits << 32."""
    byte, depth, size, before = byte_of(trie), depth_of(trie), size_of(trie), before_of(scan)
    i, end, count, left = _i8(node + 1), _i8(byte.size if node < 0 else node + size[node]), _i8(0), 0
    inside[:, 1] = 0  # by depth: where in a character, and up to which node that holds
    while i < end:
        stop, begin, d = _i8(i + size[i]), i, depth[i]
        if first[byte[i]] == 0:
            i = stop
            continue
        inside[d, 0] = UTF8[kind, 0, byte[i]] if kind > 0 and 0xC2 <= byte[i] < 0xF5 else 0
        inside[d, 1] = stop
        i = next_apart(scan, i + 1, stop, free)
        while i < stop:
            d, b, now, after = depth[i], byte[i], 0, i + 1
            since = inside[d - 1, 0] if i < inside[d - 1, 1] else 0
            if since > 0 or then[b] == 0:
                now = UTF8[kind, since, b] if kind > 0 else DEAD
            if now != DEAD:
                inside[d, 0], inside[d, 1] = now, i + size[i]
            else:
                count = _add(before, ranges, count, begin, i)
                if since == 0 and behind[b] == 1:
                    exits[left] = i
                    left += 1
                after = begin = _i8(i + size[i])
            i = next_apart(scan, after, stop, free)
        count = _add(before, ranges, count, begin, stop)
    return _i8(count + (left << 32))


@entry(types.void(_i4, _i44, _i8, _u4))
def _fill(listed, ranges, all_but, row):  # type: ignore[no-untyped-def]
    """Sets the bits of the tokens listed in these ranges; or clears those of all others, where all are set."""
    at = 0
    for k in range(ranges.shape[0] + all_but):
        begin, end = at, listed.size
        if k < ranges.shape[0]:
            begin, end = (at, ranges[k, 0]) if all_but == 1 else (ranges[k, 0], ranges[k, 1])
            at = ranges[k, 1]
        for token in listed[begin:end]:
            bit = np.uint32(1) << np.uint32(token & 31)
            row[token >> 5] = row[token >> 5] & ~bit if all_but == 1 else row[token >> 5] | bit


class Loop(NamedTuple):
    """row: uint32 [words], or empty where tokens is the list of all. ids: those that leave, in the first column, by
    their number in the trie of what follows. context: of all of it."""

    row: Any
    tokens: Any
    ids: Any
    trie: Trie
    context: Context


class Loops:
    """The loops of one vocabulary, made when they are wanted, the least recently used forgotten."""

    def __init__(self, bodies: BodyStore, worth: int = _WORTH) -> None:
        """bodies: those of the vocabulary, for what they know of its nodes. worth: nodes from which on a loop pays."""
        self.worth = worth
        self._trie, self._listing, self._scan, self._groups = bodies.trie, bodies.listing, bodies.scanned, bodies.groups
        self._context = Context(TRIE.end)
        self._context.put(TRIE, self._trie)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], Loop] = OrderedDict()
        nodes = len(self._trie.byte)
        self._ranges, self._exits = np.zeros((nodes + 1, 2), np.int32), np.zeros(nodes, np.int32)
        self._ranges[:_TOUCHED], self._exits[:_TOUCHED] = 0, 0
        self._path, self._inside = (np.zeros((bodies.longest + 2, columns), np.int32) for columns in (5, 2))

    def get(self, node: int, first: Sequence[int], then: Sequence[int]) -> Loop:
        """The loop at a node (-1: none) whose first byte is in a set of four words, the others as `loop_sets` tells
        (hubs.py)."""
        key = (node, tuple(first), tuple(then))
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = self._make(node, _spread(first), _spread(then[:WHOLE]), then[WHOLE],
                                                     then[DEAD_GROUPS])
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return found

    def _make(self, node: int, first: Any, then: Any, kind: int, dead: int) -> Loop:
        behind, groups = np.ones(256, np.uint8), np.ones(64, bool)
        for group, (begin, end) in _GROUPS:
            if dead & group:
                behind[begin:end] = 0
        groups[self._groups[:0x80][then[:0x80] == 0]] = False
        groups[SPACES:] = kind == ALL, kind > 0, False
        free = int(np.packbits(groups, bitorder="little").view(np.int64)[0])
        found = int(_cut(self._context.address, self._scan.address, node, first, then, behind, kind, free, self._inside,
                         self._ranges, self._exits))
        row, tokens = self._staying(self._ranges[: found & 0xFFFFFFFF])
        ids, trie = self._tails(self._exits[: found >> 32])
        context = Context(LOOP.end + TRIE.end)
        context.put(LOOP, (row, tokens, ids))
        context.put(TRIE, trie, LOOP.end)
        return Loop(row, tokens, ids, trie, context)

    def _staying(self, ranges: Any) -> tuple[Any, Any]:
        """(row, tokens) of a loop."""
        listing, amount = self._listing, int((ranges[:, 1] - ranges[:, 0]).sum())
        if amount <= _FEW:
            listed = [listing.tokens[begin:end] for begin, end in ranges.tolist()]
            return np.zeros(0, np.uint32), np.concatenate([_NOTHING, *listed])
        most = 2 * amount > len(listing.tokens)
        row = listing.every.copy() if most else np.zeros_like(listing.every)
        _fill(listing.tokens, ranges.copy(), int(most), row)
        return row, _NOTHING

    def _tails(self, exits: Any) -> tuple[Any, Trie]:
        """(ids, trie) of what follows these nodes."""
        ends, before, at = exits + self._trie.size[exits], self._listing.before, np.zeros((len(exits), 4), np.int32)
        at[:, AT], at[:, WITH] = exits, BEFORE
        ids = np.zeros((int((before[ends] - before[exits]).sum()), 2), np.int32)
        return ids, overlaid(self._context.address, at, self._path, ids, int((ends - exits).sum()))


def _spread(words: Sequence[int]) -> Any:
    """uint8 [256]: 1 for the bytes of a set of four words."""
    return np.unpackbits(np.array(words, np.int64).view(np.uint8), bitorder="little")
