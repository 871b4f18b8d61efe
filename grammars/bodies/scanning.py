"""A vocabulary scanned in the order of its trie for the nodes that matter: those whose byte does not just lead back.

Where a state repeats, most of what lies below a node changes nothing. One byte for each node, its *kind*, says what its
byte is: of which group (body_steps.py), and above ASCII whether all of the characters that it begins are whole. The
kinds of sixteen nodes are one word, so a scan passes them in a nanosecond, where a step to one costs thirty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, Context, Part, byte_of, depth_of, token_of
from ..binding.trie import Bytes, Int32s, Trie
from ..jit import entry, inner
from .body_steps import RAGGED, SPACES, WHOLE, barred, byte_groups, is_white, missing

_i8, _i4, _u1, _i8s = types.int64, types.int32[::1], types.uint8[::1], types.int64[::1]
_i88 = types.int64[:, ::1]

SCAN = Part()
kind_of, blocks_of, before_of = SCAN.array(_u1), SCAN.array(_i8s), SCAN.array(_i4)
SCAN.complete()

_BLOCK = 4  # bits of a node's number in its block
_OPEN = 64  # a kind not known yet: of a byte behind which its character goes on


class Scan(NamedTuple):
    """kind: [nodes] as above. blocks: those of each sixteen nodes, as bits. before: [nodes + 1] how many tokens come
    before each."""

    kind: Bytes
    blocks: Any
    before: Int32s

    def context(self) -> Context:
        """A context of its own for these."""
        found = Context(SCAN.end)
        found.put(SCAN, self)
        return found


@entry(types.void(CONTEXT_TYPE, _u1, _u1, _i88, _u1))
def _tell_kinds(context, groups, path, waiting, kinds):  # type: ignore[no-untyped-def]
    """Fills kinds, by node. groups: of bytes; path, waiting: room, zeros, by depth and two more."""
    byte, depth, token = byte_of(context), depth_of(context), token_of(context)
    for i in range(byte.size):
        d, b = depth[i], _i8(byte[i])
        path[d - 1] = b
        left, more = waiting[d - 1, 0] if d > 1 else _i8(0), missing(b)
        if b & 0xC0 != 0x80:
            more = more if left == 0 else _i8(-1)
        elif left > 0 and barred(_i8(path[d - 2])) & (1 if b < 0x90 else 2 if b < 0xA0 else 4) == 0:
            more = left - 1
        waiting[d, 0] = more
        kinds[i] = RAGGED if more < 0 else _OPEN if more > 0 else groups[b]
        if more == 0 and b >= 0x80:
            kinds[i] = SPACES if is_white(path, _i8(d)) else WHOLE
    for k in range(byte.size):
        i = byte.size - 1 - k
        d = depth[i]
        if kinds[i] == _OPEN:
            below = waiting[d + 1, 1]
            ragged = token[i] >= 0 or (below >> RAGGED) & 1 == 1
            kinds[i] = RAGGED if ragged else SPACES if (below >> SPACES) & 1 == 1 else WHOLE
        waiting[d, 1] |= _i8(1) << kinds[i]
        waiting[d + 1, 1] = 0


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def next_apart(scan, i, end, kinds):  # type: ignore[no-untyped-def]
    """The first of the nodes [i, end) that is none of these kinds, as bits; `end` without one."""
    kind, blocks = kind_of(scan), blocks_of(scan)
    while i < end:
        block = i >> _BLOCK
        after = min((block + 1) << _BLOCK, end)
        if blocks[block] & ~kinds != 0:
            while i < after:
                if (kinds >> kind[i]) & 1 == 0:
                    return i
                i += 1
        i = after
    return i


def scan_of(context: int, trie: Trie, before: Int32s, longest: int) -> Scan:
    """The scan of the trie that a context begins with, whose tokens are `longest` at most."""
    kinds, groups, nodes = np.zeros(len(trie.byte), np.uint8), byte_groups(), len(trie.byte)
    _tell_kinds(context, groups, np.zeros(longest + 2, np.uint8), np.zeros((longest + 2, 2), np.int64), kinds)
    blocks = np.zeros((nodes >> _BLOCK) + 1, np.int64)
    np.bitwise_or.at(blocks, np.arange(nodes) >> _BLOCK, np.int64(1) << kinds.astype(np.int64))
    return Scan(kinds, blocks, before)
