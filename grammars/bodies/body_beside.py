"""The difference between the body of a state and that of its hub, a state near it that repeats (body_walk.py).

Both are walked in step, and where they agree nothing is written.
"""

from __future__ import annotations

from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    cut_of,
    cuts_of,
    depth_of,
    exits_of,
    found_of,
    go_of,
    plain_of,
    sizes_of,
    stack_of,
    states_of,
    token_of,
    twin_of,
)
from ..binding.tables import LOOP, NO_LOOP
from ..binding.trie import LAST
from ..jit import entry, inner
from .body_steps import DOWN, ENDING, HELD, LOWER, SPAN
from .body_walk import AFTER, AT, BEFORE, COUNTS, DEAD, END, FROM, TAKEN, TOKEN, WITH, add_exit, borders, inside

_i8, _i4, _i44, _i8s, _i88 = (types.int64, types.int32[::1], types.int32[:, ::1], types.int64[::1],
                              types.int64[:, ::1])


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i44, _i8s))
def _find(context, begin, end, state, counts, found, sizes):  # type: ignore[no-untyped-def]
    """Adds the tokens of the nodes [begin, end), a subtree of plain bytes, as ending in `state`. counts: at its first
    node; -1 - counts where each further byte counts too. False without room."""
    depth, token = depth_of(context), token_of(context)
    each = 1 if counts < 0 else 0
    first = -1 - counts if counts < 0 else counts
    for i in range(begin, end):
        if token[i] >= 0:
            if sizes[0] >= found.shape[0]:
                return False
            row = found[sizes[0]]
            row[TOKEN], row[END], row[COUNTS] = token[i], state, first + each * (depth[i] - depth[begin])
            sizes[0] += 1
    return True


@inner(types.boolean(_i8s, types.boolean, _i44, _i8s, _i4))
def _cut(node, alone, cuts, sizes, tokens):  # type: ignore[no-untyped-def]
    """Adds a node, or (unless `alone`) its subtree, to the cuts; False without room for it or all their tokens."""
    i, size, held = node[SPAN] >> 32, node[SPAN] & LOWER, node[HELD]
    sizes[3] += (node[DOWN] & LOWER) >> ENDING if alone else (held & LOWER) - (held >> 32)
    if sizes[1] >= cuts.shape[0] or sizes[3] > tokens.size:
        return False
    cuts[sizes[1], 0], cuts[sizes[1], 1] = i, i + 1 if alone else i + size
    sizes[1] += 1
    return True


@inner(_i8(CONTEXT_TYPE, _i44, _i8, _i4))
def _tokens_in(context, cuts, count, tokens):  # type: ignore[no-untyped-def]
    """Writes the tokens of the trie nodes in cuts[:count], twins included; returns how many, -1 without room."""
    ends, twin = token_of(context), twin_of(context)
    total = 0
    for c in range(count):
        for i in range(cuts[c, 0], cuts[c, 1]):
            token = ends[i]
            while token >= 0:
                if total >= tokens.size:
                    return _i8(-1)
                tokens[total] = token
                total += 1
                token = twin[token]
    return _i8(total)


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i88, _i8, _i8))
def explore(context, search, nodes, start, hub):  # type: ignore[no-untyped-def]
    """What the tokens do from `start`, where it is not what they do from `hub`.

    nodes: as body_steps.py says. found[:sizes[0]]: (token, state, counts) of those that stay inside. exits[:sizes[2]].
    cuts[:sizes[1]]: trie nodes [low, high) at which the hub's own tokens and exits do not count; cut[:n]: their tokens.
    Returns n, -1 without room.
    """
    plain, states, go, classes = plain_of(context), states_of(context), go_of(context), classes_of(context)
    stack, found, cuts, exits, sizes = (stack_of(search), found_of(search), cuts_of(search), exits_of(search),
                                        sizes_of(search))
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3], stack[0, 4] = start, 0, hub, 0, 0
    sizes[:] = 0
    returning, tokens, d = _i8(0), cut_of(search), 1 if nodes.shape[0] > 0 else 0
    while d > 0:
        above = stack[d - 1]
        if above[4] < 0:
            d -= 1
            continue
        node = nodes[above[4]]
        down = node[DOWN]
        above[4] = above[4] + 1 if down & LAST == 0 else -1
        state, counts, other, others = above[0], above[1], above[2], above[3]
        byte, read = down & 0xFF, go[state, classes[down & 0xFF]]
        if other >= 0 and counts == others and read == go[other, classes[byte]] and read >= -1:
            continue
        i, size = node[SPAN] >> 32, node[SPAN] & LOWER
        to, beside = inside(context, _i8(state), byte), _i8(DEAD)
        if other >= 0:
            beside = inside(context, _i8(other), byte)
        elif plain[i] == 1 and to >> 1 == state and states[state, LOOP] != NO_LOOP:
            if not _find(context, i, i + size, _i8(state), -2 - counts if to & 1 else _i8(counts), found, sizes):
                return _i8(-1)
            continue
        if to >= 0 and to == beside and counts == others:
            continue
        target = to >> 1 if to >= 0 else _i8(-1)
        counts += to & 1 if to >= 0 else 0
        within = target >= 0 and not borders(context, target, returning)
        other = -1
        if beside != DEAD:
            deeper = within and beside >= 0 and not borders(context, beside >> 1, returning)
            if not _cut(node, deeper, cuts, sizes, tokens):
                return _i8(-1)
            if deeper:
                other = beside >> 1
                others += beside & 1
        if to == DEAD:
            continue
        if target >= 0 and not _find(context, i, i + 1, target, _i8(counts), found, sizes):
            return _i8(-1)
        if within:
            if size > 1:
                below = stack[d]
                below[0], below[1], below[2], below[3], below[4] = target, counts, other, others, down >> 32
                d += 1
        elif target < 0 or size > 1:
            way, leaving = (BEFORE, _i8(state)) if target < 0 else (AFTER, target)
            if not add_exit(exits, sizes, i, _i8(way), leaving, _i8(counts)):
                return _i8(-1)
    return _tokens_in(context, cuts, _i8(sizes[1]), tokens)


@entry(types.boolean(CONTEXT_TYPE, _i44))
def settle(search, base):  # type: ignore[no-untyped-def]
    """Adds to the exits that `explore` found those of the hub, `base`, that are outside of its cuts; False without
    room."""
    cuts, exits, sizes = cuts_of(search), exits_of(search), sizes_of(search)
    for e in range(base.shape[0]):
        apart, at = True, base[e, AT]
        for c in range(sizes[1]):
            apart = apart and not cuts[c, 0] <= at < cuts[c, 1]
        if apart and not add_exit(exits, sizes, _i8(at), _i8(base[e, WITH]), _i8(base[e, FROM]), _i8(base[e, TAKEN])):
            return False
    return True
