"""What an item of a list costs at most when it must be unlike those before: law 4 at compile time, as item_costs.py has
it for texts. The search itself (another.py) spells as many values as the list must have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .another import ANY, find_way
from .arena import FEW, FULL, SETS, TEXT, WITHIN, intern_node, intern_pair, say
from .context import CONTEXT_TYPE, counts_of, states_of, threads_of
from .errors import ConstraintTooLarge
from .flat import CALL_TARGET, CALLED, OWNER, UNLIKE
from .ir import Unlike
from .item_text import value_of
from .jit import entry, inner
from .space import Space
from .tables import BASE, FAR, RULE, START, Layout, Tables
from .vocabulary import Vocabulary

# Items that a list must have: each takes a search.
_MOST = 1_000
_NODES, _THREADS = 1 << 20, 256
_HALVES = 8  # searches for a shorter item
_i8 = types.int64
_FAR = FAR


def item_prices(tables: Tables, layout: Layout, vocabulary: Vocabulary) -> Any:
    """int32, by rule: how many bytes an item of unlike ones costs at most beside the cheapest, in a list of as many as
    it must have. Raises ConstraintTooLarge where they are too many, or not found."""
    prices = np.zeros(len(layout.rules), np.int32)
    for rule in np.flatnonzero(layout.flat.kinds == UNLIKE).tolist():
        register = layout.rules[rule].register
        if isinstance(register, Unlike) and register.least > 1:
            prices[rule] = _price(tables, layout, vocabulary, rule, register)
    # What is inside an item may have to pay such prices too.
    return np.where(prices > 0, prices.sum(), 0).astype(np.int32)


def _price(tables: Tables, layout: Layout, vocabulary: Vocabulary, rule: int, register: Unlike) -> int:
    where, worst, least, few = layout.rules[rule].pointer, 0, register.least, dict(register.few)
    if least > _MOST:
        raise ConstraintTooLarge(f"a list must have {least} items that differ by value; the limit is {_MOST}",
                                 keyword="minItems", where=where, fix="Use a smaller bound.")
    calls = layout.flat.calls[layout.flat.calls[:, OWNER] == rule]
    for callee, back in dict(calls[:, [CALLED, CALL_TARGET]].tolist()).items():  # any place behind it will do
        start, space = int(tables.rules[callee, START]), Space(tables, vocabulary, nodes=_NODES, threads=_THREADS)
        cheapest = int(tables.distance[tables.states[start, BASE]])
        if cheapest >= FAR:
            continue
        mark, after, many = space.arena.mark(), layout.offsets[rule] + back, few.get(callee, least)
        found = space.retried(mark, lambda space=space, start=start, after=after, many=many: int(  # type: ignore[misc]
            dearest(space.address, start, after, many)))
        if found >= FAR:
            raise ConstraintTooLarge(f"{many} items that differ by value were not found", keyword="uniqueItems",
                                     where=where, fix="Use a smaller minItems.")
        worst = max(worst, found - cheapest)
    return worst


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _within(context, start, node, limit):  # type: ignore[no-untyped-def]
    """What another.find_way says of an item over a node; arena.TEXT is the answer there."""
    counts, threads = counts_of(context), threads_of(context)
    before = _i8(counts[TEXT])
    threads[0, 0], threads[0, 1], threads[0, 2], threads[0, 3], threads[0, 4] = start, 0, node, 0, 0
    found = find_way(context, _i8(0), node, limit)
    if found >= _FAR:
        counts[TEXT] = before
    return found


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _shorter(context, start, node, least):  # type: ignore[no-untyped-def]
    """The shortest way that searches find, by halves; one has more than `least` bytes. As _within else."""
    counts = counts_of(context)
    before = _i8(counts[TEXT])
    found, tries = _within(context, start, node, _i8(ANY)), 0
    after = _i8(counts[TEXT])
    while 0 <= least < found < _FAR and counts[FULL] == 0 and tries < _HALVES:
        limit, tries = (least + found) // 2, tries + 1
        counts[TEXT] = before
        nearer = _within(context, start, node, _i8(limit))
        if nearer < 0:
            return _i8(-1)
        if nearer <= limit:
            found, after = nearer, _i8(counts[TEXT])
        else:
            least = limit + 1
    counts[TEXT] = after
    return found


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def dearest(context, start, after, many):  # type: ignore[no-untyped-def]
    """Bytes of the longest of the first `many` different items that a search finds, each no longer than the longest
    before where there is such a one; FAR when there are not so many, -1 in trouble. start: of the item's rule; after:
    where the list goes on."""
    counts = counts_of(context)
    register, longest = _i8(0), _i8(0)
    for _ in range(many):
        text = counts[TEXT] = say(context, _i8(1), _i8(0x5B))
        node = intern_node(context, _i8(0), after, register, _i8(0), _i8(2 if register > 0 else 0), _i8(FEW | WITHIN))
        found = _within(context, start, node, longest)
        if found >= _FAR:
            counts[TEXT] = text
            found = _shorter(context, start, node, longest + 1)
        if found < 0 or counts[FULL] == 1:
            return _i8(-1)
        if found >= _FAR:
            return found
        value = value_of(context)
        first = _i8(-1 - states_of(context)[after, RULE])
        register = intern_pair(context, SETS, register if register > 0 else first, value)
        if counts[FULL] == 1:
            return _i8(-1)
        longest = max(longest, found)
    counts[TEXT] = 0
    return longest
