"""What the tokens do in a whole body, told by ranges: which lead from a state to which place.

A place is a state of the body with a number of counts. Subtrees on whose bytes a state loops, or leads along a line of
states, are a range of the vocabulary's tokens in the order of its trie (`listed`): they need no steps (body_steps.py).
So are those that may cross from the line of the first state to a second one, as where some letter must occur: which
letters a token has tells which line it ends on.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, classes_of, states_of
from ..binding.tables import FINAL
from ..binding.trie import LAST as LAST_CHILD
from ..jit import entry, inner
from .body_steps import (
    ALONG,
    BELOW,
    BITS,
    BORDER,
    BYTE,
    DOWN,
    ENDING,
    FREE,
    HELD,
    LOWER,
    NEVER,
    NEXT,
    SPACES,
    SPAN,
    UNKNOWN,
    begins,
    meet,
)
from .body_walk import AFTER, BEFORE, DEAD, RETURNED, add_exit
from .fetching import fetch

_i8, _i4, _i44 = types.int64, types.int32[::1], types.int32[:, ::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]


# Columns of `found`: which tokens, the place or that of their node, and how many characters they have up to there;
# ALONE where they all end in that place, CROSSING where they may cross.
FIRST, LAST, PLACE, BEHIND = 0, 1, 2, 3
ALONE, CROSSING = -1, -2
# Of the stack of a survey, beside a state, its counts and characters: the next node in it, -1 for none; 1 where no
# character so far can have crossed.
_COMING, _BEFORE = 3, 4
_ASCII = np.int64((1 << SPACES) - 1)  # groups, as bits
_NODE, _LINE = 4, 8  # numbers of a node, and of what memory comes in


@inner(types.boolean(_i8, _i8, _i8, _i8, _i44, _i8s))
def _put(begin, end, place, behind, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens [begin, end), as columns of `found` say; False without room."""
    if begin < end:
        if sizes[0] >= found.shape[0]:
            return False
        row = found[sizes[0]]
        row[FIRST], row[LAST], row[PLACE], row[BEHIND] = begin, end, place, behind
        sizes[0] += 1
    return True


@inner(_i8(CONTEXT_TYPE, _i4, _u1, _i88, _i44, _i8, _i8, _i8))
def _leading(context, numbers, after, alphabet, steps, state, target, counts):  # type: ignore[no-untyped-def]
    """The groups of ASCII characters that lead from a state to a target with so many counts; -1: that lead nowhere."""
    found, expected = _ASCII, DEAD if target < 0 else 4 * target + counts
    may_return = after.size > 0 and states_of(context)[numbers[state], FINAL] == 1
    for c in range(alphabet.shape[0]):
        if steps[state, c] != expected or (may_return and after[alphabet[c, BYTE]] == 1):
            found &= ~alphabet[c, BITS]
    return found


@inner(_i8(_i44, _i88, _i88))
def _second(steps, alphabet, loops):  # type: ignore[no-untyped-def]
    """The step of the first state that most groups of ASCII take which are not along its line, -1 for none."""
    most, lead, along = _i8(-1), 0, 4 * (loops[0, NEXT] >> 1) + (loops[0, NEXT] & 1)
    for c in range(alphabet.shape[0]):
        step = _i8(steps[0, c])
        if step < 0 or step == along or step & BORDER != 0 or alphabet[c, BITS] & ~_ASCII != 0:
            continue
        lead += 1 if step == most else -1
        if lead < 0:
            most, lead = step, 1
    return most


@inner(_i8(CONTEXT_TYPE, _i4, _i4, _u1, _i88, _i44, _i88, _i4, _i8, _i8s, _i44))
def _crossing(context, numbers, local, after, alphabet, steps, loops, line, width, sizes, lines):  # type: ignore[no-untyped-def]
    """The groups of ASCII characters that lead from each state of the first line to the next one of a second, 0 for
    none. sizes[4]: filled with how many states the first one has; lines, with where so many characters lead, all along
    the first line or when one of the first sizes[4] crosses, -1 for nowhere."""
    step = _second(steps, alphabet, loops)
    if loops[0, NEXT] < 0 or step < 0:
        return _i8(0)
    a, counts, b, others, cross, before = _i8(0), _i8(0), step >> 2, step & 1, _ASCII, _i8(-1)
    if steps[b, 0] == UNKNOWN:
        meet(context, b, numbers, local, after, alphabet, steps, loops, line)
    lines[0, 0], lines[1, 0] = 0, -1
    for k in range(1, lines.shape[1]):
        if a >= 0:
            if steps[a, 0] == UNKNOWN or (b >= 0 and steps[b, 0] == UNKNOWN):
                return _i8(0)
            if a != before or b < 0 or loops[b, NEXT] >> 1 != b:
                cross &= _leading(context, numbers, after, alphabet, steps, a, b, others - counts)
            before, sizes[4] = a, k
        lines[1, k] = b * width + others if b >= 0 else -1
        to = loops[a, NEXT] if a >= 0 else _i8(-1)
        a, counts = to >> 1, counts + (to & 1)
        lines[0, k] = a * width + counts if a >= 0 else -1
        to = loops[b, NEXT] if b >= 0 else _i8(-1)
        b, others = to >> 1, others + (to & 1)
    return cross


