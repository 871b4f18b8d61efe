"""Accepting a token: where a configuration stands after it, and the number of the configuration found there.

A configuration is a set of threads (walk.py), kept once: equal sets have equal numbers, from 1 on, as they were met.
What Python knows of one it keeps by that number (configuration.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.arena import FULL, KEYS, NODES, SETS, TEXT, undo
from ..binding.context import (
    CONTEXT_TYPE,
    MET,
    Context,
    counts_of,
    met_of,
    met_slots_of,
    spans_of,
    starts_of,
    text_of,
    threads_of,
    told_of,
)
from ..jit import entry, inner
from ..stepping.advancing import advance, nearest_alive
from ..stepping.another import ANY
from ..stepping.crowded import keep_nearest
from ..stepping.settled import arrange, settle, within_list
from ..stepping.walk import ARENA_FULL, CROWDED

# columns of spans: which rows of `met` are the threads of a configuration, and what arena.TEXT is there
BEGIN, END, ANSWER = 0, 1, 2
# slots of `told`: how many configurations and threads are kept, the most threads that one may have; of the one
# accepted last its threads, what they hold (settled.settle), U, and arena.TEXT; after how many tokens readings were
# left out (crowded.py); the most nodes, keys or sets of the arena
FOUND, KEPT, MOST, THREADS, USED, DISTANCE, SAID, LEFT_OUT, FILLED = 0, 1, 2, 3, 4, 5, 6, 7, 8
SETS_FULL = -3  # a kind of trouble beside those of walk.py

_i8 = types.int64
_FIRST = 256  # configurations that there is room for at first


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _hash(context, begin, end, answer):  # type: ignore[no-untyped-def]
    met, h = met_of(context), _i8(end - begin + (answer << 8))
    for t in range(begin, end):
        for c in range(4):
            h = ((h ^ met[t, c]) * 0x9E3779B1) & 0x7FFFFFFFFFFF
            h ^= h >> 17
    return h


@entry(_i8(CONTEXT_TYPE, _i8, _i8))
def intern(context, count, answer):  # type: ignore[no-untyped-def]
    """The number of the configuration of the room's threads[:count], which are settled and sorted, behind an answer
    (arena.TEXT); SETS_FULL."""
    threads, met, spans, slots, told = (
        threads_of(context), met_of(context), spans_of(context), met_slots_of(context), told_of(context))
    begin, number = told[KEPT], told[FOUND]
    end = begin + count
    if end > met.shape[0] or number >= spans.shape[0]:
        return _i8(SETS_FULL)
    for t in range(count):
        for c in range(5):
            met[begin + t, c] = threads[t, c]
    mask = slots.size - 1
    at = _hash(context, begin, end, answer) & mask
    while slots[at] != 0:
        other = spans[slots[at], BEGIN]
        equal = spans[slots[at], END] - other == count and spans[slots[at], ANSWER] == answer
        for t in range(count if equal else 0):
            for c in range(4):
                equal = equal and met[other + t, c] == met[begin + t, c]
        if equal:
            return _i8(slots[at])
        at = (at + 1) & mask
    slots[at] = number
    spans[number, BEGIN], spans[number, END], spans[number, ANSWER] = begin, end, answer
    told[FOUND], told[KEPT] = number + 1, end
    return number


@entry(types.void(CONTEXT_TYPE))
def _rehash(context):  # type: ignore[no-untyped-def]
    spans, slots = spans_of(context), met_slots_of(context)
    mask = slots.size - 1
    for number in range(1, told_of(context)[FOUND]):
        row = spans[number]
        at = _hash(context, _i8(row[BEGIN]), _i8(row[END]), _i8(row[ANSWER])) & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = number


@inner(_i8(CONTEXT_TYPE, _i8))
def _find(context, count):  # type: ignore[no-untyped-def]
    """Settles and sorts the room's threads[:count], which live, and tells of them; returns their number, SETS_FULL; 0
    when none can end."""
    told, most = told_of(context), _i8(told_of(context)[MOST])
    if count > most:
        count = keep_nearest(context, count, most)
        told[LEFT_OUT] += 1 if count > 0 else 0
    told[THREADS] = count
    told[DISTANCE] = nearest_alive(context, count, _i8(ANY)) if count > 0 else count - 1  # as it says these
    if told[DISTANCE] == -2:
        return _i8(ARENA_FULL if counts_of(context)[FULL] == 1 else CROWDED)
    if told[DISTANCE] < 0:
        return _i8(0)
    told[USED] = settle(context, count)
    if count > 1:
        arrange(context, count)
    counts = counts_of(context)
    told[FILLED], told[SAID] = max(counts[NODES], counts[KEYS], counts[SETS]), 0
    if counts[TEXT] > 0 and within_list(context, count):
        told[SAID] = counts[TEXT]
    return intern(context, count, _i8(told[SAID]))


@entry(_i8(CONTEXT_TYPE, _i8, _i8))
def accept(context, number, token):  # type: ignore[no-untyped-def]
    """The number of the configuration after a token; its threads are the room's, `told` describes it. 0: the token
    cannot be read, or nothing that follows it closes the text.

    In trouble CROWDED, ARENA_FULL or SETS_FULL. The arena keeps only what a configuration needs that was not met
    before.
    """
    counts, spans, starts = counts_of(context), spans_of(context), starts_of(context)
    met, threads = met_of(context), threads_of(context)
    if token < 0 or token + 1 >= starts.size or starts[token] == starts[token + 1]:
        return _i8(0)
    nodes, keys, sets, before = counts[NODES], counts[KEYS], counts[SETS], told_of(context)[FOUND]
    begin = spans[number, BEGIN]
    count = _i8(spans[number, END] - begin)
    for t in range(count):
        for c in range(5):
            threads[t, c] = met[begin + t, c]
    counts[TEXT] = spans[number, ANSWER]
    count = advance(context, count, text_of(context), starts[token], starts[token + 1])
    found = _i8(ARENA_FULL if counts[FULL] == 1 else CROWDED if count < 0 else 0)
    if found == 0 and count > 0:
        found = _find(context, count)
    counts[TEXT] = 0
    if found < before:
        undo(context, nodes, keys, sets)
    return found


class Arrays(NamedTuple):
    """spans: by number, which rows of `met` are its threads, and its answer; slots: a hash table of the numbers;
    told: see above."""

    spans: Any
    met: Any
    slots: Any
    told: Any


class Met:
    """The configurations met so far, in arrays that the compiled code of a context reads and grows into."""

    def __init__(self, context: Context, most: int) -> None:
        """most: threads that one may have."""
        self._context = context
        self._begin(np.array([1, 0, most, 0, 0, 0, 0, 0, 0], np.int64))

    def clear(self) -> None:
        """Forgets them: numbers begin at 1 again."""
        told = self._arrays.told
        told[[FOUND, KEPT]] = 1, 0
        self._begin(told)

    def _begin(self, told: Any) -> None:
        self._put(Arrays(*_room(_FIRST, 2 * _FIRST), told))

    def _put(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self.told = arrays.told.data
        self._context.put(MET, arrays)

    def grow(self) -> None:
        """Makes room for four times as many."""
        old = self._arrays
        new = Arrays(*_room(4 * len(old.spans), 4 * len(old.met)), old.told)
        new.spans[: len(old.spans)] = old.spans
        new.met[: len(old.met)] = old.met
        self._put(new)
        _rehash(self._context.address)


def _room(configurations: int, threads: int) -> tuple[Any, Any, Any]:
    return (np.zeros((configurations, 3), np.int32), np.zeros((threads, 5), np.int32),
            np.zeros(4 * configurations, np.int32))
