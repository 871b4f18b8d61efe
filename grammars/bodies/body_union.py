"""All tokens that stay inside a body as one row, not told apart by the places where they end.

That is all a mask needs while the budget allows for each of them. What each costs is asked near its end
(body_groups.py). In a body that counts the row is of one register: it leaves out what that does not allow. Where it may
take as many counts as a token has, it is a row of all such registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE
from ..jit import entry, inner
from .body_costs import BLOCKED, cost_after
from .body_groups import Listing, Scratch
from .body_places import crosses_among, follow
from .body_rows import ALONE, BEHIND, CROSSING, FIRST, LAST, PLACE
from .body_walk import BEGIN, BIG, FINISH

_i8, _i4, _i44, _u4 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]

_AFRESH = -2  # where nothing is known of a state's line
ANY = -1  # in place of a register: whichever
_UNKNOWN = -1  # of a number of characters, whether tokens with so many stay
_OPEN, _SHUT = 1, 2  # of a place that is used: whether the register allows tokens to end there


@inner(types.void(_u4, _i4, _i8, types.boolean))
def _turn(row, listed, k, wrong):  # type: ignore[no-untyped-def]
    """Turns the bit of listed[k] over where it is wrong, without a branch, which would be guessed wrong too often."""
    token = np.uint32(listed[k])
    row[token >> np.uint32(5)] ^= np.uint32(wrong) << (token & np.uint32(31))


@inner(types.void(_u4, _i4, _i8, _i8))
def _turn_all(row, listed, begin, end):  # type: ignore[no-untyped-def]
    """Turns the bits of listed[begin:end] over."""
    for k in range(begin, end):
        _turn(row, listed, _i8(k), True)


@inner(types.boolean(CONTEXT_TYPE, _i4, _i4, _i4, _i8s, _i8, _i8, _i8))
def _stays(context, numbers, places, used, sizes, width, register, place):  # type: ignore[no-untyped-def]
    """Whether a token that ends in this place (-1: nowhere) stays; adds the place to the sizes[0] ones used."""
    if place < 0:
        return False
    if register == ANY and width > 1:
        place -= place % width
    if places[place] == 0:
        shut = register != ANY and cost_after(context, _i8(numbers[place // width]), register, place % width) == BLOCKED
        places[place] = _SHUT if shut else _OPEN
        used[sizes[0]] = place
        sizes[0] += 1
    return places[place] == _OPEN


@inner(_i8(_i4, _i4, _i8s))
def _settle(places, used, sizes):  # type: ignore[no-untyped-def]
    """Leaves the open ones among the places used, of which it returns how many there are; all are zeros again."""
    count = _i8(0)
    for u in range(sizes[0]):
        place = used[u]
        if places[place] == _OPEN:
            used[count] = place
            count += 1
        places[place] = 0
    return count


@inner(types.void(CONTEXT_TYPE, _i4, _i4, _i4, _i8s, _i8, _i8, _i44, _i4))
def _tell_line(context, numbers, places, used, sizes, width, register, lines, line):  # type: ignore[no-untyped-def]
    """Fills line, by how many characters a token has: bit 1 where it stays in the body, bit 2 where one that crosses
    does."""
    for c in range(lines.shape[1]):
        first = _stays(context, numbers, places, used, sizes, width, register, _i8(lines[0, c]))
        other = _stays(context, numbers, places, used, sizes, width, register, _i8(lines[1, c]))
        line[c] = (1 if first else 0) + (2 if other else 0)


@entry(_i8(CONTEXT_TYPE, _i4, _i44, _i4, _i4, _i8s, _u1, _i8s, _u1, _i8, _i8, _i88, _i44, _i44, _u4, _u4, _i4, _i4,
           _i8s, _i8, _i8, _i4, _i4))
def unite(  # type: ignore[no-untyped-def]
        context, numbers, found, listed, characters, letters, text, starts, groups, cross, limit, loops, ways, lines,
        every, row, places, used, sizes, width, register, line, reach):
    """Fills a row of the tokens that a survey found, from that of all where they are more than half, `every`. Fills
    `used` with the places in which they may end, as many as is returned. places: zeros, again at the end. numbers: the
    states of the body; register: as for `united`. line, reach: room. Else as for body_places.py."""
    at, crossing, total = _i8(0), False, _i8(0)
    sizes[0] = 0
    for state in range(loops.shape[0]):
        ways[state, 0] = _AFRESH
    for f in range(found.shape[0]):
        total += found[f, LAST] - found[f, FIRST]
    most = 2 * total > listed.size
    for w in range(row.size):
        row[w] = every[w] if most else 0
    for f in range(found.shape[0]):
        begin, end = _i8(found[f, FIRST]), _i8(found[f, LAST])
        place, behind = _i8(found[f, PLACE]), _i8(found[f, BEHIND])
        if most:
            _turn_all(row, listed, at, begin)
        at = end
        if behind == ALONE:
            # What is known is told here: to call takes longer.
            stays = place >= 0 and places[place] == _OPEN
            if place >= 0 and places[place] == 0:
                stays = _stays(context, numbers, places, used, sizes, width, register, place)
            if stays != most:
                _turn_all(row, listed, begin, end)
            continue
        if behind == CROSSING:
            if not crossing:
                _tell_line(context, numbers, places, used, sizes, width, register, lines, line)
            crossing = True
            for k in range(begin, end):
                c = characters[k]
                stays = line[c] & 1 == 1
                if line[c] in (1, 2) and letters[k] & cross != 0 and (
                        c <= limit or crosses_among(text, starts[k], starts[k + 1], groups, cross, limit)):
                    stays = not stays
                _turn(row, listed, _i8(k), stays != most)
            continue
        fresh = ways[place // width, 0] == _AFRESH
        way, counts = ways[follow(loops, ways, width, place)], place % width
        if register != ANY:
            reach[:] = _UNKNOWN
            for k in range(begin, end):
                c = characters[k] - behind
                if reach[c] == _UNKNOWN:
                    to = _i8(way[c] + counts if way[c] >= 0 else -1)
                    reach[c] = 1 if _stays(context, numbers, places, used, sizes, width, register, to) else 0
                _turn(row, listed, _i8(k), reach[c] != most)
            continue
        for c in range(way.size if fresh else 0):
            _stays(context, numbers, places, used, sizes, width, register, _i8(way[c]))
        if way[way.size - 1] < 0 or not most:
            for k in range(begin, end):
                _turn(row, listed, _i8(k), (way[characters[k] - behind] >= 0) != most)
    if most:
        _turn_all(row, listed, at, _i8(listed.size))
    return _settle(places, used, sizes)


@entry(types.void(_i4, _i8, _i44))
def _tell_groups(used, width, groups):  # type: ignore[no-untyped-def]
    """Fills groups without tokens, one for each place used."""
    for g in range(groups.shape[0]):
        row = groups[g]
        row[0], row[1], row[BIG], row[BEGIN], row[FINISH] = used[g] // width, used[g] % width, -1, 0, 0


def united(context: int, numbers: Any, register: int, listing: Listing, scratch: Scratch, found: Any, loops: Any,
           width: int, groups_of: Any, crossing: tuple[int, int]) -> tuple[Any, Any]:
    """(groups without tokens, a row of all), as BodyRows has them, of what a survey found in a body with these states.
    register: ANY in a body without counts, and where a thread's allows for the longest of tokens wherever that ends.
    width, groups_of, crossing: as for `grouped`."""
    row = np.empty(len(listing.every), np.uint32)
    count = unite(context, numbers, found, listing.tokens, listing.characters, listing.letters, listing.text,
                  listing.starts, groups_of, *crossing, loops, scratch.ways, scratch.lines, listing.every, row,
                  scratch.places, scratch.used, scratch.sizes, width, register, scratch.line, scratch.whose)
    groups = np.empty((count, 5), np.int32)
    _tell_groups(scratch.used, width, groups)
    return groups, row
