"""What an item of a list costs at most when it must be unlike those before: law 4 at compile time, as item_costs.py has
it for texts. The search itself (another.py) spells values of at most so many bytes, more of them until they are as many
as the list must have."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba import types

from .binding.arena import FEW, FULL, RETURN, SETS, TEXT, WITHIN, intern_node, intern_pair, say
from .binding.context import CONTEXT_TYPE, costs_of, counts_of, nodes_of, states_of, threads_of, trail_of
from .binding.flat import CALL_TARGET, CALLED, OWNER, UNLIKE
from .binding.tables import BASE, FAR, RULE, START, Layout, Tables, contains
from .errors import ConstraintTooLarge
from .ir import Unlike
from .jit import entry, inner
from .masks.space import Space
from .stepping.another import begin_way, next_way
from .stepping.item_text import value_of
from .vocabulary import Vocabulary

# Items that a list must have: each is compared with those found before.
_MOST = 1_000
_NODES, _THREADS = 1 << 20, 256
_AGAIN = 2_000  # texts in a row of items found before, as of keys in another order
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
        found = space.retried(mark, partial(dearest, space.address, start, after, many, cheapest))
        if found >= FAR:
            raise ConstraintTooLarge(f"{many} items that differ by value were not found", keyword="uniqueItems",
                                     where=where, fix="Use a smaller minItems.")
        worst = max(worst, found - cheapest)
    return worst


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _different(context, start, node, many, limit):  # type: ignore[no-untyped-def]
    """How many different items over a node a search finds within a limit, `many` at most; -1 in trouble."""
    threads, after = threads_of(context), _i8(nodes_of(context)[node, RETURN])
    first, register, place, count, again = _i8(-1 - states_of(context)[after, RULE]), _i8(0), _i8(0), _i8(0), 0
    counts_of(context)[TEXT] = say(context, _i8(1), _i8(0x5B))
    threads[0, 0], threads[0, 1], threads[0, 2], threads[0, 3], threads[0, 4] = start, 0, node, 0, 0
    begin_way(context, _i8(0), node)
    while count < many and again < _AGAIN:
        found = next_way(context, _i8(0), node, limit, place)
        if found == _FAR:
            break
        value = value_of(context) if found >= 0 else _i8(0)
        if value == 0:
            return _i8(-1)
        place, again = found >> 32, again + 1
        if not contains(context, register, value):
            again = 0
            register, count = intern_pair(context, SETS, register if register > 0 else first, value), count + 1
            if register == 0:
                return _i8(-1)
    counts_of(context)[TEXT] = 0
    return count


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def dearest(context, start, after, many, least):  # type: ignore[no-untyped-def]
    """Bytes of the longest of the `many` shortest different items that a search finds; FAR when there are not so many,
    -1 in trouble. start: of the item's rule; after: where the list goes on; least: bytes of the shortest item."""
    node = intern_node(context, _i8(0), after, _i8(0), _i8(0), _i8(0), _i8(FEW | WITHIN))
    below, last = costs_of(context)[node], _i8(trail_of(context).shape[0])
    low, high, more = least, least, _i8(1)
    while True:
        count = _different(context, start, node, many, high + below)
        if count < 0 or counts_of(context)[FULL] == 1:
            return _i8(-1)
        if count >= many:
            break
        if high >= last:
            return _i8(_FAR)
        low, high, more = high + 1, min(last, high + more), 2 * more
    while low < high:
        middle = (low + high) // 2
        count = _different(context, start, node, many, middle + below)
        if count < 0 or counts_of(context)[FULL] == 1:
            return _i8(-1)
        if count >= many:
            high = middle
        else:
            low = middle + 1
    return high