@entry(_i8(CONTEXT_TYPE, _i4, _i4, _u1, _i88, _i88, _i44, _i44, _i88, _i4, _i8, _i44, _i44, _i8s, _i44))
def survey(  # type: ignore[no-untyped-def]
        context, numbers, local, after, alphabet, nodes, stack, steps, loops, line, width, found, exits, sizes, lines):
    """What the tokens do from numbers[0] inside its body, whose states these are. Returns 0, -1 without room.

    local: by state, its number in the body plus 1. after: [256] the bytes that can follow when the frame returns, for
    bodies in which it may; else empty. alphabet, nodes: as body_steps.py says. steps, line: room. width: places of each
    state. found[:sizes[0]]: which tokens, in order (columns as above). exits[:sizes[2]], their states local. sizes[3]:
    the groups of characters that cross, 0 for none; sizes[4], lines: as _crossing says.
    """
    states, returning, classes, room = states_of(context), after.size > 0, classes_of(context), True
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, _COMING], sizes[0], sizes[2] = 0, 0, 0, 0, 0, 0
    for number in range(numbers.size):
        steps[number, 0], loops[number, NEXT] = UNKNOWN, -1
    meet(context, _i8(0), numbers, local, after, alphabet, steps, loops, line)
    cross = _crossing(context, numbers, local, after, alphabet, steps, loops, line, width, sizes, lines)
    both = _i8(0) if cross == 0 else (loops[0, ALONG] | cross) & loops[_second(steps, alphabet, loops) >> 2, ALONG]
    sizes[3], stack[0, _BEFORE] = cross, 1 if cross != 0 else 0
    d = 1 if nodes.shape[0] > 0 else 0
    while d > 0 and room:
        above = stack[d - 1]
        if above[_COMING] < 0:
            d -= 1
            continue
        node = nodes[above[_COMING]]
        down, at, size = node[DOWN], node[SPAN] >> 32, node[SPAN] & LOWER
        coming = above[_COMING] + 1 if down & LAST_CHILD == 0 else -1
        above[_COMING] = coming
        if coming >= 0:
            fetch(nodes, _NODE * (nodes[coming, DOWN] >> 32))
        state, counts, byte = _i8(above[0]), _i8(above[1]), down & 0xFF
        step = _i8(steps[state, classes[byte]])
        if returning and after[byte] == 1 and states[numbers[state], FINAL] == 1:
            room = add_exit(exits, sizes, at, _i8(RETURNED), state, counts)
        if step < 0:
            room = room and (step == DEAD or add_exit(exits, sizes, at, _i8(BEFORE), state, counts))
            continue
        target, counted, below, begin = step >> 2, counts + (step & 1), node[BELOW], node[HELD] >> 32
        place, behind, own = target * width + counted, above[2] + begins(byte), begin + ((down & LOWER) >> ENDING)
        if step & BORDER != 0:
            room = room and _put(begin, own, place, _i8(ALONE), found, sizes)
            room = room and (size == 1 or add_exit(exits, sizes, at, _i8(AFTER), target, counted))
            continue
        aside = above[_BEFORE] == 1 and alphabet[classes[byte], BITS] & cross == 0
        if steps[target, 0] == UNKNOWN:
            meet(context, target, numbers, local, after, alphabet, steps, loops, line)
        if below & ~loops[target, FREE] == 0:
            room = room and _put(begin, node[HELD] & LOWER, place, _i8(ALONE), found, sizes)
        elif below & ~loops[target, ALONG] == 0:
            room = room and _put(begin, node[HELD] & LOWER, place, behind, found, sizes)
        elif aside and below & ~both == 0 and lines[0, behind] == place:
            room = room and _put(begin, node[HELD] & LOWER, place, _i8(CROSSING), found, sizes)
        else:
            room = room and _put(begin, own, place, _i8(ALONE), found, sizes)
            if below & ~loops[target, NEVER] != 0:
                stack[d, 0], stack[d, 1], stack[d, 2], stack[d, _COMING] = target, counted, behind, down >> 32
                stack[d, _BEFORE] = 1 if aside else 0
                d += 1
                for more in range(1, 4):  # what is as deep lies there
                    fetch(nodes, _NODE * (down >> 32) + _LINE * more)
    return _i8(0 if room else -1)
