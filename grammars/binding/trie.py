"""The byte trie of a vocabulary, flat and in depth-first order, so that a walk is one loop and a skip one addition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types

Int32s = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

_i4, _u1, _i8 = types.int32[::1], types.uint8[::1], types.int64


# What a JSON string holds unescaped, of ASCII: most tokens are made of these, and states that take one loop on all.
PLAIN_BYTES = bytes(b for b in range(0x20, 0x7F) if b not in b'"\\')


SIZE, TOKEN, PLACE, WHAT = 0, 1, 2, 3  # columns of `nodes`
PLAIN = LAST = 1 << 8  # beside the byte in WHAT, and in `spelt`
DEEP = 9  # the bit of WHAT from which on it is the depth


class Trie(NamedTuple):
    """Node i: byte[i] at depth[i] (1 for a first byte); its subtree is [i, i + size[i]).

    token[i]: the least id that ends here, -1 for none. twin[t]: the next id with the same bytes as t, -1 for none.
    plain[i]: 1 when the bytes of the whole subtree are PLAIN_BYTES.
    The same for walks that skip most of it: nodes[i] is size, token, i's place in `kids`, and its byte with PLAIN and
    the depth beside it, in one piece of memory. kids: the nodes by depth, so that siblings are neighbours; spelt: their
    bytes, LAST beside that of a last sibling.
    """

    byte: Bytes
    depth: Int32s
    size: Int32s
    token: Int32s
    twin: Int32s
    plain: Bytes
    nodes: Int32s
    kids: Int32s
    spelt: npt.NDArray[np.uint16]


@njit(_i8(_u1, types.int64[::1], _i4, _u1, _i4, _i4, _i4, _i4), cache=True, nogil=True)
def _fill(text, ends, ids, byte, depth, size, token, twin):  # type: ignore[no-untyped-def]
    """Lays the sorted tokens out as nodes; returns how many. Twins are neighbours in the sorted order."""
    longest = 1
    begin = 0
    for k in range(ends.size):
        longest = max(longest, ends[k] - begin)
        begin = ends[k]
    path = np.empty(longest + 1, np.int32)
    nodes, height, begin, before = 0, 0, 0, 0
    last = -1
    for k in range(ends.size):
        length = ends[k] - begin
        same = 0
        while same < min(length, height) and text[begin + same] == text[before + same]:
            same += 1
        for d in range(same, height):
            size[path[d]] = nodes - path[d]
        height = same
        while height < length:
            byte[nodes] = text[begin + height]
            depth[nodes] = height + 1
            token[nodes] = -1
            path[height] = nodes
            nodes += 1
            height += 1
        node = path[length - 1]
        if token[node] < 0:
            token[node] = ids[k]
        else:
            twin[last] = ids[k]
        last = ids[k]
        before, begin = begin, ends[k]
    for d in range(height):
        size[path[d]] = nodes - path[d]
    return nodes


@njit(types.void(_u1, _i4, _i4, _i4, _u1, types.int32[:, ::1], _i4, types.uint16[::1], types.int64[::1]), cache=True,
      nogil=True)
def _complete(byte, depth, size, token, plain, nodes, kids, spelt, first):  # type: ignore[no-untyped-def]
    """Fills what a Trie says beside the first four. first: zeros, by depth, up to one more than the greatest."""
    count = byte.size
    for i in range(count):
        first[depth[i] + 1] += 1
        plain[i] = 1 if 0x20 <= byte[i] < 0x7F and byte[i] != 0x22 and byte[i] != 0x5C else 0
    for d in range(1, first.size):
        first[d] += first[d - 1]
    for i in range(count):
        place = first[depth[i]]
        first[depth[i]] += 1
        after = i + size[i]
        last = after >= count or depth[after] != depth[i]
        kids[place], spelt[place] = i, byte[i] + (LAST if last else 0)
        nodes[i, SIZE], nodes[i, TOKEN], nodes[i, PLACE] = size[i], token[i], place
    for k in range(count):
        i = count - 1 - k
        child = i + 1
        while child < i + size[i]:
            plain[i] &= plain[child]
            child += size[child]
        nodes[i, WHAT] = byte[i] + PLAIN * plain[i] + (depth[i] << DEEP)


@njit(_i8(_u1, _i4, _u1, _i8, _i8), cache=True, nogil=True)
def _find(byte, size, text, low, high):  # type: ignore[no-untyped-def]
    node, end = 0, byte.size
    for k in range(low, high):
        while node < end and byte[node] != text[k]:
            node += size[node]
        if node >= end:
            return -1
        if k + 1 == high:
            return node
        end = node + size[node]
        node += 1
    return -1


def find_node(trie: Trie, text: Bytes, low: int, high: int) -> int:
    """The node of the bytes text[low:high] (not empty), or -1."""
    return int(_find(trie.byte, trie.size, text, low, high))


def build_trie(tokens: Sequence[bytes], ids: Sequence[int], width: int) -> Trie:
    """The trie of tokens[id] for id in ids (none of them empty); width: size of the `twin` table."""
    order = sorted(sorted(ids), key=tokens.__getitem__)
    text = np.frombuffer(b"".join(tokens[i] for i in order), np.uint8)
    ends = np.cumsum(np.array([len(tokens[i]) for i in order], np.int64), dtype=np.int64)
    byte = np.empty(text.size, np.uint8)
    depth, size, token = (np.empty(text.size, np.int32) for _ in range(3))
    twin = np.full(width, -1, np.int32)
    nodes = _fill(text.copy(), ends, np.array(order, np.int32), byte, depth, size, token, twin)
    return trie_of(byte[:nodes].copy(), depth[:nodes].copy(), size[:nodes].copy(), token[:nodes].copy(), twin)


def trie_of(byte: Bytes, depth: Int32s, size: Int32s, token: Int32s, twin: Int32s) -> Trie:
    """The trie of these nodes, which lie in depth-first order."""
    count = len(byte)
    plain, nodes = np.empty(count, np.uint8), np.empty((count, 4), np.int32)
    kids, spelt = np.empty(count, np.int32), np.empty(count, np.uint16)
    _complete(byte, depth, size, token, plain, nodes, kids, spelt, np.zeros(int(depth.max(initial=0)) + 2, np.int64))
    return Trie(byte, depth, size, token, twin, plain, nodes, kids, spelt)


def heads(trie: Trie) -> Int32s:
    """[65792] the node of each byte, and at 256 + 256 * a + b that of each two bytes; -1 for none."""
    found = np.full(256 + 65536, -1, np.int32)
    first, second = np.flatnonzero(trie.depth == 1), np.flatnonzero(trie.depth == 2)
    found[trie.byte[first]] = first
    above = trie.byte[first[np.searchsorted(first, second) - 1]].astype(np.int64) if len(second) else second
    found[256 + 256 * above + trie.byte[second]] = second
    return found
