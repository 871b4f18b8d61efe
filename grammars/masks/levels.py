"""The levels of a walk: the nodes of the trie that it comes to, one after the other, but for what is plainly dead.

Below a node with much below it, its children lie next to each other, by their bytes (trie.kids): those that nothing
reads are passed without touching anything else of the trie, whose nodes are far apart in memory. A small subtree is
followed as it lies. In a stretch (stretches.py) the next node is the one at which something else happens.
"""

from __future__ import annotations

from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    TRIE_TYPE,
    calls_of,
    classes_of,
    crossed_of,
    dead_of,
    first_of,
    go_of,
    kids_of,
    levels_of,
    offsets_of,
    spelt_of,
    states_of,
    stretches_of,
    threads_of,
    trie_nodes_of,
)
from ..binding.tables import CALLED_RULE, CALLS, CALLS_END, FINAL
from ..binding.trie import LAST, PLACE, SIZE
from ..jit import inner
from ..stepping.stretches import AT, END, MARKS, along_stretch, enter_stretch
from ..stepping.walk import STATE

# columns of a level: where it goes on (a place among kids, -1: nowhere; elsewhere a node), the node that ends it, the
# level to return to, and its kind
NEXT, BOUND, RETURN_TO, KIND = 0, 1, 2, 3
CHILDREN, SUBTREE, STRETCH = 0, 1, 2  # kinds of a level
LISTED = 8  # levels that may be CHILDREN
MANY = 128  # nodes from which on they are
_BYTE = LAST - 1

_i8, _u4 = types.int64, types.uint32[::1]


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def _mark_dead(context, level, low, high):  # type: ignore[no-untyped-def]
    """Fills the level's `dead`: 1 for classes of bytes that threads[low:high] cannot read, as far as it is plain
    without looking below a frame that may return."""
    go, states, calls, first = go_of(context), states_of(context), calls_of(context), first_of(context)
    threads, dead = threads_of(context), dead_of(context)[level - 1]
    known = 1
    for at in range(low, high):
        if states[threads[at, STATE], FINAL] == 1:
            known = 0
    for c in range(go.shape[1]):
        dead[c] = known
    for at in range(low, high if known == 1 else low):
        state = threads[at, STATE]
        for c in range(go.shape[1]):
            if go[state, c] != -1:
                dead[c] = 0
        for call in range(states[state, CALLS], states[state, CALLS_END]):
            called = calls[call, CALLED_RULE]
            for c in range(go.shape[1]):
                if first[called, c] == 1:
                    dead[c] = 0


@inner(_i8(CONTEXT_TYPE, TRIE_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def open_level(context, trie, level, back, begin, end, limit, exact, marks):  # type: ignore[no-untyped-def]
    """Opens the level of the nodes [begin, end), siblings and what is below them, whose parent's threads are where the
    offsets of `level` say, with so many marks; back: the level that is open. Returns `level`, -1 in trouble."""
    row, offsets, stretches = levels_of(context)[level], offsets_of(context), stretches_of(context)
    low, high, last = offsets[level - 1], offsets[level], stretches.shape[0] - 1
    before = stretches[last, END]
    opened = enter_stretch(context, low, high, begin, end, limit, exact, marks)
    if opened < 0:
        return _i8(-1)
    row[BOUND], row[RETURN_TO], row[KIND], row[NEXT] = end, back, STRETCH if opened > before else SUBTREE, begin
    if opened == before and level <= LISTED and end - begin >= MANY:
        row[KIND], row[NEXT] = CHILDREN, trie_nodes_of(trie)[begin, PLACE]
        _mark_dead(context, level, low, high)
    return level


@inner(_i8(CONTEXT_TYPE, _i8))
def close_level(context, level):  # type: ignore[no-untyped-def]
    """The level that is open once this one has no more nodes."""
    row, stretches = levels_of(context)[level], stretches_of(context)
    if row[KIND] == STRETCH:
        stretches[stretches.shape[0] - 1, END] -= 1
    return _i8(row[RETURN_TO])


@inner(_i8(CONTEXT_TYPE, TRIE_TYPE, _i8, _u4))
def next_node(context, trie, level, words):  # type: ignore[no-untyped-def]
    """The next node of a level, -1 for none. Allows the tokens of a stretch up to there."""
    row = levels_of(context)[level]
    if row[KIND] != CHILDREN:
        node = _i8(row[NEXT])
        if row[KIND] == STRETCH:
            node = along_stretch(context, trie, node, words)
        if node >= row[BOUND]:
            return _i8(-1)
        row[NEXT] = node + trie_nodes_of(trie)[node, SIZE]
        return node
    spelt, kids, classes, dead = spelt_of(trie), kids_of(trie), classes_of(context), dead_of(context)
    place = _i8(row[NEXT])
    while place >= 0:
        kid, node = spelt[place], _i8(kids[place])
        place = _i8(-1) if kid >= LAST or kids[place + 1] >= row[BOUND] else place + 1
        if dead[level - 1, classes[kid & _BYTE]] == 0:
            row[NEXT] = place
            return node
    row[NEXT] = -1
    return _i8(-1)


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def put_offsets(context, level, d):  # type: ignore[no-untyped-def]
    """Puts where the threads before a node at depth d stand into the offsets, where a stretch is left there."""
    if levels_of(context)[level, KIND] == STRETCH:
        stretches, offsets = stretches_of(context), offsets_of(context)
        row = stretches[stretches[stretches.shape[0] - 1, END] - 1]
        offsets[d - 1], offsets[d], crossed_of(context)[d - 1] = row[AT], row[AT] + 1, row[MARKS]
