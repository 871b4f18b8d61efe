"""The rows of a whole body, made in two steps: how many tokens end in each place of it, and which.

A place is a state of the body with a number of counts. Subtrees on whose bytes a state loops, or leads along a line of
states, are a range of the vocabulary's tokens in the order of its trie (`listed`): they need no steps (body_steps.py).
"""

from __future__ import annotations

import numpy as np
from numba import types

from .body_steps import (
    ALONG,
    BELOW,
    BORDER,
    DOWN,
    ENDING,
    FREE,
    HELD,
    LOWER,
    NEVER,
    NEXT,
    SPAN,
    UNKNOWN,
    begins,
    meet,
)
from .body_walk import AFTER, BEFORE, BEGIN, BIG, DEAD, FINISH, RETURNED, add_exit, set_bits
from .context import CONTEXT_TYPE, classes_of, states_of
from .jit import entry, inner
from .tables import FINAL
from .trie import LAST

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]


# columns of `found`: which tokens, the place or that of their node, and how many characters they have up to there, -1
# where they all end in that place
_FROM, _TO, _PLACE, _BEHIND = 0, 1, 2, 3
_COMING = 3  # of the stack of a survey, beside a state, its counts and characters: the next node in it, -1 for none


@inner(types.boolean(_i8, _i8, _i8, _i8, _i44, _i8s))
def _put(begin, end, place, behind, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens [begin, end), as columns of `found` say; False without room."""
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
    bodies in which it may; else empty. alphabet, nodes: as body_steps.py says. steps, line: room.
    width: places of each state. found[:sizes[0]]: which tokens, in order (columns as above). exits[:sizes[2]], their
    states local.
    """
    states, returning, classes, room = states_of(context), after.size > 0, classes_of(context), True
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, _COMING], sizes[0], sizes[2] = 0, 0, 0, 0, 0, 0
    steps[:, 0] = UNKNOWN
    meet(context, _i8(0), numbers, local, after, alphabet, steps, loops, line)
    d, ahead = 1 if nodes.shape[0] > 0 else 0, _i8(0)
    while d > 0 and room:
        above = stack[d - 1]
        if above[_COMING] < 0:
            d -= 1
            continue
        node = nodes[above[_COMING]]
        down, at, size = node[DOWN], node[SPAN] >> 32, node[SPAN] & LOWER
        coming = above[_COMING] + 1 if down & LAST == 0 else -1
        above[_COMING] = coming
        if coming >= 0:
            ahead ^= nodes[nodes[coming, DOWN] >> 32, BELOW]
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
            room = room and _put(begin, own, place, _i8(-1), found, sizes)
            room = room and (size == 1 or add_exit(exits, sizes, at, _i8(AFTER), target, counted))
            continue
        if steps[target, 0] == UNKNOWN:
            meet(context, target, numbers, local, after, alphabet, steps, loops, line)
        if below & ~loops[target, FREE] == 0:
            room = room and _put(begin, node[HELD] & LOWER, place, _i8(-1), found, sizes)
        elif below & ~loops[target, ALONG] == 0:
            room = room and _put(begin, node[HELD] & LOWER, place, behind, found, sizes)
        else:
            room = room and _put(begin, own, place, _i8(-1), found, sizes)
            if below & ~loops[target, NEVER] != 0:
                stack[d, 0], stack[d, 1], stack[d, 2], stack[d, _COMING] = target, counted, behind, down >> 32
                d += 1
    sizes[1] = ahead  # asks early for memory that is needed soon
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


@inner(_i8(_i4, _i4, _i8, _i8, _i8))
def _add(places, used, count, place, amount):  # type: ignore[no-untyped-def]
    """Adds to the tokens of a place, told as one more; returns how many places are used."""
    if places[place] == 0:
        places[place] = 1
        used[count] = place
        count += 1
    places[place] += amount
    return _i8(count)


@entry(_i8(_i44, _i4, _i8, _i4, _i88, _i4, _i4, _i8, _i4, _i4, _i4))
def count_tokens(found, places, width, characters, loops, ways, line, most, amounts, rare, used):  # type: ignore[no-untyped-def]
    """How many of the tokens found end in each of the places, which are zeros, as one more; and in `used` which these
    are, as many as is returned.

    characters: of the tokens in the order of the trie. line: as above; most: 1 when it is of more than half of all.
    amounts: how many tokens have so many characters, 0 where these are `rare`."""
    at, r, count = 0, 0, _i8(0)
    for c in range(line.size if most == 1 else 0):
        if line[c] >= 0:
            count = _add(places, used, count, _i8(line[c]), _i8(amounts[c]))
    for f in range(found.shape[0]):
        begin, end, place, behind = found[f, _FROM], found[f, _TO], _i8(found[f, _PLACE]), found[f, _BEHIND]
        if behind < 0:
            count = _add(places, used, count, place, _i8(end - begin))
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
                    count = _add(places, used, count, to, _i8(1))
    for k in range(at, characters.size if most == 1 else at):
        c = characters[k]
        if line[c] >= 0 and amounts[c] > 0:
            places[line[c]] -= 1
    return count


