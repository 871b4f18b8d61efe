"""All tokens that stay inside a body as one row, not told apart by the places where they end.

That is all a mask needs while the budget allows for each of them. What each costs is asked near its end
(body_groups.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ..jit import entry, inner
from .body_groups import Listing, Scratch
from .body_places import crosses_among, follow
from .body_rows import ALONE, BEHIND, CROSSING, FIRST, LAST, PLACE
from .body_walk import BIG

_i8, _i4, _i44, _u4 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1]
_i8s, _u1, _i88 = types.int64[::1], types.uint8[::1], types.int64[:, ::1]

_AFRESH = -2  # where nothing is known of a state's line


@inner(types.void(_u4, _i4, _i8, _i8, types.boolean))
def _write(row, listed, begin, end, stay):  # type: ignore[no-untyped-def]
    """Sets the bits of listed[begin:end], or clears them."""
    for k in range(begin, end):
        bit = np.uint32(1) << np.uint32(listed[k] & 31)
        row[listed[k] >> 5] = row[listed[k] >> 5] | bit if stay else row[listed[k] >> 5] & ~bit


@inner(_i8(_i4, _i4, _i8, _i8))
def _use(places, used, count, place):  # type: ignore[no-untyped-def]
    """Adds a place to those used, of which there are `count`; returns how many there are."""
    if place < 0 or places[place] != 0:
        return count
    places[place], used[count] = 1, place
    return count + 1


@entry(_i8(_i44, _i4, _i4, _i8s, _u1, _i8s, _u1, _i8, _i8, _i88, _i44, _i44, types.boolean, _u4, _i4, _i4))
def unite(  # type: ignore[no-untyped-def]
        found, listed, characters, letters, text, starts, groups, cross, limit, loops, ways, lines, most, row, places,
        used):
    """Fills a row of the tokens that a survey found; most: the row has all tokens, and loses the others; else it has
    none. Fills `used` with the states in which they may end, as many as is returned. places: zeros, again at the end.
    Else as for body_places.py, of bodies without counts."""
    count, at, crossing = _i8(0), _i8(0), False
    for state in range(loops.shape[0]):
        ways[state, 0] = _AFRESH
    for f in range(found.shape[0]):
        begin, end = _i8(found[f, FIRST]), _i8(found[f, LAST])
        place, behind = _i8(found[f, PLACE]), _i8(found[f, BEHIND])
        if most:
            _write(row, listed, at, begin, False)
        elif behind == ALONE:
            _write(row, listed, begin, end, True)
        at = end
        if behind == ALONE:
            count = _use(places, used, count, place)
            continue
        if behind == CROSSING:
            for k in range(begin, end):
                c = characters[k]
                stays = lines[0, c] >= 0
                if stays != (lines[1, c] >= 0) and letters[k] & cross != 0 and (
                        c <= limit or crosses_among(text, starts[k], starts[k + 1], groups, cross, limit)):
                    stays = not stays
                if stays != most:
                    _write(row, listed, _i8(k), _i8(k + 1), stays)
            for c in range(0 if crossing else lines.shape[1]):
                count = _use(places, used, count, _i8(lines[0, c]))
                count = _use(places, used, count, _i8(lines[1, c]))
            crossing = True
            continue
        way, last, fresh = ways[follow(loops, ways, _i8(1), place)], 0, places[place] != 2
        while last < way.size and way[last] >= 0:
            count = _use(places, used, count, _i8(way[last])) if fresh else count
            last += 1
        places[place] = 2
        if last < way.size or not most:
            for k in range(begin, end):
                if (characters[k] - behind < last) != most:
                    _write(row, listed, _i8(k), _i8(k + 1), not most)
    if most:
        _write(row, listed, at, _i8(listed.size), False)
    for u in range(count):
        places[used[u]] = 0
    return count


def united(listing: Listing, scratch: Scratch, found: Any, loops: Any, groups_of: Any,
           crossing: tuple[int, int]) -> tuple[Any, Any]:
    """(groups without tokens, a row of all), as BodyRows has them, of what a survey found in a body without counts.
    groups_of, crossing: as for `grouped`."""
    most = bool(2 * (found[:, LAST] - found[:, FIRST]).sum() > len(listing.tokens))
    row = listing.every.copy() if most else np.zeros_like(listing.every)
    count = unite(found, listing.tokens, listing.characters, listing.letters, listing.text, listing.starts, groups_of,
                  *crossing, loops, scratch.ways, scratch.lines, most, row, scratch.places, scratch.used)
    groups = np.zeros((count, 5), np.int32)
    groups[:, 0], groups[:, BIG] = scratch.used[:count], -1
    return groups, row
