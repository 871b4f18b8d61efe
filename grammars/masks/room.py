"""The room in which an explorer's compiled code works: what it reads from Python and leaves for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..stepping.stretches import SLOTS
from ..stepping.walk import QUEUE, REPORT
from ..vocabulary import Vocabulary
from .levels import LISTED

# Bytes of an item that must be unlike others, members and levels that are open in it, and bytes of a search's way, or
# that a key has in common with one that was written.
_LONGEST_ITEM, _MOST_MEMBERS, _DEEPEST = 1 << 20, 1 << 19, 1 << 12


class Room(NamedTuple):
    """The arrays of context.ROOM. text, starts: of all tokens (vocabulary.py). words: the mask at hand, uint32 [words];
    row, local: of composing.py. Of the others the files say more that context.py names."""

    threads: Any
    queue: Any
    report: Any
    text: Any
    starts: Any
    words: Any
    row: Any
    local: Any
    marked: Any
    offsets: Any
    crossed: Any
    stretches: Any
    kinds: Any
    known: Any
    dead: Any
    levels: Any
    dive: Any
    struck: Any
    unsure: Any
    item: Any
    places: Any
    trail: Any


def room_for(vocabulary: Vocabulary, threads: int, *, unlike: bool) -> Room:
    """Room for walks over a vocabulary, and for so many threads. unlike: items are compared by value."""
    longest, most = (_LONGEST_ITEM, _MOST_MEMBERS) if unlike else (0, 0)
    words, row, local = (np.zeros(vocabulary.words, np.uint32) for _ in range(3))
    offsets, crossed = (np.zeros(vocabulary.longest + 3, np.int64) for _ in range(2))
    return Room(threads=_buffer(threads), queue=_queue(QUEUE), report=np.zeros(REPORT, np.int64),
                text=vocabulary.text, starts=vocabulary.starts, words=words, row=row, local=local,
                marked=np.empty((vocabulary.size, 2), np.int32), offsets=offsets, crossed=crossed,
                stretches=np.zeros((vocabulary.longest + 2, 4), np.int32), kinds=np.zeros((SLOTS, 256), np.uint8),
                known=np.zeros((SLOTS + 1, 4), np.int32), dead=np.zeros((LISTED, 256), np.uint8),
                levels=np.zeros((vocabulary.longest + 3, 4), np.int32), dive=np.zeros((_DEEPEST, 4), np.int32),
                struck=np.empty(vocabulary.size, np.int32), unsure=np.empty((vocabulary.size, 2), np.int32),
                item=np.zeros((3, longest), np.uint8), places=np.zeros(2 * most, np.int32),
                trail=np.zeros((_DEEPEST if unlike else 0, 4), np.int64))


def widened(room: Room, threads: int) -> Room:
    """The same room for more threads, and for as many frames that one enters or leaves for a byte."""
    return room._replace(threads=_buffer(threads), queue=_queue(threads))


def _buffer(threads: int) -> Any:
    return np.zeros((threads, 5), np.int32)


def _queue(frames: int) -> Any:
    return np.zeros((frames, 3), np.int32)
