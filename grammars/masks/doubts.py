"""Which tokens of a mask are worth an exact test because items of a list must be unlike: few, as a rule.

A walk marks those that end an item (walk.ENDED), begin one or move to where few values are left; which tokens may lead
to a value that was written is told along these values (rivals.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, row_of, struck_of
from ..jit import entry, inner
from ..stepping.rivals import ANY_TOKEN, NARROW, SOME, tell_rivals
from ..stepping.walk import BEGUN, ENDED
from .space import Space

if TYPE_CHECKING:
    from .configuration import Configuration

_MANY = ENDED - 1
NEAR, EXACT, KEYS = 1, 2, 4  # flags of `choose`: as of `doubtful`, and whether keys were written

_i8, _i4, _i44, _u4 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1]


def doubtful(space: Space, configuration: Configuration, words: Any, marked: Any, *, near: bool,
             exact: bool = True) -> Any:
    """The ids of the tokens of a mask that keys or unlike items written may forbid; near: of those after which unlike
    items may need more than U says, and where the walk was not exact, keys. marked: what it says of its tokens."""
    told = _told(space, configuration) if configuration.unlike else 0
    if not told and not len(marked):
        return marked[:, 0]
    flags = NEAR * near + EXACT * exact + KEYS * configuration.used
    return space.room.struck[: choose(space.address, words, marked, told, flags)].copy()


def _told(space: Space, configuration: Configuration) -> int:
    told = int(tell_rivals(space.address, space.load(configuration.threads, configuration.answer)))
    space.heedless()
    return told


@inner(types.boolean(_i8, _i8))
def _chosen(moves, flags):  # type: ignore[no-untyped-def]
    """Whether a token with these moves is in doubt, whatever items were written."""
    ended, keys = moves // ENDED & _MANY, moves & _MANY
    if flags & NEAR:
        return ended > 0 or (keys > 0 and flags & EXACT == 0)
    return keys > (0 if flags & KEYS else 1) or ended > 1 or (ended == 1 and moves >= BEGUN)


@inner(types.boolean(_u4, _i8))
def _held(words, token):  # type: ignore[no-untyped-def]
    return (words[token >> 5] >> np.uint32(token & 31)) & np.uint32(1) == 1


@entry(_i8(CONTEXT_TYPE, _u4, _i44, _i8, _i8))
def choose(context, words, marked, told, flags):  # type: ignore[no-untyped-def]
    """Writes the ids that `doubtful` returns to the room's struck; returns how many. told: what tell_rivals told, its
    bits in the room's row. flags: as named above."""
    some, found, count = row_of(context), struck_of(context), _i8(0)
    if told & ANY_TOKEN:
        some[:] = np.uint32(0xFFFFFFFF)
    # Inside a string nothing is marked that stays in it.
    stays = told != 0 and (flags & NEAR != 0 or told & (SOME | NARROW) == SOME | NARROW)
    for m in range(marked.shape[0]):
        token, moves = _i8(marked[m, 0]), _i8(marked[m, 1])
        rival = told != 0 and _held(some, token)
        chosen = _chosen(moves, flags) or (rival and flags & NEAR == 0 and moves % BEGUN >= ENDED)
        if chosen and not (stays and rival and _held(words, token)):
            found[count] = token
            count += 1
    for w in range(words.size if stays else 0):
        left = some[w] & words[w]
        token = _i8(32 * w)
        while left != 0:
            if left & np.uint32(1) == 1:
                found[count] = token
                count += 1
            left >>= np.uint32(1)
            token += 1
    return count


def tokens_of(words: Any) -> Any:
    """The tokens of a mask, in order; looked for where there are some."""
    some = np.flatnonzero(words)
    bits = np.flatnonzero(np.unpackbits(words[some].view(np.uint8), bitorder="little"))
    return 32 * some[bits >> 5] + (bits & 31)
