"""What each byte does in each state of a body, as a table; and which bytes do nothing but lead back.

A step by the tables of a grammar is a dozen looks into memory, and the walk of a body takes a hundred thousand. Bytes
are taken together in groups, 64 at most, so that one word says which of them occur below a node of the vocabulary, and
another on which of them a state loops, or leads to the next of a line (one for each character that may follow, or that
counts it): where these are all, a subtree needs no steps. Above ASCII the groups are not of bytes: there are the white
space of ECMA-262 and other characters that are whole, behind which a string's state is that of any other character, and
whatever else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    byte_of,
    classes_of,
    depth_of,
    size_of,
    spelt_of,
    states_of,
    token_of,
    trie_nodes_of,
)
from ..binding.tables import FINAL
from ..binding.trie import LAST, PLACE, Bytes, Trie
from ..jit import entry, inner
from .body_walk import DEAD, borders, inside


def _ranges(*spelled: str) -> Any:
    """uint8 [n, 4, 2] from the bytes of characters, or their ranges, in hexadecimal."""
    found = np.zeros((len(spelled), 4, 2), np.uint8)
    for row, text in zip(found, spelled, strict=True):
        for place, part in zip(row, text.split(), strict=False):
            place[:] = int(part[:2], 16), int(part[-2:], 16)
    return found


# ASCII in groups that the usual classes of characters tell apart, and most letters by themselves
_GROUPS = (b"\n\r", b"\t", bytes({*range(32), 127} - {*b"\t\n\r"}),
           *(bytes([b]) for b in b" !\"#$%&'()*+,-./:;<=>?@[\\]_{}"), b"^`|~", b"0", b"123456789", b"ABCDEF",
           bytes(range(0x47, 0x5B)), b"qxz", *(bytes([b]) for b in b"abcdefghijklmnoprstuvwy"))
SPACES, WHOLE, RAGGED = 61, 62, 63  # groups above ASCII: white space, other whole characters, bytes of anything else
_SPACES, _WHOLE, _RAGGED = np.int64(1 << SPACES), np.int64(1 << WHOLE), np.int64(-1 << RAGGED)  # as bits
# Characters above ASCII, by the range of each of their bytes (0: no more of them).
_WHITE = _ranges("c2 a0", "e1 9a 80", "e2 80 80-8a", "e2 80 a8-a9", "e2 80 af", "e2 81 9f", "e3 80 80", "ef bb bf")
_OTHERS = _ranges("c2 80-9f", "c2 a1-bf", "c3-df 80-bf", "e0 a0-bf 80-bf", "e1 80-99 80-bf", "e1 9a 81-bf",
                  "e1 9b-bf 80-bf", "e2 80 8b-a7", "e2 80 aa-ae", "e2 80 b0-bf", "e2 81 80-9e", "e2 81 a0-bf",
                  "e2 82-bf 80-bf", "e3 80 81-bf", "e3 81-bf 80-bf", "e4-ec 80-bf 80-bf", "ed 80-9f 80-bf",
                  "ee 80-bf 80-bf", "ef 80-ba 80-bf", "ef bb 80-be", "ef bc-bf 80-bf", "f0 90-bf 80-bf 80-bf",
                  "f1-f3 80-bf 80-bf 80-bf", "f4 80-8f 80-bf 80-bf")

UNKNOWN = -3  # a step not looked at yet; others: DEAD, LEAVES, or 4 * target (local) + BORDER + 1 where it counts
BORDER = 2  # the body ends at the target
# columns of loops: groups that lead back; that lead along, each character to NEXT and so on; that lead nowhere; and
# 2 * the state to which most characters lead (local) + 1 where each counts, -1 for none
FREE, ALONG, NEVER, NEXT = 0, 1, 2, 3
# Columns of nodes, which lie as the trie's `kids`: the groups below a node, as bits, if a character ends there; its
# number in the trie and the nodes of its subtree; its first child, how many tokens end there, LAST for a last sibling
# and its byte; how many tokens come before it and before what follows its subtree. Each pair in one number.
BELOW, SPAN, DOWN, HELD = 0, 1, 2, 3
ENDING = 9  # in the lower half of DOWN, from which bit on
LOWER = (1 << 32) - 1
BYTE, BITS = 0, 1  # columns of an alphabet
# columns of what waits for a node while the nodes below it are looked at: the groups below it when so many bytes are
# missing to a whole character (0 to 3), and which of 80-8F, 90-9F and A0-BF come next
_NEXT = 4

_i8, _i4, _i44, _u1, _i88 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint8[::1], types.int64[:, ::1]


def byte_groups() -> Bytes:
    """[256] the group of each byte."""
    found = np.full(256, RAGGED, np.uint8)
    for number, group in enumerate(_GROUPS):
        found[np.frombuffer(group, np.uint8)] = number
    return found


@inner(_i8(_i8))
def missing(byte):  # type: ignore[no-untyped-def]
    """How many bytes follow this one in its character; -1 where none begins so."""
    if byte < 0x80:
        return _i8(0)
    if byte < 0xC2 or byte > 0xF4:
        return _i8(-1)
    return _i8(1 if byte < 0xE0 else 2 if byte < 0xF0 else 3)


@inner(_i8(_i8))
def begins(byte):  # type: ignore[no-untyped-def]
    """1 for a byte with which a character may begin."""
    return _i8(0 if byte & 0xC0 == 0x80 else 1)


@inner(_i8(_i8))
def barred(byte):  # type: ignore[no-untyped-def]
    """Which second bytes cannot follow a first one, of 80-8F (1), 90-9F (2) and A0-BF (4)."""
    if byte == 0xE0:
        return _i8(3)
    if byte == 0xED:
        return _i8(4)
    if byte == 0xF0:
        return _i8(1)
    return _i8(6 if byte == 0xF4 else 0)


@inner(types.boolean(_u1, _i8))
def is_white(path, d):  # type: ignore[no-untyped-def]
    """Whether the bytes before path[d] end in white space above ASCII."""
    for k in range(_WHITE.shape[0]):
        length = 2 if _WHITE[k, 2, 0] == 0 else 3
        same = d >= length
        for b in range(length if same else 0):
            same = same and _WHITE[k, b, 0] <= path[d - length + b] <= _WHITE[k, b, 1]
        if same:
            return True
    return False


@entry(types.void(CONTEXT_TYPE, _u1, _i4, _i88, _u1, _i88, _i4, types.int64[::1]))
def gather_nodes(context, groups, before, waiting, path, nodes, characters, letters):  # type: ignore[no-untyped-def]
    """Fills nodes (columns as above) for the context's trie. before: how many tokens come before each node; waiting:
    zeros [depth of the trie + 2, 5]; path: as many bytes; characters, letters: [nodes] filled with how many begin up to
    each, and the groups of those in ASCII."""
    byte, depth, size, token = byte_of(context), depth_of(context), size_of(context), token_of(context)
    trie_nodes, spelt = trie_nodes_of(context), spelt_of(context)
    for i in range(byte.size):
        path[depth[i] - 1] = byte[i]
        waiting[depth[i], 0] = waiting[depth[i] - 1, 0] + begins(_i8(byte[i])) if depth[i] > 1 else begins(_i8(byte[i]))
        letter = _i8(0) if byte[i] >= 0x80 else _i8(1) << groups[byte[i]]
        waiting[depth[i], 1] = waiting[depth[i] - 1, 1] | letter if depth[i] > 1 else letter
        characters[i], letters[i] = waiting[depth[i], 0], waiting[depth[i], 1]
        nodes[trie_nodes[i, PLACE], BELOW] = _SPACES if byte[i] >= 0x80 and is_white(path, _i8(depth[i])) else _WHOLE
    waiting[:, 0] = 0
    waiting[:, 1] = 0
    for k in range(byte.size):
        i = byte.size - 1 - k
        own, above, b = waiting[depth[i] + 1], waiting[depth[i]], _i8(byte[i])
        node = nodes[trie_nodes[i, PLACE]]
        kind, node[BELOW] = node[BELOW], own[0]
        node[SPAN], node[HELD] = _i8(i) << 32 | size[i], _i8(before[i]) << 32 | before[i + size[i]]
        node[DOWN] = _i8(before[i + 1] - before[i]) << ENDING | b
        if size[i] > 1:
            node[DOWN] |= _i8(trie_nodes[i + 1, PLACE]) << 32
        if spelt[trie_nodes[i, PLACE]] >= LAST:
            node[DOWN] |= LAST
        partial = _RAGGED if token[i] >= 0 else _i8(0)
        more = missing(b)
        if more == 0:
            above[0] |= own[0] | (_i8(1) << groups[b])
        elif more < 0 or own[_NEXT] & barred(b) != 0:
            above[0] |= _RAGGED
        else:
            above[0] |= own[more] | partial
        if b < 0x80 or b > 0xBF:
            for c in range(1, _NEXT):
                above[c] |= _RAGGED
        else:
            above[1] |= own[0] | kind
            above[2] |= own[1] | partial
            above[3] |= own[2] | partial
            above[_NEXT] |= 1 if b < 0x90 else 2 if b < 0xA0 else 4
        for c in range(5):
            own[c] = 0


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _alike(context, state, low, high):  # type: ignore[no-untyped-def]
    """What all bytes from low to high do inside a body, as `inside` says; negative when they are not alike."""
    classes, to = classes_of(context), inside(context, state, low)
    for byte in range(low + 1, high + 1):
        if classes[byte] != classes[byte - 1] and inside(context, state, _i8(byte)) != to:
            return _i8(-1)
    return to


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, types.Array(types.uint8, 3, "C", readonly=True)))
def _lead(context, state, target, counts, ranges):  # type: ignore[no-untyped-def]
    """Whether all of these characters lead from a state to the target, inside a body and with so many counts."""
    for k in range(ranges.shape[0]):
        at, b, counted = state, 0, 0
        while b < 4 and ranges[k, b, 0] > 0:
            if b > 0 and borders(context, at, _i8(0)):
                return False
            to = _alike(context, at, _i8(ranges[k, b, 0]), _i8(ranges[k, b, 1]))
            if to < 0:
                return False
            at = to >> 1
            counted += to & 1
            b += 1
        if at != target or counted != counts:
            return False
    return True


@inner(_i8(_i8))
def _count(bits):  # type: ignore[no-untyped-def]
    count = 0
    while bits != 0:
        bits &= bits - 1
        count += 1
    return _i8(count)


@inner(_i8(_i44, _i88, _i8))
def _most(steps, alphabet, number):  # type: ignore[no-untyped-def]
    """The step of this state that leads on inside the body by more groups than all others together; some step when
    there is no such one, -1 for none."""
    most, lead = _i8(-1), 0
    for c in range(alphabet.shape[0]):
        step, count = _i8(steps[number, c]), _count(alphabet[c, BITS] & ~_RAGGED)
        if step < 0 or step & BORDER != 0:
            continue
        lead += count if step == most else -count
        if lead < 0:
            most, lead = step, -lead
    return most


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i4, _i4, _u1, _i88, _i44, _i88))
def learn(context, number, leading, numbers, local, after, alphabet, steps, loops):  # type: ignore[no-untyped-def]
    """Fills the steps and loops of state numbers[number]. leading: groups that lead to it in a line, which ends here
    when most of them lead nowhere, 0 for none. after: as for survey; alphabet: as made by `alphabet_of`."""
    returning, state = _i8(min(after.size, 1)), _i8(numbers[number])
    may_return = returning == 1 and states_of(context)[state, FINAL] == 1
    never = along = free = _i8(-1)
    for c in range(alphabet.shape[0]):
        byte = alphabet[c, BYTE]
        step = inside(context, state, byte)
        if step >= 0:
            target = step >> 1
            border = BORDER if borders(context, target, returning) else 0
            step = _i8(4 * (local[target] - 1) + border + (step & 1))
        steps[number, c] = step
        never &= _i8(-1) if step == DEAD and not (may_return and after[byte] == 1) else ~alphabet[c, BITS]
    most = _most(steps, alphabet, number)
    for c in range(alphabet.shape[0]):
        left, others = may_return and after[alphabet[c, BYTE]] == 1, ~alphabet[c, BITS]
        along &= _i8(-1) if steps[number, c] == most and not left else others
        free &= _i8(-1) if steps[number, c] == 4 * number and not left else others
    ragged = never & _RAGGED == 0
    if ragged:
        never &= ~(_WHOLE | _SPACES)
    for byte in range(0x80, 256):
        ragged = ragged and not (may_return and after[byte] == 1)
    if most >= 0 and _count(leading & never) > _count(leading & along):
        most = _i8(-1)
    target, counts = _i8(numbers[max(_i8(0), most >> 2)]), most & 1
    if not ragged or most < 0 or not _lead(context, state, target, counts, _OTHERS):
        along &= ~(_WHOLE | _SPACES)
    elif not _lead(context, state, target, counts, _WHITE):
        along &= ~_SPACES
    along = along & ~_RAGGED if most >= 0 else never
    free = along if most == 4 * number else free & ~(_WHOLE | _SPACES | _RAGGED)
    loops[number, FREE], loops[number, ALONG], loops[number, NEVER] = free, along, never
    loops[number, NEXT] = 2 * (most >> 2) + (most & 1) if most >= 0 else -1


@inner(types.void(CONTEXT_TYPE, _i8, _i4, _i4, _u1, _i88, _i44, _i88, _i4))
def meet(context, number, numbers, local, after, alphabet, steps, loops, line):  # type: ignore[no-untyped-def]
    """Fills the steps and loops of state numbers[number], and of those in a line to which it leads. line: room."""
    at, count, along, leading = number, 0, _i8(0), _i8(0)
    while count < line.size and steps[at, 0] == UNKNOWN:
        learn(context, at, leading, numbers, local, after, alphabet, steps, loops)
        line[count], leading = at, loops[at, ALONG]
        count += 1
        if loops[at, NEXT] < 0 or loops[at, NEXT] >> 1 == at:
            along = _i8(-1)
            break
        at = loops[at, NEXT] >> 1
    if along == 0 and steps[at, 0] != UNKNOWN:
        along = loops[at, ALONG]
        for k in range(count):
            along = _i8(0) if line[k] == at else along  # a circle
    for k in range(count):
        along &= loops[line[count - 1 - k], ALONG]
        loops[line[count - 1 - k], ALONG] = along


@entry(types.void(_u1, _u1, _i88))
def _tell_alphabet(classes, groups, found):  # type: ignore[no-untyped-def]
    """Fills what alphabet_of returns."""
    for byte in range(256):
        row = found[classes[byte]]
        row[BYTE], row[BITS] = byte, row[BITS] | (_i8(1) << groups[byte])


def alphabet_of(classes: Bytes, count: int, groups: Bytes) -> Any:
    """int64 [count, 2], by class of bytes: one of its bytes, and the groups of all of them, as bits."""
    found = np.zeros((count, 2), np.int64)
    _tell_alphabet(classes, groups, found)
    return found


def gathered(context: int, trie: Trie, before: Any, groups: Bytes, longest: int) -> tuple[Any, Any, Any]:
    """(int64 [nodes, 4], columns as named above; [nodes] characters up to each; [nodes] the groups of those in ASCII)
    of the trie that a context begins with."""
    nodes, characters = np.zeros((len(trie.byte), 4), np.int64), np.zeros(len(trie.byte), np.int32)
    letters = np.zeros(len(trie.byte), np.int64)
    gather_nodes(context, groups, before, np.zeros((longest + 2, 5), np.int64), np.zeros(longest + 2, np.uint8),
                 nodes, characters, letters)
    return nodes, characters, letters
