"""What a grammar's masks by hubs work with: its hubs, and the loops of the vocabulary that they were seen to need."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..binding.context import HUBS, Context
from ..binding.tables import BACK, CALLED_RULE, CALLS, CALLS_END, COUNTER, FINAL, KIND, RULE, Tables
from ..vocabulary import Vocabulary
from .hubs import DEAD_GROUPS
from .loops import Loop
from .spread import ADDRESS, AT, BYTES, FOUND, LARGE, THEN, WORTH

_ITEMS, _BUNDLES, _COUPLES, _SETS, _LOOPS = 1 << 10, 16, 64, 32, 128  # the most of each


class Spreading:
    """address: of the context that `spread` takes."""

    def __init__(self, tables: Tables, vocabulary: Vocabulary) -> None:
        self._loops = vocabulary.loops
        self._sets, self._table = np.zeros((_SETS + 1, DEAD_GROUPS + 1), np.int64), np.zeros((_LOOPS, 7), np.int64)
        self._wanted = np.zeros(WORTH + 1, np.int64)
        self._wanted[LARGE], self._wanted[WORTH] = self._loops.worth // 2, self._loops.worth
        self._kept: list[Loop] = []
        self._context = Context(HUBS.end)
        self._context.put(HUBS, (np.zeros((len(tables.states), 4), np.int32), self._sets,
                                 np.zeros((_COUPLES, 2), np.int32), self._table, np.zeros((_ITEMS, 8), np.int64),
                                 np.zeros((_BUNDLES, 7), np.int64), self._wanted, _follow(tables)))
        self.address = self._context.address

    def fetch(self) -> None:
        """Puts the loop that a walk wants among those it finds."""
        if len(self._kept) == _LOOPS:
            self._kept.clear()
        wanted: list[int] = self._wanted.tolist()
        then: list[int] = self._sets[wanted[THEN]].tolist()
        loop = self._loops.get(wanted[AT], wanted[BYTES: THEN], then)
        row = self._table[len(self._kept)]
        row[:ADDRESS], row[ADDRESS] = wanted[:ADDRESS], loop.context.address
        self._kept.append(loop)
        self._wanted[FOUND] = len(self._kept)


def _follow(tables: Tables) -> Any:
    """uint8 [rules, classes]: 1 where a byte of the class may be read where the rule returns."""
    called, back = tables.calls[:, CALLED_RULE], tables.calls[:, BACK]
    found, reads = np.zeros_like(tables.first), (tables.go[back] != -1).astype(np.uint8)
    begin, end = tables.states[back, CALLS], tables.states[back, CALLS_END]
    for k in np.flatnonzero(begin < end).tolist():
        reads[k] |= tables.first[called[begin[k]: end[k]]].max(axis=0)
    again = tables.states[back, FINAL] == 1
    before = -1
    while before != (before := int(found.sum())):
        np.maximum.at(found, called, np.where(again[:, None], reads | found[tables.states[back, RULE]], reads))
    return found


def spreads(tables: Tables) -> bool:
    """Whether a grammar has no registers but counts."""
    return bool((tables.states[:, KIND] <= COUNTER).all())