@entry(_i8(_i4, _i4, _i8, _i8, _i8, _i4, _i4, _i8, _i44, _i8s))
def arrange(places, used, width, dense, total, line, ready, most, groups, sizes):  # type: ignore[no-untyped-def]
    """Fills `groups` (FINISH: as BEGIN) for the places `used`, of which each with a token becomes the number of its
    group, the others -1. Returns how many groups there are.

    A group has a row where it is of `dense` tokens at least, or (most: 1) at the end of a line whose row is `ready`, -1
    by characters where it is not. sizes: filled with how many tokens are in lists, how many rows there are, and the
    group of more than half of the `total` tokens with a row, or -1."""
    count, most_of_all = 0, _i8(-1)
    for u in range(used.size):
        place, amount = used[u], places[used[u]] - 1
        if amount == 0:
            places[place] = -1
            continue
        group = groups[count]
        group[0], group[1], group[BIG], group[FINISH] = place // width, place % width, amount >= dense, amount
        if 2 * amount > total:
            most_of_all = _i8(count)
        places[place] = count
        count += 1
    for c in range(line.size if most == 1 else 0):
        if line[c] >= 0 and ready[c] >= 0 and places[line[c]] >= 0:
            groups[places[line[c]], BIG] = 1
    small, big = 0, 0
    for g in range(count):
        group = groups[g]
        group[BEGIN] = small
        if group[BIG] == 1:
            group[BIG] = big
            big += 1
        else:
            group[BIG] = -1
            small += group[FINISH]
        group[FINISH] = group[BEGIN]
    sizes[0], sizes[1], sizes[2] = small, big, most_of_all
    if most_of_all >= 0 and groups[most_of_all, BIG] < 0:
        sizes[2] = -1
    return _i8(count)


@entry(types.void(_i4, _i4, _i8, _i44, _i8, _u4, _u44, _i4, _i4, _u44))
def begin_rows(places, line, most, groups, main, every, ready, which, whose, rows):  # type: ignore[no-untyped-def]
    """Puts into `rows` what most tokens being alike says of them, and into `whose`, by characters, the row that holds
    such tokens, -1 for none. main: the group of more than half of all tokens, -1 for none; every: their row. line,
    most: as for count_tokens; ready[which[c]]: the row of the tokens with so many characters."""
    whose[:] = -1
    if main >= 0:
        whose[:] = groups[main, BIG]
        for w in range(every.size):
            rows[groups[main, BIG], w] = every[w]
    for c in range(line.size if most == 1 else 0):
        if line[c] >= 0 and which[c] >= 0 and places[line[c]] >= 0:
            whose[c] = groups[places[line[c]], BIG]
            row, source = rows[whose[c]], ready[which[c]]
            for w in range(row.size):
                row[w] |= source[w]


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


@entry(types.void(_i44, _i4, _i4, _i8, _i4, _i4, _i88, _i4, _i4, _i8, _i4, _i4, _i44, _i4, _u44, _i8))
def distribute(  # type: ignore[no-untyped-def]
        found, places, used, width, listed, characters, loops, ways, line, most, whose, rare, groups, tokens, rows,
        main):
    """Enters the tokens `listed` that a survey found into the group of their place: into rows[BIG], or into `tokens`,
    where the group begins with FINISH as BEGIN and ends as its end.

    Where most tokens are alike, their rows hold them from the start (begin_rows) and lose all others. main, line, most,
    whose: as there. The places `used` are zeros again.
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
    for u in range(used.size):
        places[used[u]] = 0


@entry(types.void(_u44, _i4, _i4, _u4))
def join(rows, tokens, twin, full):  # type: ignore[no-untyped-def]
    """Sets in `full` the bits of all rows and tokens."""
    for r in range(rows.shape[0]):
        for w in range(full.size):
            full[w] |= rows[r, w]
    for k in range(tokens.size):
        set_bits(full, twin, _i8(tokens[k]))
