"""Law 4: how much each state needs to finish its frame (Knuth's generalisation of Dijkstra, 1977).

First in bytes, then shortened by the tokens along that way (shortening.py), or solved anew in tokens (token_paths.py).

A byte edge costs 1 when some byte of it is a token of its own, else it is closed to this path; a call costs what its
rule costs from its start. A path over one-byte tokens can always be emitted, so its length in bytes is a safe upper
bound of the tokens needed: masks allow longer tokens and other ways, never fewer. Forced text (law 5) may take more
tokens than the bound: it is dropped where the budget has no room for them (matcher.py).

Registers only grow, so the columns of a rule are solved from the last to the first, each to its own fixed point; rules
are solved callees first, again whenever a callee became nearer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import types

from ..binding.arena import NO_KEYS
from ..binding.assembly import build_tables
from ..binding.columns import next_column
from ..binding.context import (
    ARENA,
    CONTEXT_TYPE,
    TABLES,
    TRIE,
    Context,
    distance_of,
    next_required_of,
    rules_of,
    states_of,
)
from ..binding.finishing import finish
from ..binding.flat import ACTION, CALLED, COUNTER, DISTINCT, MEMBERS, OWNER, UNLIKE, Flat
from ..binding.tables import BASE, FAR, FINAL, KIND, LEAST, LISTED, LOW, NEXT, START, SURPLUS, Layout, Tables
from ..binding.trie import Trie
from ..errors import MissingByte, Unsatisfiable
from ..ir import CLOSE_KEY, NEXT_KEY, OPEN_KEY, Grammar, Unlike
from ..jit import entry, inner
from ..missing_bytes.gaps import GAP, bridge, has_gaps
from .alike_parts import mark_alike
from .ample import mark_ample
from .arcs import Arcs, arrange
from .free_key_costs import free_key_price, several_free_keys
from .item_costs import surplus
from .member_costs import fill_unwritten, solve_members
from .shortening import shorten
from .solving import (
    arrives_of,
    begins_of,
    called_of,
    callers_of,
    columns_of,
    into_of,
    linked_by_rule_of,
    linked_of,
    price_calls,
    queue_of,
    rows_of,
    solving_context,
    waits_of,
)
from .token_moves import read_tokens
from .token_paths import behind, regular, room, solve_exactly

_i8, _i44, _i4, _u1 = types.int64, types.int32[:, ::1], types.int32[::1], types.uint8[::1]


@inner(_i8(_i44, _i8, _i4, _i44, _i8, _i8, _i4, _i4))
def _through(rows, e, distance, states, kind, column, bounds, following):  # type: ignore[no-untyped-def]
    """The cost of a row in a column, from its target on included."""
    target, action, cost = rows[e, 1], rows[e, 2], rows[e, 3]
    low = bounds[LOW]
    if kind == DISTINCT and column == low + 2 and action in (OPEN_KEY, NEXT_KEY):
        return _i8(cost)
    after = next_column(kind, action, column, bounds, following)
    if after < 0 or cost >= FAR:
        return _i8(FAR)
    rest = distance[states[target, BASE] + after]
    if kind == DISTINCT and action == CLOSE_KEY and column == low and distance[states[target, BASE] + low + 1] < FAR:
        rest = distance[states[target, BASE] + low + 1]
    return min(_i8(FAR), _i8(cost) + _i8(rest))


@inner(types.boolean(_i8, _i8, _i4, _i4))
def _may_return(kind, column, bounds, following):  # type: ignore[no-untyped-def]
    low = bounds[LOW]
    if kind == COUNTER:
        return column >= low
    return following.size == 0 or following[min(column, low)] >= low


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def _solve(context, solving, rule):  # type: ignore[no-untyped-def]
    """Fills the distances of one rule, column by column, going back from what became nearer. solving: of solving.py."""
    states, rules, distance, rows = states_of(context), rules_of(context), distance_of(context), rows_of(solving)
    price_calls(context, solving, rule)
    begins, into, arrives = begins_of(solving), into_of(solving), arrives_of(solving)
    queue, waits = queue_of(solving), waits_of(solving)
    columns, bounds, next_required = columns_of(solving)[rule], rules[rule], next_required_of(context)
    start = bounds[START]
    end = rules[rule + 1, START] if rule + 1 < rules.shape[0] else states.shape[0]
    kind, low = states[start, KIND], bounds[LOW]
    following = next_required[bounds[NEXT]: bounds[NEXT] + low + 1] if kind > COUNTER else next_required[:0]
    for turn in range(columns):
        column = columns - 1 - turn
        if kind == DISTINCT and turn < 2:  # the first of these is asked about by the second
            column = low + 1 + turn
        frozen = kind == DISTINCT and column == low + 2
        may_return = not frozen and _may_return(kind, column, bounds, following)
        for s in range(start, end):
            distance[states[s, BASE] + column] = 0 if may_return and states[s, FINAL] == 1 else FAR
        head, tail = 0, 0
        for e in range(begins[rule], begins[rule + 1]):
            s = rows[e, 0]
            cost = _through(rows, e, distance, states, kind, column, bounds, following)
            if cost < distance[states[s, BASE] + column]:
                distance[states[s, BASE] + column] = cost
                if waits[s] == 0:
                    waits[s] = 1
                    queue[tail % queue.size] = s
                    tail += 1
        while head < tail:
            t = queue[head % queue.size]
            head += 1
            waits[t] = 0
            for k in range(arrives[t], arrives[t + 1]):
                e = into[k]
                s = rows[e, 0]
                cost = _through(rows, e, distance, states, kind, column, bounds, following)
                if cost < distance[states[s, BASE] + column]:
                    distance[states[s, BASE] + column] = cost
                    if waits[s] == 0:
                        waits[s] = 1
                        queue[tail % queue.size] = s
                        tail += 1


@inner(types.void(_i44, _i4, _i8, _i4, _i4, _u1))
def _callees_first(calls, calls_of, start, order, stack, seen):  # type: ignore[no-untyped-def]
    """Fills order with all rules, in post-order of the calls, `start` first of the roots; `seen`, 0, with 1. stack:
    room for twice as many numbers as calls and rules."""
    count = 0
    for root in range(-1, order.size):
        top = 0
        stack[0] = start if root < 0 else root
        while top >= 0:
            rule = stack[top]
            top -= 1
            if rule < 0:
                order[count] = -1 - rule
                count += 1
            elif seen[rule] == 0:
                seen[rule] = 1
                top += 1
                stack[top] = -1 - rule
                for k in range(calls_of[rule], calls_of[rule + 1]):
                    if seen[calls[k, 1]] == 0:
                        top += 1
                        stack[top] = calls[k, 1]


@entry(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i4, _i4, _u1))
def _solve_all(context, solving, start, order, stack, dirty):  # type: ignore[no-untyped-def]
    """Solves the rules callees first, again whenever a callee became nearer. start, order, stack: of _callees_first.
    dirty: by rule, 0."""
    _callees_first(linked_of(solving), linked_by_rule_of(solving), start, order, stack, dirty)
    callers, called = callers_of(solving), called_of(solving)
    states, rules, distance = states_of(context), rules_of(context), distance_of(context)
    changed = True
    while changed:
        changed = False
        for rule in order:
            if dirty[rule] == 0:
                continue
            dirty[rule] = 0
            at = states[rules[rule, START], BASE]
            before = distance[at]
            if states[rules[rule, START], KIND] == MEMBERS:
                solve_members(context, solving, _i8(rule))
            else:
                _solve(context, solving, _i8(rule))
            if distance[at] < before:
                changed = True
                for k in range(called[rule], called[rule + 1]):
                    dirty[callers[k]] = 1


def _fill(context: Context, tables: Tables, grammar: Grammar, layout: Layout, available: Any, held: Any,
          unlike: Any = None) -> tuple[int, Arcs, Any, Context]:
    """Solves all rules. Returns the start rule's cost, FAR when it cannot finish; the rows; the rules callees first;
    what was solved. unlike: as item_prices gives them."""
    present = layout.flat.present
    prices = np.zeros((len(layout.rules), 2), np.int32)
    for index in _lists(layout):
        tables.rules[index, SURPLUS] = prices[index, 0] = surplus(
            layout.rules[index].register, layout.flat.edges_of(index), available)
    if unlike is not None:
        prices[:, 0] -= unlike
        tables.rules[:, SURPLUS] += unlike
    several = several_free_keys(layout.flat, layout.starts) if DISTINCT in present else {}
    if MEMBERS in present:
        context.put(ARENA, NO_KEYS)  # no set of keys is made here
    found = _solved(context, tables, grammar, layout, available, held, prices)
    for _ in several:  # the price of one may be in the values of another
        if not _price_keys(tables, layout, available, several, prices):
            break
        found = _solved(context, tables, grammar, layout, available, held, prices)
    return int(tables.distance[layout.bases[grammar.start]]), *found


def _solved(context: Context, tables: Tables, grammar: Grammar, layout: Layout, available: Any, held: Any,
            prices: Any) -> tuple[Arcs, Any, Context]:
    """Solves all rules once. prices: of arrange."""
    arrays = arrange(layout.flat, layout.starts, layout.column_counts, available, held, prices)
    count = len(layout.rules)
    order, stack = np.empty(count, np.int32), np.empty(2 * (count + len(arrays.calls)) + 2, np.int32)
    solving = solving_context(arrays, layout.keys(available), layout.states, counted=MEMBERS in layout.flat.present)
    _solve_all(context.address, solving.address, grammar.start, order, stack, np.zeros(count, np.uint8))
    return arrays, order, solving


def _lists(layout: Layout) -> list[int]:
    """The rules of lists of different items that may have more than one."""
    edges = layout.flat.edges
    if DISTINCT not in layout.flat.present:
        return []
    return np.unique(edges[edges[:, ACTION] == NEXT_KEY, OWNER]).tolist()  # type: ignore[no-any-return]


def _price_keys(tables: Tables, layout: Layout, available: Any, several: dict[int, int], prices: Any) -> bool:
    """Prices of the free keys of objects that must have several, as distances are now; whether some became more."""
    more = False
    for index, least in several.items():
        if not tables.rules[index, LISTED]:
            price = free_key_price(tables, layout.flat, layout.starts, index, least, available)
            more = more or price > prices[index, 1]
            tables.rules[index, LEAST] = least
            tables.rules[index, SURPLUS] = prices[index, 1] = max(price, int(prices[index, 1]))
    return more


def compile_tables(grammar: Grammar, layout: Layout, single: Any, wide: Sequence[bytes], trie: Trie,
                   heads: Any, unlike: Any = None) -> Tables:
    """Tables with distances, dead edges removed. single: uint8 [256], bytes that are tokens of their own. wide: tokens
    that hold other bytes. trie: the tokens. heads: its nodes of one and two bytes (trie.py). unlike: prices of such
    items, once they are known (item_prices.py).

    Raises MissingByte when only bytes without a token stand in the way, Unsatisfiable when no text fits at all.
    """
    if wide and any(isinstance(rule.register, Unlike) and rule.register.alike for rule in layout.rules):
        raise MissingByte("two equal items of a list are written byte by byte, and some bytes are no token",
                          where=grammar.rules[grammar.start].pointer,
                          fix="Use a model whose vocabulary has all bytes.")
    tables, context = build_tables(layout, single), Context()
    context.put(TABLES, tables)
    context.put(TRIE, trie)
    moves = read_tokens(context, tables, trie, behind(layout)) if regular(layout, grammar.start) else None
    if moves is not None and layout.widen(room(layout, moves)):
        tables = build_tables(layout, single)
        context.put(TABLES, tables)
    held = np.zeros(256, np.uint8)
    if wide:
        held[[*set(b"".join(wide))]] = 1
    cost, arrays, order, solving = _fill(context, tables, grammar, layout, single, held, unlike)
    if cost >= FAR:
        raise _cause(grammar, layout, single)
    if UNLIKE in layout.flat.present:
        order = _outside_items(layout.flat, order)
        for rule in {*np.flatnonzero(layout.flat.kinds == MEMBERS).tolist()} - {*order.tolist()}:
            fill_unwritten(context.address, rule)
    shorten(context, arrays, order, heads, solving, entries=len(tables.distance))
    if moves is not None:
        solve_exactly(context, tables, layout, grammar.start, moves)
    elif wide and has_gaps(tables):
        bridge(tables, layout, single, wide, order)
    if wide and tables.distance[layout.bases[grammar.start]] >= GAP:
        raise _cause(grammar, layout, single)
    finish(context, tables, layout)
    if UNLIKE in layout.flat.present:
        mark_alike(tables, layout)
        mark_ample(context, tables)
    return tables


def _outside_items(flat: Flat, order: Any) -> Any:
    """The rules that no unlike item has inside, callees first. In the others distances stay bytes: along these another
    item is searched (another.py)."""
    called: dict[int, list[int]] = {}
    for owner, callee in flat.calls[:, [OWNER, CALLED]].tolist():
        called.setdefault(owner, []).append(callee)
    queue = [callee for rule in np.flatnonzero(flat.kinds == UNLIKE).tolist() for callee in called.get(rule, ())]
    inside = {*queue, *np.flatnonzero(flat.kinds == UNLIKE).tolist()}
    for rule in queue:  # grows while it runs
        more = [callee for callee in called.get(rule, ()) if callee not in inside]
        inside.update(more)
        queue += more
    return np.array([rule for rule in order.tolist() if rule not in inside], np.int32)


def _cause(grammar: Grammar, layout: Layout, single: Any) -> MissingByte | Unsatisfiable:
    root, available = grammar.rules[grammar.start], np.ones(256, np.uint8)
    if not _closes(grammar, layout, available):
        return Unsatisfiable(f"no finite text fits {root.name}", where=root.pointer)
    for byte in np.flatnonzero(single == 0).tolist():
        available[byte] = 0
        if not _closes(grammar, layout, available):
            break
    return MissingByte(f"every text of this constraint needs the byte 0x{byte:02X}, which no token is",
                       where=root.pointer, fix="Use a model whose vocabulary has that byte.")


def _closes(grammar: Grammar, layout: Layout, available: Any) -> bool:
    """Whether some text has none but these bytes."""
    tables, context = build_tables(layout, available), Context()
    context.put(TABLES, tables)
    return _fill(context, tables, grammar, layout, available, np.zeros(256, np.uint8))[0] < FAR
