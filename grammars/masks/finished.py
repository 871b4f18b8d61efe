"""The finished masks of a grammar, found by what they depend on (signature.py): a hash table that compiled code reads.

A *kept* row stands for a signature. A walk tells how far it looked below a configuration, so a mask is kept by that
much of it; what every mask depends on, the *near* signature, has a row too, which tells how far such walks looked. A
mask of one thread that looks at nothing below is kept there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, FINISHED, Context, answer_of, kept_of, kept_slots_of, signed_of
from ..binding.tables import Tables
from ..bodies.body_walk import nodes_by_class
from ..bodies.spreading import Spreading, spreads
from ..jit import entry, inner
from ..rows import Row
from ..vocabulary import Vocabulary
from .signature import longest_signature, sign

# columns of `kept`: where the signature lies in `signed`; how far walks looked, as bits; of the mask, how far its walk
# looked, how much U can grow by one of its tokens (-1: there is no mask), and where its marks lie
BEGIN, END, DEPTHS, DEPTH, GROWTH, MARKS, MARKS_END = 0, 1, 2, 3, 4, 5, 6
# slots of `answer`: the ends of what is kept, the longest token, the nodes from which on a walk is not light
# (looking.py), the address of what masks by hubs need (spreading.py; 0: none are made); of the mask at hand, the same
# as in `kept`, how many of its marked tokens are struck and unsure, and whether it was walked just now
KEPT, SIGNED, MARKED_ALL, REACH, WORTH, HUBS_AT, FAR_LOOKED, GROWS, MARKED_HERE, STRUCK, UNSURE, FRESH = range(12)
NO_ROOM, WANTS_LOOP = -1, -2
_MOST, _MOST_MARKS = 1 << 14, 1 << 20  # signatures, and marks: where there are more, all are forgotten

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _hash(finished, begin, end):  # type: ignore[no-untyped-def]
    signed, h = signed_of(finished), _i8(end - begin)
    for k in range(begin, end):
        h = ((h ^ signed[k]) * 0x9E3779B1) & 0x7FFFFFFFFFFF
        h ^= h >> 17
    return h


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def find_kept(context, finished, count, ends, looked, make):  # type: ignore[no-untyped-def]
    """The row of the signature of the room's threads[:count] to that depth, 0 where there is none unless it is to be
    made; NO_ROOM."""
    kept, signed, slots, answer = kept_of(finished), signed_of(finished), kept_slots_of(finished), answer_of(finished)
    begin, number = answer[SIGNED], answer[KEPT]
    if begin + longest_signature(count, looked) > signed.size or number >= kept.shape[0]:
        return _i8(NO_ROOM)
    end = sign(context, count, ends, looked, answer[REACH], signed, begin)
    mask = slots.size - 1
    at = _hash(finished, begin, end) & mask
    while slots[at] != 0:
        other = kept[slots[at], BEGIN]
        equal = kept[slots[at], END] - other == end - begin
        for k in range(end - begin if equal else 0):
            if signed[other + k] != signed[begin + k]:
                equal = False
                break
        if equal:
            return _i8(slots[at])
        at = (at + 1) & mask
    if make == 0:
        return _i8(0)
    slots[at] = number
    kept[number, BEGIN], kept[number, END], kept[number, DEPTHS], kept[number, GROWTH] = begin, end, 0, -1
    answer[KEPT], answer[SIGNED] = number + 1, end
    return number


@entry(types.void(CONTEXT_TYPE))
def _rehash(finished):  # type: ignore[no-untyped-def]
    kept, slots = kept_of(finished), kept_slots_of(finished)
    mask = slots.size - 1
    for number in range(1, answer_of(finished)[KEPT]):
        at = _hash(finished, kept[number, BEGIN], kept[number, END]) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = number


class Mask(msgspec.Struct):
    """A finished mask. less: its row without some of its marked tokens, by their ids, where there is such a row."""

    row: Row
    less: dict[bytes, Row] | None = None


class _Arrays(NamedTuple):
    """The arrays of context.FINISHED. weights: by class of bytes, the nodes of the vocabulary that begin so."""

    kept: Any
    signed: Any
    slots: Any
    marks: Any
    answer: Any
    weights: Any


class Finished:
    """masks: by the number that `look` and `keep` give them. address: of the context of these arrays."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary) -> None:
        self._weights = np.empty(tables.go.shape[1], np.int64)
        nodes_by_class(tables.classes, vocabulary.bodies.first, self._weights)
        self._spreading = Spreading(tables, vocabulary) if spreads(tables) else None
        hubs = self._spreading.address if self._spreading is not None else 0
        self._about = (vocabulary.longest, vocabulary.bodies.worth, hubs)
        self._context = Context(FINISHED.end)
        self.address = self._context.address
        self.masks: dict[int, Mask] = {}
        self.clear()

    def clear(self) -> None:
        """Forgets them."""
        self.masks.clear()
        answer = np.zeros(FRESH + 1, np.int64)
        answer[KEPT], answer[REACH], answer[WORTH], answer[HUBS_AT] = 1, *self._about
        self._put(_Arrays(*_room(1 << 8, 1 << 12, 1 << 10), answer, self._weights))

    def _put(self, arrays: _Arrays) -> None:
        self._arrays = arrays
        self.answer = arrays.answer.data
        self._context.put(FINISHED, arrays)

    def make_room(self, trouble: int) -> None:
        """Does what compiled code asked for by NO_ROOM or WANTS_LOOP."""
        if trouble == WANTS_LOOP and self._spreading is not None:
            self._spreading.fetch()
        else:
            self.grow()

    def grow(self, marked: int = 0) -> None:
        """Makes room for four times as much of what is half full (or of all, where nothing is), and for so many marks
        more; or forgets all, when there were too many."""
        if self.answer[KEPT] > _MOST or self.answer[MARKED_ALL] > _MOST_MARKS:
            self.clear()
        old, used = self._arrays, (self.answer[KEPT], self.answer[SIGNED], self.answer[MARKED_ALL] + marked)
        full = [2 * n >= len(array) for n, array in zip(used, (old.kept, old.signed, old.marks), strict=True)]
        grown = full if any(full) else [True] * 3
        new = old._replace(kept=_enlarged(old.kept, grown[0]), signed=_enlarged(old.signed, grown[1]),
                           marks=_enlarged(old.marks, grown[2], marked),
                           slots=np.zeros(16 * len(old.kept), np.int32) if grown[0] else old.slots)
        self._put(new)
        if grown[0]:
            _rehash(self.address)


def _enlarged(array: Any, grown: bool, more: int = 0) -> Any:
    """An array with room for four times as much and `more`, where it is `grown`."""
    if not grown:
        return array
    larger = np.zeros((4 * len(array) + more, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _room(kept: int, signed: int, marks: int) -> tuple[Any, Any, Any, Any]:
    return (np.zeros((kept, 7), np.int64), np.zeros(signed, np.int64), np.zeros(4 * kept, np.int32),
            np.zeros((marks, 2), np.int32))
