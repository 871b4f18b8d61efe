"""The rows of a whole body, made in two steps: how many tokens end in each place of it, and which.

A place is a state of the body with a number of counts. Subtrees of plain bytes, on which most states loop, are a range
of the vocabulary's tokens in the order of its trie (`listed`): they need no steps.
"""

from __future__ import annotations

import numpy as np
from numba import types

from .body_walk import AFTER, AT, BEFORE, BIG, DEAD, FINISH, RETURNED, WITH, add_exit, borders, inside, set_bits
from .context import CONTEXT_TYPE, byte_of, depth_of, plain_of, size_of, states_of, token_of, twin_of
from .jit import entry, inner
from .tables import FINAL, LOOP, NO_LOOP

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1 = types.int64[::1], types.uint8[::1]


@inner(types.boolean(_i4, _i8, _i8, _i44, _i8, _i8, _i44, _i8s))
def _put(before, low, high, places, state, counts, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens of the nodes [low, high) to a place; False without room."""
    begin, end = before[low], before[high]
    if begin < end:
        if sizes[0] >= found.shape[0]:
            return False
        row = found[sizes[0]]
        row[0], row[1], row[2] = begin, end, state * places.shape[1] + counts
        places[state, counts] += end - begin
        sizes[0] += 1
    return True


@entry(_i8(CONTEXT_TYPE, _i8, _u1, _i4, _i44, _i44, _i4, _i44, _i44, _i8s))
def survey(context, start, after, local, stack, places, before, found, exits, sizes):  # type: ignore[no-untyped-def]
    """What the tokens do from `start` inside its body. Returns 0, -1 without room.

    after: [256] the bytes that can follow when the frame returns, for bodies in which it may; else empty. local: by
    state, its number in the body plus 1. before: how many tokens come before each trie node.
    places[state, counts]: how many tokens end there. found[:sizes[0]]: from which to which, and the place, as one
    number. exits[:sizes[2]].
    """
    byte, depth, size, plain = byte_of(context), depth_of(context), size_of(context), plain_of(context)
    states, returning, i = states_of(context), _i8(min(after.size, 1)), 0
    stack[0, 0], stack[0, 1] = start, 0
    sizes[0], sizes[2] = 0, 0
    while i < byte.size:
        d = depth[i]
        state, counts, room = _i8(stack[d - 1, 0]), _i8(stack[d - 1, 1]), True
        to, last = inside(context, state, _i8(byte[i])), i + size[i]
        if to >= 0 and plain[i] == 1 and returning == 0 and to >> 1 == state and states[state, LOOP] != NO_LOOP:
            if to & 1 == 0:
                room = _put(before, _i8(i), _i8(last), places, _i8(local[state] - 1), counts, found, sizes)
            for k in range(i, last if to & 1 else i):
                room = room and _put(before, _i8(k), _i8(k + 1), places, _i8(local[state] - 1),
                                     _i8(counts + 1 + depth[k] - d), found, sizes)
            i = last
        elif to >= 0:
            target, counted = to >> 1, counts + (to & 1)
            if returning == 1 and after[byte[i]] == 1 and states[state, FINAL] == 1:
                room = add_exit(exits, sizes, _i8(i), _i8(RETURNED), state, counts)
            room = room and _put(before, _i8(i), _i8(i + 1), places, _i8(local[target] - 1), counted, found, sizes)
            if not borders(context, target, returning):
                stack[d, 0], stack[d, 1] = target, counted
                i += 1
            else:
                room = room and (size[i] == 1 or add_exit(exits, sizes, _i8(i), _i8(AFTER), target, counted))
                i = last
        else:
            if returning == 1 and after[byte[i]] == 1 and states[state, FINAL] == 1:
                room = add_exit(exits, sizes, _i8(i), _i8(RETURNED), state, counts)
            room = room and (to == DEAD or add_exit(exits, sizes, _i8(i), _i8(BEFORE), state, counts))
            i = last
        if not room:
            return _i8(-1)
    return _i8(0)


@entry(types.void(_i44, _i4, _i4, _i44, _i4, _u44))
def distribute(found, places, listed, groups, tokens, rows):  # type: ignore[no-untyped-def]
    """Enters the tokens `listed` that a survey found into the group of their place: into rows[BIG], or into `tokens`,
    where the group begins with FINISH as BEGIN and ends as its end."""
    for f in range(found.shape[0]):
        group = groups[places[found[f, 2]]]
        if group[BIG] >= 0:
            row = rows[group[BIG]]
            for k in range(found[f, 0], found[f, 1]):
                row[listed[k] >> 5] |= np.uint32(1) << np.uint32(listed[k] & 31)
        else:
            for k in range(found[f, 0], found[f, 1]):
                tokens[group[FINISH]] = listed[k]
                group[FINISH] += 1


@entry(types.void(_u44, _i4, _i4, _u4))
def join(rows, tokens, twin, full):  # type: ignore[no-untyped-def]
    """Sets in `full` the bits of all rows and tokens."""
    for r in range(rows.shape[0]):
        for w in range(full.size):
            full[w] |= rows[r, w]
    for k in range(tokens.size):
        set_bits(full, twin, _i8(tokens[k]))


@entry(_i8(CONTEXT_TYPE, _i44, _i44))
def tokens_behind(context, exits, found):  # type: ignore[no-untyped-def]
    """found[:n]: (token, its bytes before the exit, the exit) of the tokens that leave by an exit; n is returned, -1
    without room."""
    depth, size, token, twin = depth_of(context), size_of(context), token_of(context), twin_of(context)
    total = 0
    for k in range(exits.shape[0]):
        at, before = exits[k, AT], 0 if exits[k, WITH] == AFTER else 1
        for i in range(at + 1 - before, at + size[at]):
            here = token[i]
            while here >= 0:
                if total >= found.shape[0]:
                    return _i8(-1)
                found[total, 0], found[total, 1], found[total, 2] = here, depth[at] - before, k
                total += 1
                here = twin[here]
    return _i8(total)
