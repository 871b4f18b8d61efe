"""The rows of a whole body, made in two steps: how many tokens end in each place of it, and which.

A place is a state of the body with a number of counts. Subtrees on whose bytes a state loops, or leads along a line of
states, are a range of the vocabulary's tokens in the order of its trie (`listed`): they need no steps (body_steps.py).
"""

from __future__ import annotations

import numpy as np
from numba import types

from .body_steps import ALONG, BELOW, BORDER, FREE, NEVER, NEXT, PLACE, SPAN, UNKNOWN, begins, meet
from .body_walk import AFTER, BEFORE, BIG, DEAD, FINISH, RETURNED, add_exit, set_bits
from .context import CONTEXT_TYPE, classes_of, states_of
from .jit import entry, inner
from .tables import FINAL

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]


# columns of `found`: which tokens, the place or that of their node, and how many characters they have up to there, -1
# where they all end in that place
_FROM, _TO, _PLACE, _BEHIND = 0, 1, 2, 3


@inner(types.boolean(_i88, _i8, _i8, _i8, _i8, _i44, _i8s))
def _put(nodes, low, high, place, behind, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens of the nodes [low, high), as columns of `found` say; False without room."""
    begin, end = nodes[low, PLACE], nodes[high, PLACE]
    if begin < end:
        if sizes[0] >= found.shape[0]:
            return False
        row = found[sizes[0]]
        row[_FROM], row[_TO], row[_PLACE], row[_BEHIND] = begin, end, place, behind
        sizes[0] += 1
    return True


@inner(_i8(_i88, _i4, _i8, _i8, _i8))
def _further(loops, ways, width, place, more):  # type: ignore[no-untyped-def]
    """The place that so many characters lead to along NEXT, -1 for none. ways: those of one, which is the first (-1
    when there is none yet), and behind all how many are known."""
    last = ways.size - 1
    if ways[0] != place:
        ways[0], ways[last] = place, 0
    while ways[last] < more:
        known = ways[last]
        at, to = ways[known], _i8(-1)
        if at >= 0:
            to = loops[at // width, NEXT]
        ways[known + 1] = (to >> 1) * width + at % width + (to & 1) if to >= 0 else -1
        ways[last] += 1
    return _i8(ways[more])


@entry(_i8(CONTEXT_TYPE, _i4, _i4, _u1, _i88, _i88, _i44, _i44, _i88, _i4, _i8, _i44, _i44, _i8s))
def survey(context, numbers, local, after, alphabet, nodes, stack, steps, loops, line, width, found, exits, sizes):  # type: ignore[no-untyped-def]
    """What the tokens do from numbers[0] inside its body, whose states these are. Returns 0, -1 without room.

    local: by state, its number in the body plus 1. after: [256] the bytes that can follow when the frame returns, for
    bodies in which it may; else empty. alphabet, nodes: as body_steps.py says. steps: UNKNOWN. line: room.
    width: places of each state. found[:sizes[0]]: which tokens, in order (columns as above). exits[:sizes[2]], their
    states local.
    """
    states, returning, last, i, room = states_of(context), after.size > 0, nodes.shape[0] - 1, _i8(0), True
    classes = classes_of(context)
    stack[0, 0], stack[0, 1], stack[0, 2], sizes[0], sizes[2] = 0, 0, 0, 0, 0
    meet(context, _i8(0), numbers, local, after, alphabet, steps, loops, line)
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
        place, behind = target * width + counted, stack[d - 1, 2] + begins(byte)
        if step & BORDER != 0:
            room = room and _put(nodes, i, i + 1, place, _i8(-1), found, sizes)
            room = room and (end == i + 1 or add_exit(exits, sizes, i, _i8(AFTER), target, counted))
            i = end
            continue
        if steps[target, 0] == UNKNOWN:
            meet(context, target, numbers, local, after, alphabet, steps, loops, line)
        if below & ~loops[target, FREE] == 0:
            room = room and _put(nodes, i, end, place, _i8(-1), found, sizes)
            i = end
        elif below & ~loops[target, ALONG] == 0:
            room = room and _put(nodes, i, end, place, behind, found, sizes)
            i = end
        else:
            room = room and _put(nodes, i, i + 1, place, _i8(-1), found, sizes)
            stack[d, 0], stack[d, 1], stack[d, 2] = target, counted, behind
            i = end if below & ~loops[target, NEVER] == 0 else i + 1
    return _i8(0 if room else -1)


@entry(_i8(_i44, _i88, _i4, _i8, _i4, _i8))
def choose_line(found, loops, ways, width, line, many):  # type: ignore[no-untyped-def]
    """Writes the places to which most of the tokens that go along lead, by how many characters they have: -1 where they
    lead nowhere, -2 where no token is. Returns how many tokens go along it where the line is looked for, in subtrees of
    `many` tokens, and behind. ways: room."""
    lead, total, first = 0, 0, line.size
    line[:] = -2
    for f in range(found.shape[0]):
        count, place, behind = found[f, _TO] - found[f, _FROM], _i8(found[f, _PLACE]), found[f, _BEHIND]
        if behind < 0:
            continue
        if behind < first < line.size and count >= many and _further(
                loops, ways, width, place, _i8(first - behind)) == line[first]:
            for c in range(behind, first):
                line[c] = _further(loops, ways, width, place, _i8(c - behind))
            first = behind
        if line[behind] == place:
            lead += count
            total += count
            continue
        lead -= count
        if lead < 0 and count >= many:
            lead, total, first = count, count, behind
            for c in range(line.size):
                line[c] = _further(loops, ways, width, place, _i8(c - behind)) if c >= behind else -2
    return _i8(total)


@inner(_i8(_i88, _i4, _i8, _i4, _i8, _i8, _i8))
def _end(loops, ways, width, line, place, behind, characters):  # type: ignore[no-untyped-def]
    """The place of a token of so many characters that goes along from one of which it has `behind`, -1 for none."""
    if line[behind] == place:
        return _i8(line[characters])
    return _further(loops, ways, width, place, characters - behind)


@entry(_i8(_i44, _i4, _i8, _i4, _i88, _i4, _i4, _i8, _i4, _i4, _i4))
def count_tokens(found, places, width, characters, loops, ways, line, most, amounts, rare, used):  # type: ignore[no-untyped-def]
    """How many of the tokens found end in each of the places, and in `used` which these are, as many as is returned.

    characters: of the tokens in the order of the trie. line: as above; most: 1 when it is of more than half of all.
    amounts: how many tokens have so many characters, 0 where these are `rare`."""
    for c in range(line.size if most == 1 else 0):
        if line[c] >= 0:
            places[line[c]] += amounts[c]
    at, r = 0, 0
    for f in range(found.shape[0]):
        begin, end, place, behind = found[f, _FROM], found[f, _TO], _i8(found[f, _PLACE]), found[f, _BEHIND]
        if behind < 0:
            places[place] += end - begin
        elif most == 1 and line[behind] == place:
            for k in range(at, begin):
                c = characters[k]
                if line[c] >= 0 and amounts[c] > 0:
                    places[line[c]] -= 1
            at = end
            while r < rare.size and rare[r] < end:
                if rare[r] >= begin and line[characters[rare[r]]] >= 0:
                    places[line[characters[rare[r]]]] += 1
                r += 1
        else:
            for k in range(begin, end):
                to = _end(loops, ways, width, line, place, _i8(behind), _i8(characters[k]))
                if to >= 0:
                    places[to] += 1
    for k in range(at, characters.size if most == 1 else at):
        c = characters[k]
        if line[c] >= 0 and amounts[c] > 0:
            places[line[c]] -= 1
    count = 0
    for place in range(places.size):
        if places[place] > 0:
            used[count] = place
            count += 1
    return _i8(count)


@inner(types.void(_u44, _i4, _i4, _i4, _i8, _i8))
def _strike(rows, whose, listed, characters, begin, end):  # type: ignore[no-untyped-def]
    """Takes the tokens listed[begin:end] out of the row of their number of characters."""
    for k in range(begin, end):
        row = whose[characters[k]]
        if row >= 0:
            rows[row, listed[k] >> 5] &= ~(np.uint32(1) << np.uint32(listed[k] & 31))


@inner(types.void(_i4, _i4, _u44, _i8))
def _enter(group, tokens, rows, token):  # type: ignore[no-untyped-def]
    if group[BIG] >= 0:
        rows[group[BIG], token >> 5] |= np.uint32(1) << np.uint32(token & 31)
    else:
        tokens[group[FINISH]] = token
        group[FINISH] += 1


@entry(types.void(_i44, _i4, _i8, _i4, _i4, _i88, _i4, _i4, _i8, _i4, _i4, _i44, _i4, _u44, _i8))
def distribute(  # type: ignore[no-untyped-def]
        found, places, width, listed, characters, loops, ways, line, most, whose, rare, groups, tokens, rows, main):
    """Enters the tokens `listed` that a survey found into the group of their place: into rows[BIG], or into `tokens`,
    where the group begins with FINISH as BEGIN and ends as its end.

    Where most tokens are alike, their rows hold them from the start and lose all others. main: the group of more than
    half of them, -1 for none. line, most: as for count_tokens. whose: by characters, the row that holds the tokens, or
    -1; all -1 with neither.
    """
    at, r = 0, 0
    for f in range(found.shape[0]):
        begin, end, place, behind = found[f, _FROM], found[f, _TO], _i8(found[f, _PLACE]), found[f, _BEHIND]
        along = behind >= 0 and most == 1 and line[behind] == place
        number = _i8(-1) if behind >= 0 else _i8(places[place])
        held = along or (main >= 0 and number == main)
        if main >= 0 or most == 1:
            _strike(rows, whose, listed, characters, _i8(at), _i8(begin if held else end))
            at = end
        if along:
            while r < rare.size and rare[r] < end:
                k = rare[r]
                if k >= begin and line[characters[k]] >= 0:
                    _enter(groups[places[line[characters[k]]]], tokens, rows, _i8(listed[k]))
                r += 1
        for k in range(begin, begin if held else end):
            if behind >= 0:
                to = _end(loops, ways, width, line, place, _i8(behind), _i8(characters[k]))
                number = _i8(places[to]) if to >= 0 else _i8(-1)
            if number >= 0:
                _enter(groups[number], tokens, rows, _i8(listed[k]))
    if main >= 0 or most == 1:
        _strike(rows, whose, listed, characters, _i8(at), _i8(listed.size))


@entry(types.void(_u44, _i4, _i4, _u4))
def join(rows, tokens, twin, full):  # type: ignore[no-untyped-def]
    """Sets in `full` the bits of all rows and tokens."""
    for r in range(rows.shape[0]):
        for w in range(full.size):
            full[w] |= rows[r, w]
    for k in range(tokens.size):
        set_bits(full, twin, _i8(tokens[k]))
