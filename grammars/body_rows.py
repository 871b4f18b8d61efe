"""The rows of a whole body, made in two steps: how many tokens end in each place of it, and which.

A place is a state of the body with a number of counts. Subtrees on whose bytes a state loops are a range of the
vocabulary's tokens in the order of its trie (`listed`): they need no steps (body_steps.py).
"""

from __future__ import annotations

import numpy as np
from numba import types

from .body_steps import BELOW, BORDER, COUNTED, FREE, NEVER, PLACE, SPAN, UNKNOWN, learn
from .body_walk import AFTER, BEFORE, BIG, DEAD, FINISH, RETURNED, add_exit, set_bits
from .context import CONTEXT_TYPE, classes_of, states_of
from .jit import entry, inner
from .tables import FINAL

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]


@inner(types.boolean(_i88, _i8, _i8, _i44, _i8, _i8, _i44, _i8s))
def _put(nodes, low, high, places, state, counts, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens of the nodes [low, high) to a place; False without room."""
    begin, end = nodes[low, PLACE], nodes[high, PLACE]
    if begin < end:
        if sizes[0] >= found.shape[0]:
            return False
        row = found[sizes[0]]
        row[0], row[1], row[2] = begin, end, state * places.shape[1] + counts
        places[state, counts] += end - begin
        sizes[0] += 1
    return True


@inner(types.boolean(_i88, _i8, _i8, _i4, _i44, _i8, _i8, _i44, _i8s))
def _put_each(nodes, low, high, lengths, places, state, more, found, sizes):  # type: ignore[no-untyped-def]
    """The same for tokens that end in a state after as many counts as they are long, and `more`, which is not
    positive."""
    begin, end, width = nodes[low, PLACE], nodes[high, PLACE], places.shape[1]
    if sizes[0] >= found.shape[0]:
        return False
    row = found[sizes[0]]
    row[0], row[1], row[2] = begin, end, -1 - (state * 2 * width + more + width)
    sizes[0] += 1
    for k in range(begin, end):
        places[state, lengths[k] + more] += 1
    return True


@entry(_i8(CONTEXT_TYPE, _i4, _i4, _u1, _i88, _i88, _i4, _i44, _i44, _i88, _i44, _i44, _i44, _i8s))
def survey(context, numbers, local, after, alphabet, nodes, lengths, stack, steps, loops, places, found, exits, sizes):  # type: ignore[no-untyped-def]
    """What the tokens do from numbers[0] inside its body, whose states these are. Returns 0, -1 without room.

    local: by state, its number in the body plus 1. after: [256] the bytes that can follow when the frame returns, for
    bodies in which it may; else empty. alphabet, nodes: as body_steps.py says. lengths: of the tokens in the order of
    the trie. steps: UNKNOWN.
    places[state, counts]: how many tokens end there. found[:sizes[0]]: from which to which, in order, and the place, as
    one number; less than 0 where each byte counts (_put_each). exits[:sizes[2]], their states local.
    """
    states, returning, last, i, room = states_of(context), after.size > 0, nodes.shape[0] - 1, _i8(0), True
    classes = classes_of(context)
    stack[0, 0], stack[0, 1], sizes[0], sizes[2] = 0, 0, 0, 0
    learn(context, _i8(0), numbers, local, after, alphabet, steps, loops)
    while i < last and room:
        span = nodes[i, SPAN]
        end, d, byte = i + (span >> 32), (span >> 8) & 0xFFFFFF, span & 0xFF
        state, counts = _i8(stack[d - 1, 0]), _i8(stack[d - 1, 1])
        step = _i8(steps[state, classes[byte]])
        if returning and after[byte] == 1 and states[numbers[state], FINAL] == 1:
            room = add_exit(exits, sizes, i, _i8(RETURNED), state, counts)
        if step < 0:
            room = room and (step == DEAD or add_exit(exits, sizes, i, _i8(BEFORE), state, counts))
            i = end
            continue
        target, counted, below = step >> 2, counts + (step & 1), nodes[i, BELOW]
        if step & BORDER != 0:
            room = room and _put(nodes, i, i + 1, places, target, counted, found, sizes)
            room = room and (end == i + 1 or add_exit(exits, sizes, i, _i8(AFTER), target, counted))
            i = end
            continue
        if steps[target, 0] == UNKNOWN:
            learn(context, target, numbers, local, after, alphabet, steps, loops)
        if below & ~loops[target, FREE] == 0:
            room = room and _put(nodes, i, end, places, target, counted, found, sizes)
            i = end
        elif below & ~loops[target, COUNTED] == 0:
            room = room and _put_each(nodes, i, end, lengths, places, target, counted - d, found, sizes)
            i = end
        else:
            room = room and _put(nodes, i, i + 1, places, target, counted, found, sizes)
            stack[d, 0], stack[d, 1] = target, counted
            i = end if below & ~loops[target, NEVER] == 0 else i + 1
    return _i8(0 if room else -1)


@inner(types.void(_u4, _i4, _i8, _i8))
def _strike(row, listed, begin, end):  # type: ignore[no-untyped-def]
    for k in range(begin, end):
        row[listed[k] >> 5] &= ~(np.uint32(1) << np.uint32(listed[k] & 31))


@inner(types.void(_i4, _i4, _u44, _i8))
def _enter(group, tokens, rows, token):  # type: ignore[no-untyped-def]
    if group[BIG] >= 0:
        rows[group[BIG], token >> 5] |= np.uint32(1) << np.uint32(token & 31)
    else:
        tokens[group[FINISH]] = token
        group[FINISH] += 1


@entry(types.void(_i44, _i44, _i4, _i4, _i44, _i4, _u44, _i8))
def distribute(found, places, listed, lengths, groups, tokens, rows, main):  # type: ignore[no-untyped-def]
    """Enters the tokens `listed` that a survey found into the group of their place: into rows[BIG], or into `tokens`,
    where the group begins with FINISH as BEGIN and ends as its end. main: the group of more than half of them, whose
    row holds them all and loses those of others; -1 for none."""
    at, width = 0, places.shape[1]
    for f in range(found.shape[0]):
        begin, end, place = found[f, 0], found[f, 1], found[f, 2]
        if place < 0:
            state, more = (-1 - place) // (2 * width), (-1 - place) % (2 * width) - width
            if main >= 0:
                _strike(rows[groups[main, BIG]], listed, _i8(at), _i8(end))
                at = end
            for k in range(begin, end):
                _enter(groups[places[state, lengths[k] + more]], tokens, rows, _i8(listed[k]))
            continue
        number = places[place // width, place % width]
        if number == main:
            _strike(rows[groups[main, BIG]], listed, _i8(at), _i8(begin))
            at = end
            continue
        for k in range(begin, end):
            _enter(groups[number], tokens, rows, _i8(listed[k]))
    if main >= 0:
        _strike(rows[groups[main, BIG]], listed, _i8(at), _i8(listed.size))


@entry(types.void(_u44, _i4, _i4, _u4))
def join(rows, tokens, twin, full):  # type: ignore[no-untyped-def]
    """Sets in `full` the bits of all rows and tokens."""
    for r in range(rows.shape[0]):
        for w in range(full.size):
            full[w] |= rows[r, w]
    for k in range(tokens.size):
        set_bits(full, twin, _i8(tokens[k]))
