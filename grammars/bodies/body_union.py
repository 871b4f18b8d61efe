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


@inner(types.void(_u4, _i4, _i8, _i8, types.boolean))
def _write(row, listed, begin, end, stay):  # type: ignore[no-untyped-def]
    """Sets the bits of listed[begin:end], or clears them."""
    for k in range(begin, end):
        bit = np.uint32(1) << np.uint32(listed[k] & 31)
        row[listed[k] >> 5] = row[listed[k] >> 5] | bit if stay else row[listed[k] >> 5] & ~bit


@inner(types.boolean(CONTEXT_TYPE, _i4, _i4, _i4, _i8s, _i8, _i8, _i8))
def _stays(context, numbers, places, used, sizes, width, register, place):  # type: ignore[no-untyped-def]
    """Whether a token that ends in this place (-1: nowhere) stays; adds the place to the sizes[0] ones used."""
    if place < 0:
        return False
    if register == ANY:
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
            _write(row, listed, at, begin, False)
        at = end
        if behind == ALONE:
            stays = _stays(context, numbers, places, used, sizes, width, register, place)
            if stays != most:
                _write(row, listed, begin, end, stays)
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
                if stays != most:
                    _write(row, listed, _i8(k), _i8(k + 1), stays)
            continue
        fresh, last = ways[place // width, 0] == _AFRESH, 0
        way, counts = ways[follow(loops, ways, width, place)], place % width
        if register != ANY:
            reach[:] = _UNKNOWN
            for k in range(begin, end):
                c = characters[k] - behind
                if reach[c] == _UNKNOWN:
                    to = _i8(way[c] + counts if way[c] >= 0 else -1)
                    reach[c] = 1 if _stays(context, numbers, places, used, sizes, width, register, to) else 0
                if (reach[c] == 1) != most:
                    _write(row, listed, _i8(k), _i8(k + 1), not most)
            continue
        while last < way.size and way[last] >= 0:
            if fresh:
                _stays(context, numbers, places, used, sizes, width, register, _i8(way[last]))
            last += 1
        if last < way.size or not most:
            for k in range(begin, end):
                if (characters[k] - behind < last) != most:
                    _write(row, listed, _i8(k), _i8(k + 1), not most)
    if most:
        _write(row, listed, at, _i8(listed.size), False)
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
