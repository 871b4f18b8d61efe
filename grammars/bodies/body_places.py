"""How many of the tokens that a survey found (body_rows.py) end in each place of a body, and which: in two passes.

Along a line of states a token's number of characters says where it ends. Of most tokens the line is one, whose rows
begin with what a vocabulary has ready.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..jit import entry, inner
from .body_rows import ALONE, BEHIND, CROSSING, FIRST, LAST, PLACE
from .body_steps import NEXT, begins
from .body_walk import BEGIN, BIG, FINISH, set_bits

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]

_AFRESH = -2


@inner(_i8(_i88, _i44, _i8, _i8))
def follow(loops, ways, width, place):  # type: ignore[no-untyped-def]
    """The state of a place, whose row of `ways` is filled: the places that so many characters lead to from its first
    place along NEXT, -1 for none. _AFRESH: not filled yet."""
    state = place // width
    known = ways[state]
    if known[0] == _AFRESH:
        at, counted = _i8(state), 0
        for c in range(known.size):
            known[c] = at * width + counted if at >= 0 else -1
            if at >= 0:
                to = loops[at, NEXT]
                at, counted = _i8(to >> 1), counted + (to & 1)
    return state


@inner(_i8(_i88, _i44, _i8, _i8, _i8))
def _further(loops, ways, width, place, more):  # type: ignore[no-untyped-def]
    """The place that so many characters lead to along NEXT, -1 for none."""
    state = follow(loops, ways, width, place)
    return _i8(ways[state, more] + place - state * width if ways[state, more] >= 0 else -1)


@inner(types.boolean(_u1, _i8, _i8, _u1, _i8, _i8))
def crosses_among(text, begin, end, groups, cross, limit):  # type: ignore[no-untyped-def]
    """Whether one of the first `limit` characters of text[begin:end] crosses."""
    for k in range(begin, end):
        limit -= begins(_i8(text[k]))
        if limit < 0:
            return False
        if text[k] < 0x80 and cross & (_i8(1) << groups[text[k]]) != 0:
            return True
    return False


@entry(_i8(_i44, _i4, _i8s, _u1, _i8s, _u1, _i8, _i8, _i44, _u1, _i4))
def mark_crossing(  # type: ignore[no-untyped-def]
        found, characters, letters, text, starts, groups, cross, limit, lines, crosses, others):
    """Tells by 1 in `crosses` which of the tokens that may cross do, and in `others`, up to a number that is none of a
    token, which do not; returns how many do.

    letters: by token in the order of the trie, the groups of its ASCII characters; text, starts: of the tokens, so too.
    groups: of bytes. cross: those that cross, where they are among the first `limit` characters. lines: as a survey
    told; of what ends nowhere it does not matter."""
    total, count = 0, 0
    for f in range(found.shape[0] if cross != 0 else 0):
        begin, end = found[f, FIRST], found[f, LAST]
        if found[f, BEHIND] != CROSSING:
            continue
        for k in range(begin, end):
            crosses[k] = letters[k] & cross != 0
        for k in range(begin, end):
            if characters[k] > limit and crosses[k] == 1 and max(lines[0, characters[k]], lines[1, characters[k]]) >= 0:
                crosses[k] = crosses_among(text, starts[k], starts[k + 1], groups, cross, limit)
        for k in range(begin, end):
            others[count] = k
            count += 1 - crosses[k]
            total += crosses[k]
    others[count] = letters.size
    return _i8(total)


@entry(_i8(_i44, _i88, _i44, _i8, _i4, _i8, _i44, _i8, _i8))
def choose_line(found, loops, ways, width, line, many, lines, crossed, tokens):  # type: ignore[no-untyped-def]
    """Writes the places to which most of the tokens that go along lead, by how many characters they have: -1 where they
    lead nowhere, -2 where no token is. Returns how many tokens go along it where the line is looked for, in subtrees of
    `many` tokens, and behind. ways: room, [states, at least]. lines: as a survey told; how many tokens cross, and
    there are."""
    lead, total, first = 0, 0, line.size
    for state in range(loops.shape[0]):
        ways[state, 0] = _AFRESH
    if 2 * crossed > tokens:
        for c in range(line.size):
            line[c] = lines[1, c]
        return _i8(crossed)
    line[:] = -2
    for f in range(found.shape[0]):
        count, place, behind = found[f, LAST] - found[f, FIRST], _i8(found[f, PLACE]), found[f, BEHIND]
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


@inner(types.void(_i4, _i4, _i4, _i4, _i8, _i8))
def _uncount(places, characters, line, amounts, begin, end):  # type: ignore[no-untyped-def]
    """Takes the tokens [begin, end) off the places of the line."""
    for k in range(begin, end):
        c = characters[k]
        if line[c] >= 0 and amounts[c] > 0:
            places[line[c]] -= 1


@inner(_i8(_i4, _i4, _i8, _i8, _i8))
def _add(places, used, count, place, amount):  # type: ignore[no-untyped-def]
    """Adds to the tokens of a place, told as one more; returns how many places are used."""
    if places[place] == 0:
        places[place] = 1
        used[count] = place
        count += 1
    places[place] += amount
    return _i8(count)


@entry(_i8(_i44, _i4, _i8, _i4, _i88, _i44, _i4, _i8, _i4, _i4, _i4, _i44, _u1, _i4, types.boolean))
def count_tokens(  # type: ignore[no-untyped-def]
        found, places, width, characters, loops, ways, line, most, amounts, rare, used, lines, crosses, others, ahead):
    """How many of the tokens found end in each of the places, which are zeros, as one more; and in `used` which these
    are, as many as is returned.

    characters: of the tokens in the order of the trie. line: as above; most: 1 when it is of more than half of all.
    amounts: how many tokens have so many characters, 0 where these are `rare`. crosses, others: as mark_crossing tells;
    ahead: whether the line is lines[1], of those that do."""
    at, r, o, count = 0, 0, 0, _i8(0)
    for c in range(line.size if most == 1 else 0):
        if line[c] >= 0:
            count = _add(places, used, count, _i8(line[c]), _i8(amounts[c]))
    for f in range(found.shape[0]):
        begin, end, place, behind = found[f, FIRST], found[f, LAST], _i8(found[f, PLACE]), found[f, BEHIND]
        if behind == ALONE:
            count = _add(places, used, count, place, _i8(end - begin))
        elif ahead and behind == CROSSING:
            _uncount(places, characters, line, amounts, _i8(at), _i8(begin))
            at = end
            while others[o] < end:
                _uncount(places, characters, line, amounts, _i8(others[o]), _i8(others[o] + 1))
                to, o = _i8(lines[0, characters[others[o]]]), o + 1
                if to >= 0:
                    count = _add(places, used, count, to, _i8(1))
            while r < rare.size and rare[r] < end:
                c = characters[rare[r]]
                if rare[r] >= begin and line[c] >= 0 and crosses[rare[r]] == 1:
                    places[line[c]] += 1
                r += 1
        elif behind == CROSSING:
            for k in range(begin, end):
                to = _i8(lines[crosses[k], characters[k]])
                if to >= 0:
                    count = _add(places, used, count, to, _i8(1))
        elif most == 1 and line[behind] == place:
            _uncount(places, characters, line, amounts, _i8(at), _i8(begin))
            at = end
            while r < rare.size and rare[r] < end:
                if rare[r] >= begin and line[characters[rare[r]]] >= 0:
                    places[line[characters[rare[r]]]] += 1
                r += 1
        else:
            state = follow(loops, ways, width, place)
            counts = place - state * width
            for k in range(begin, end):
                to = _i8(ways[state, characters[k] - behind])
                if to >= 0:
                    count = _add(places, used, count, to + counts, _i8(1))
    if most == 1:
        _uncount(places, characters, line, amounts, _i8(at), _i8(characters.size))
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


@entry(types.void(_i44, _i4, _i4, _i8, _i4, _i4, _i88, _i44, _i4, _i8, _i4, _i4, _i44, _i4, _u44, _i8, _i44, _u1, _i4,
                  types.boolean))
def distribute(  # type: ignore[no-untyped-def]
        found, places, used, width, listed, characters, loops, ways, line, most, whose, rare, groups, tokens, rows,
        main, lines, crosses, others, ahead):
    """Enters the tokens `listed` that a survey found into the group of their place: into rows[BIG], or into `tokens`,
    where the group begins with FINISH as BEGIN and ends as its end.

    Where most tokens are alike, their rows hold them from the start (begin_rows) and lose all others. main, line, most,
    whose: as there. lines, crosses, others, ahead: as for count_tokens. The places `used` are zeros again.
    """
    at, r, o = 0, 0, 0
    for f in range(found.shape[0]):
        begin, end, place, behind = found[f, FIRST], found[f, LAST], _i8(found[f, PLACE]), found[f, BEHIND]
        along = behind >= 0 and most == 1 and line[behind] == place
        number = _i8(places[place]) if behind == ALONE else _i8(-1)
        held = along or (ahead and behind == CROSSING) or (main >= 0 and number == main)
        if main >= 0 or most == 1:
            _strike(rows, whose, listed, characters, _i8(at), _i8(begin if held else end))
            at = end
        if along or (ahead and behind == CROSSING):
            while r < rare.size and rare[r] < end:
                k = rare[r]
                if k >= begin and line[characters[k]] >= 0 and (along or crosses[k] == 1):
                    _enter(groups[places[line[characters[k]]]], tokens, rows, _i8(listed[k]))
                r += 1
            while ahead and others[o] < end:
                _strike(rows, whose, listed, characters, _i8(others[o]), _i8(others[o] + 1))
                to = lines[0, characters[others[o]]]
                if to >= 0:
                    _enter(groups[places[to]], tokens, rows, _i8(listed[others[o]]))
                o += 1
        elif behind == CROSSING:
            for k in range(begin, end):
                to = lines[crosses[k], characters[k]]
                if to >= 0:
                    _enter(groups[places[to]], tokens, rows, _i8(listed[k]))
        if held or behind == CROSSING:
            continue
        state, counts = _i8(0), _i8(0)
        if behind >= 0:
            state = follow(loops, ways, width, place)
            counts = place - state * width
        for k in range(begin, end):
            if behind >= 0:
                to = _i8(ways[state, characters[k] - behind])
                number = _i8(places[to + counts]) if to >= 0 else _i8(-1)
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
