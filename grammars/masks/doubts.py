"""Which tokens of a mask are worth an exact test because items of a list must be unlike: few, as a rule.

A walk marks those that end an item (walk.ENDED), begin one or move to where few values are left; which tokens may lead
to a value that was written is told along these values (rivals.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..stepping.rivals import ANY_TOKEN, NARROW, SOME, tell_rivals
from ..stepping.walk import BEGUN, ENDED
from .space import Space

if TYPE_CHECKING:
    from .configuration import Configuration

_MANY = ENDED - 1


def doubtful(space: Space, configuration: Configuration, words: Any, marked: Any, *, near: bool,
             exact: bool = True) -> Any:
    """The ids of the tokens of a mask that keys or unlike items written may forbid; near: of those after which unlike
    items may need more than U says, and where the walk was not exact, keys. marked: what it says of its tokens."""
    told = _told(space, configuration) if configuration.unlike else 0
    if not told and not len(marked):
        return marked[:, 0]
    marks = marked[:, 1]
    ended, keys = marks // ENDED & _MANY, marks & _MANY
    if near:
        chosen = (ended > 0) | ((keys > 0) & (not exact))
    else:
        chosen = (keys > (0 if configuration.used else 1)) | (ended > 1) | ((ended == 1) & (marks >= BEGUN))
    if not told:
        return marked[chosen, 0]
    some = np.full_like(words, 0xFFFFFFFF) if told & ANY_TOKEN else space.room.row
    if not near:
        chosen |= (marks % BEGUN >= ENDED) & _held(some, marked[:, 0])
        if told & (SOME | NARROW) != SOME | NARROW:
            return marked[chosen, 0]
    # Inside a string nothing is marked that stays in it.
    rivals = some & words
    return np.concatenate((marked[chosen & ~_held(rivals, marked[:, 0]), 0], tokens_of(rivals)))


def _told(space: Space, configuration: Configuration) -> int:
    told = int(tell_rivals(space.address, space.load(configuration.threads, configuration.answer)))
    space.heedless()
    return told


def _held(words: Any, tokens: Any) -> Any:
    """[tokens] whether the bits of these tokens are set."""
    return words[tokens >> 5] >> (tokens & 31).astype(np.uint32) & 1 == 1


def tokens_of(words: Any) -> Any:
    """The tokens of a mask, in order; looked for where there are some."""
    some = np.flatnonzero(words)
    bits = np.flatnonzero(np.unpackbits(words[some].view(np.uint8), bitorder="little"))
    return 32 * some[bits >> 5] + (bits & 31)
