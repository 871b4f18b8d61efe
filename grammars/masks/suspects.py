"""Which tokens may give a free key a second time: the few of those that end a key that are worth an exact test."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import types

from ..binding.context import (
    CONTEXT_TYPE,
    pairs_of,
    rules_of,
    sets_of,
    starts_of,
    states_of,
    text_of,
    unsure_of,
)
from ..binding.tables import DECODED, DISTINCT, KIND, LOW, NARROW, PART, RULE, TIGHT, Tables
from ..ir import CLOSE_KEY, KEY, NEXT_KEY
from ..jit import entry, inner
from ..stepping.key_text import PENDING
from ..stepping.walk import OPEN, REG, STATE
from ..vocabulary import Vocabulary

_TIGHT, _DECODED = 1, 2  # kinds of keys: tight ones (finishing.py), and such as are compared decoded

_i8, _i44, _u1 = types.int64, types.int32[:, ::1], types.uint8[::1]


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _u1))
def _spell_rest(context, key, begun, rest):  # type: ignore[no-untyped-def]
    """Writes what a key has behind the one that it begins with to the end of `rest`; returns where that begins, -1
    where it does not begin so, -2 without room."""
    pairs, at = pairs_of(context), rest.size
    while key > begun:
        if at == 0:
            return _i8(-2)
        at -= 1
        rest[at] = pairs[key, 1]
        key = _i8(pairs[key, 0])
    return _i8(at if key == begun else -1)


@inner(types.boolean(CONTEXT_TYPE, _i8, _u1, _i8, _i8))
def _leads(context, token, rest, begin, tight):  # type: ignore[no-untyped-def]
    """Whether a token begins with all of rest[begin:] and goes on, or (tight) stays on the way to its end."""
    text, at, end = text_of(context), starts_of(context)[token], starts_of(context)[token + 1]
    k = begin
    while at < end and k < rest.size and text[at] == rest[k]:
        at += 1
        k += 1
    return (k == rest.size and at < end) or (tight == 1 and at == end)


@inner(types.void(CONTEXT_TYPE, _i8, _u1, _u1, _i8))
def _suspect_all(context, count, ending, escaping, kinds):  # type: ignore[no-untyped-def]
    """Makes those of unsure[:count] suspect that are so whatever was written: such a token is told as -1 - itself."""
    unsure, text, starts = unsure_of(context), text_of(context), starts_of(context)
    for k in range(count):
        token = unsure[k, 0]
        found = kinds & _TIGHT == 0 and unsure[k, 1] >= 2
        for at in range(starts[token], starts[token + 1] if kinds & _TIGHT != 0 else starts[token]):
            found = found or ending[text[at]] == 1
        if found or (kinds & _DECODED != 0 and escaping[token] == 1):
            unsure[k, 0] = -1 - token


@entry(_i8(CONTEXT_TYPE, _i44, _i8, _u1, _u1, _u1, _i8))
def sift(context, threads, count, ending, escaping, rest, kinds):  # type: ignore[no-untyped-def]
    """Leaves of unsure[:count] those suspect with these threads, in order; returns how many.

    ending: [256] 1 for bytes that end a free key; escaping: [tokens] 1 for those with an escape; rest: room for a key;
    kinds: of the grammar's keys."""
    unsure, states, rules, pairs, sets = (unsure_of(context), states_of(context), rules_of(context), pairs_of(context),
                                          sets_of(context))
    for t in range(threads.shape[0]):
        begun = threads[t, OPEN]
        if begun <= 0 or states[threads[t, STATE], KIND] < DISTINCT or (
                kinds & _DECODED != 0 and pairs[begun, 1] >= PENDING):
            return count
    _suspect_all(context, count, ending, escaping, kinds)
    left, every = _i8(0), False
    for t in range(threads.shape[0]):
        written = _i8(threads[t, REG] - rules[states[threads[t, STATE], RULE], LOW])
        while written > 0 and not every:
            begin = _spell_rest(context, _i8(sets[written, 1]), _i8(threads[t, OPEN]), rest)
            every = begin == -2 or (begin == rest.size and kinds & _TIGHT == 0)
            for k in range(count if 0 <= begin < rest.size else 0):
                if unsure[k, 0] >= 0 and _leads(context, _i8(unsure[k, 0]), rest, begin, _i8(kinds & _TIGHT)):
                    unsure[k, 0] = -1 - unsure[k, 0]
            written = _i8(sets[written, 0])
    for k in range(count):
        token, moves = unsure[k, 0], unsure[k, 1]
        if token < 0 or every:
            unsure[left, 0], unsure[left, 1] = -1 - token if token < 0 else token, moves
            left += 1
    return left


class Suspects:
    """For one grammar and vocabulary. A token is suspect when it goes on from the open key to one that was written,
    when it ends one key and then another, where keys are
    compared decoded, when it has an escape, and, where keys are tight (finishing.py), when it stays on the way to a key
    that was written."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary) -> None:
        self._tables = tables
        self._escaping = vocabulary.escaping.view(np.uint8)

    @cached_property
    def _kinds(self) -> int:
        states, rules = self._tables.states, self._tables.rules
        narrow = (states[:, KIND] == DISTINCT) & (states[:, PART] == NARROW)
        return _TIGHT * bool(rules[:, TIGHT].any() or narrow.any()) + _DECODED * bool(rules[:, DECODED].any())

    @cached_property
    def _ending(self) -> Any:
        """uint8 [256]: 1 for the bytes that end a free key."""
        actions = self._tables.edges[:, 2]
        ends = np.isin(actions, (CLOSE_KEY, NEXT_KEY)) | (actions >= KEY)
        return np.isin(self._tables.classes, self._tables.edges[ends, 3]).view(np.uint8)

    def among(self, context: int, count: int, threads: Any, longest: int) -> int:
        """Leaves of the room's unsure[:count] only those that may give a key that was written before, in order; returns
        how many. longest: of such keys, in bytes."""
        return int(sift(context, threads, count, self._ending, self._escaping, np.empty(longest + 1, np.uint8),
                        self._kinds))
