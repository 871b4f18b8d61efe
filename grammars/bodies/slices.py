"""Slices of a vocabulary: the tokens of one byte of a set and then any bytes of another, as a finished row.

What an identifier or a word may be is a few such rows in every grammar; only the tokens that leave them need a walk.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from ..binding.context import CONTEXT_TYPE, TRIE, Context, byte_of, depth_of, size_of, token_of, twin_of
from ..binding.trie import Trie
from ..jit import entry

_KEPT = 128  # slices remembered

_i8, _u1, _i4, _u4 = types.int64, types.uint8[::1], types.int32[::1], types.uint32[::1]


class Slice(NamedTuple):
    """words: uint32, the bits of the tokens. exits: the trie nodes after such a text at which another byte follows."""

    words: npt.NDArray[np.uint32]
    exits: npt.NDArray[np.int32]


@entry(_i8(CONTEXT_TYPE, _i8, _u1, _u1, _u4, _i4))
def _cut(trie, node, first, then, words, exits):  # type: ignore[no-untyped-def]
    """Fills words and exits for the texts that begin with the bytes of a node; returns how many exits there are."""
    byte, depth, size, token, twin = byte_of(trie), depth_of(trie), size_of(trie), token_of(trie), twin_of(trie)
    i, end, found = node + 1, byte.size if node < 0 else node + size[node], 0
    top = 1 if node < 0 else depth[node] + 1
    while i < end:
        if depth[i] == top and first[byte[i]] == 0:
            i += size[i]
            continue
        if depth[i] > top and then[byte[i]] == 0:
            exits[found] = i
            found += 1
            i += size[i]
            continue
        ends = token[i]
        while ends >= 0:
            words[ends >> 5] |= np.uint32(1) << np.uint32(ends & 31)
            ends = twin[ends]
        i += 1
    return _i8(found)


class Slices:
    """The slices of one vocabulary, made when they are wanted, the least recently used forgotten."""

    def __init__(self, trie: Trie, words: int) -> None:
        self._trie = trie
        self._context = Context(TRIE.end)
        self._context.put(TRIE, trie)
        self._words = words
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, bytes, bytes], Slice] = OrderedDict()
        self._children: dict[int, npt.NDArray[np.int32]] = {}

    def get(self, node: int, first: npt.NDArray[np.bool_], then: npt.NDArray[np.bool_]) -> Slice:
        """The texts of a node (-1: none), one byte of `first` and any of `then`, both bool [256]."""
        key = (node, first.tobytes(), then.tobytes())
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
            words = np.zeros(self._words, np.uint32)
            exits = np.empty(len(self._trie.byte), np.int32)
            count = _cut(self._context.address, node, first.view(np.uint8), then.view(np.uint8), words, exits)
            found = self._kept[key] = Slice(words, exits[:count].copy())
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return found

    def children(self, node: int) -> npt.NDArray[np.int32]:
        """The nodes one byte below a node (-1: the first bytes)."""
        found = self._children.get(node)
        if found is None:
            depth, size = self._trie.depth, self._trie.size
            end = len(depth) if node < 0 else node + int(size[node])
            top = 1 if node < 0 else int(depth[node]) + 1
            below = np.flatnonzero(depth[node + 1: end] == top) + node + 1
            found = self._children[node] = below.astype(np.int32)
        return found
