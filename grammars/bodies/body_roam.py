"""A body of so many states that to spell it takes as long as to walk it: all tokens in turn, by its edges alone.

International names have some thousand states, and most of the vocabulary lies on their ways. All that matters of a
token is its state, and how often it counted, so a node takes some nanoseconds, where a step of a walk takes forty. Such
a body is not shared.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    byte_of,
    classes_of,
    depth_of,
    edges_of,
    go_of,
    size_of,
    states_of,
    token_of,
    twin_of,
)
from ..binding.tables import COUNTER, FINAL, KIND, LOOSE
from ..ir import COUNT
from ..jit import entry, inner
from .body_walk import AFTER, BEFORE, RETURNED, add_exit, borders

# What is known of a state: 0 for nothing; of a strict one only the walk tells; and whether some token ends in it.
_INSIDE, _BORDER, _STRICT, _NUMBERED = 1, 2, 3, 4
_KINDS = _NUMBERED - 1

_i8, _i4, _i44, _u1, _u4, _i8s = (types.int64, types.int32[::1], types.int32[:, ::1], types.uint8[::1],
                                  types.uint32[::1], types.int64[::1])


@inner(_i8(CONTEXT_TYPE, _u1, _i8, _i8))
def _look(context, known, state, returning):  # type: ignore[no-untyped-def]
    """What a state is, from now on known."""
    if known[state] == 0:
        strict = states_of(context)[state, LOOSE] == 0 and states_of(context)[state, KIND] != COUNTER
        known[state] = _STRICT if strict else _BORDER if borders(context, state, returning) else _INSIDE
    return _i8(known[state])


@inner(_i8(_i4, _i4, _i8s, _i8))
def _number(local, order, sizes, state):  # type: ignore[no-untyped-def]
    """The number of a state among the sizes[0] of `order`, to which it is added; -1 without room."""
    if local[state] == 0:
        if sizes[0] == order.size:
            return _i8(-1)
        order[sizes[0]] = state
        sizes[0] += 1
        local[state] = sizes[0]
    return _i8(local[state] - 1)


@inner(types.boolean(_i4, _i4, _i44, _i8s, _i8, _i8, _i8, _i8))
def _leave(local, order, exits, sizes, node, way, state, counts):  # type: ignore[no-untyped-def]
    number = _number(local, order, sizes, state)
    return number >= 0 and add_exit(exits, sizes, node, way, number, counts)


@inner(types.void(_u4, _i4))
def _add_twins(row, twin):  # type: ignore[no-untyped-def]
    """Sets the bits of the twins of tokens whose bits are set; a twin has the greater id."""
    for token in range(twin.size):
        if twin[token] >= 0 and (row[token >> 5] >> np.uint32(token & 31)) & np.uint32(1) == 1:
            row[twin[token] >> 5] |= np.uint32(1) << np.uint32(twin[token] & 31)


@entry(types.boolean(CONTEXT_TYPE, _i8, _u1, _i4, _i4, _u1, _i44, _u4, _i44, _i8s))
def roam(context, start, after, local, order, known, path, row, exits, sizes):  # type: ignore[no-untyped-def]
    """Sets the bits of the tokens that stay inside the body of a state in an empty row, whatever they count, and fills
    exits[:sizes[2]], their states local. order[:sizes[0]]: the states in which these tokens end, or which they leave,
    by local number; local: by state, that number plus 1, zeros before. known: zeros, by state; path: room, by depth;
    after: as for a survey. False without room."""
    byte, depth, size, token = byte_of(context), depth_of(context), size_of(context), token_of(context)
    go, classes, states, edges = go_of(context), classes_of(context), states_of(context), edges_of(context)
    returning, i, room = _i8(min(after.size, 1)), 0, True
    path[0, 0], path[0, 1], sizes[0], sizes[2] = start, 0, 0, 0
    while i < byte.size and room:
        state, counts, b = _i8(path[depth[i] - 1, 0]), _i8(path[depth[i] - 1, 1]), byte[i]
        if returning == 1 and after[b] == 1 and states[state, FINAL] == 1:
            room = _leave(local, order, exits, sizes, _i8(i), _i8(RETURNED), state, counts)
        to, counted = _i8(go[state, classes[b]]), counts
        if to == -1:
            i += size[i]
            continue
        # What `inside` tells, without a call in which nothing that is loaded here is known.
        if to < 0 and states[state, KIND] == COUNTER and edges[-2 - to, 2] == COUNT:
            to, counted = _i8(edges[-2 - to, 1]), counts + 1
        what = _i8(_STRICT) if to < 0 else _i8(known[to])
        if what == 0:
            what = _look(context, known, to, returning)
        if what == _STRICT:
            room = room and _leave(local, order, exits, sizes, _i8(i), _i8(BEFORE), state, counts)
            i += size[i]
            continue
        ends = 1 + (_i8(token[i]) >> 63)  # 1 or 0, and no branch: whether a token ends in a node follows no pattern
        row[(token[i] * ends) >> 5] |= np.uint32(ends) << np.uint32(token[i] & 31)
        if ends > what >> 2:
            known[to] |= _NUMBERED
            room = room and _number(local, order, sizes, to) >= 0
        path[depth[i], 0], path[depth[i], 1] = to, counted
        if what & _KINDS == _INSIDE:
            i += 1
            continue
        if size[i] > 1:
            room = room and _leave(local, order, exits, sizes, _i8(i), _i8(AFTER), to, counted)
        i += size[i]
    _add_twins(row, twin_of(context))
    return room
