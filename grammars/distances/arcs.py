"""Byte edges and calls of all rules, arranged for the search of distances (distance.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..binding.flat import ACTION, BYTE_HIGH, BYTE_LOW, CALL_ACTION, CALL_TARGET, CALLED, OWNER, SOURCE, TARGET, Flat
from ..binding.tables import FAR
from ..ir import NEXT_KEY, OPEN_KEY
from ..jit import entry, inner
from ..missing_bytes.gaps import GAP

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_i4, _i44, _u1 = types.int32[::1], types.int32[:, ::1], types.uint8[::1]


class Arcs(NamedTuple):
    """rows: int32 [n, 7] (state, target, action, cost, least byte or -1, rule that is called or -1, how many bytes are
    tokens of their own); those of rule r are rows[begins[r]: begins[r + 1]], the last states first, as most edges lead
    to later ones; into[arrives[s]: arrives[s + 1]] lead to state s. calls: int32 [n, 2] (its row, callee), by caller:
    calls of r are calls[calls_of[r]: calls_of[r + 1]]. callers[called[r]: called[r + 1]]: the rules that call r.
    columns: of each."""

    rows: Any
    begins: Any
    into: Any
    arrives: Any
    calls: Any
    calls_of: Any
    callers: Any
    called: Any
    columns: Any


def arrange(flat: Flat, starts: Any, columns: Any, available: Any, held: Any, prices: Any) -> Arcs:
    """starts, columns: int64, by rule, its first state and how many columns its distances have. available: uint8 [256],
    bytes that are tokens of their own; held: those that longer tokens hold (gaps.py). prices: int32 [rules, 2],
    of NEXT_KEY (negative: of commas, in lists of unlike items) and of OPEN_KEY beside their byte. Calls cost FAR here:
    what they do is not known yet."""
    count, rules, states = len(flat.edges) + len(flat.calls), len(flat.states), sum(flat.states.tolist())
    found = Arcs(np.empty((count, 7), np.int32), np.zeros(rules + 1, np.int32), np.empty(count, np.int32),
                 np.zeros(states + 2, np.int32), np.empty((len(flat.calls), 2), np.int32),
                 np.zeros(rules + 2, np.int32), np.empty(len(flat.calls), np.int32), np.zeros(rules + 2, np.int32),
                 np.empty(rules, np.int32))
    _arrange(flat.edges, flat.calls, flat.states, starts, columns, available, held, prices,
             np.zeros(len(available) + 1, np.int32), np.zeros(states + 1, np.int32), *found)
    return found


@inner(types.void(_i88, _i88, _i8s, _i8s, _i4, _u1, _i44, _i44, _i44, _i4))
def _fill_rows(edges, calls, states, starts, upto, held, prices, rows, linked, places):  # type: ignore[no-untyped-def]
    """Rows by their rule, there by their states, the last first; of one state its edges, then its calls. linked: calls,
    of Arcs. upto: [257], how many bytes below each are tokens. places: by state, 0, and one more."""
    for e in range(edges.shape[0]):
        places[starts[edges[e, OWNER]] + states[edges[e, OWNER]] - edges[e, SOURCE]] += 1
    for c in range(calls.shape[0]):
        places[starts[calls[c, OWNER]] + states[calls[c, OWNER]] - calls[c, SOURCE]] += 1
    for s in range(1, places.size):
        places[s] += places[s - 1]
    for e in range(edges.shape[0]):
        owner, least, action = edges[e, OWNER], edges[e, BYTE_LOW], edges[e, ACTION]
        mirrored = starts[owner] + states[owner] - 1 - edges[e, SOURCE]
        ways = upto[edges[e, BYTE_HIGH] + 1] - upto[least]
        while least < 256 and upto[least + 1] == upto[least]:
            least += 1
        cost, inside = _i8(1 if least <= edges[e, BYTE_HIGH] else FAR), edges[e, BYTE_LOW]
        while cost == FAR and inside <= edges[e, BYTE_HIGH]:
            if held[inside] == 1:
                cost, least = _i8(GAP), inside
            inside += 1
        if action in (NEXT_KEY, OPEN_KEY):
            cost = min(_i8(FAR), cost + prices[owner, 0 if action == NEXT_KEY else 1])
        elif prices[owner, 0] < 0 and edges[e, BYTE_LOW] == 0x2C:
            cost = min(_i8(FAR), cost - prices[owner, 0])
        at = places[mirrored]
        places[mirrored] += 1
        rows[at, 0], rows[at, 1] = starts[owner] + edges[e, SOURCE], starts[owner] + edges[e, TARGET]
        rows[at, 2], rows[at, 3], rows[at, 4], rows[at, 5], rows[at, 6] = action, cost, least, -1, ways
    for c in range(calls.shape[0]):
        owner = calls[c, OWNER]
        mirrored = starts[owner] + states[owner] - 1 - calls[c, SOURCE]
        at = places[mirrored]
        places[mirrored] += 1
        rows[at, 0], rows[at, 1] = starts[owner] + calls[c, SOURCE], starts[owner] + calls[c, CALL_TARGET]
        rows[at, 2], rows[at, 3], rows[at, 4], rows[at, 5] = calls[c, CALL_ACTION], FAR, -1, calls[c, CALLED]
        rows[at, 6] = 0
        linked[c, 0], linked[c, 1] = at, calls[c, CALLED]


@inner(types.void(_i44, _i88, _i8s, _i4, _i4, _i4, _i4, _i4, _i4))
def _group(rows, calls, starts, begins, into, arrives, calls_of, callers, called):  # type: ignore[no-untyped-def]
    """What else Arcs has, from its rows. arrives, calls_of, called: 0, and one more than they keep."""
    rule = 0
    for k in range(rows.shape[0]):
        while rule + 1 < starts.size and starts[rule + 1] <= rows[k, 0]:
            rule += 1
            begins[rule] = k
        arrives[rows[k, 1] + 2] += 1
    while rule < starts.size:
        rule += 1
        begins[rule] = rows.shape[0]
    for s in range(1, arrives.size):
        arrives[s] += arrives[s - 1]
    for k in range(rows.shape[0]):
        into[arrives[rows[k, 1] + 1]] = k
        arrives[rows[k, 1] + 1] += 1
    for c in range(calls.shape[0]):
        calls_of[calls[c, OWNER] + 2] += 1
        called[calls[c, CALLED] + 2] += 1
    for r in range(1, called.size):
        calls_of[r] += calls_of[r - 1]
        called[r] += called[r - 1]
    for c in range(calls.shape[0]):
        calls_of[calls[c, OWNER] + 1] += 1
        callers[called[calls[c, CALLED] + 1]] = calls[c, OWNER]
        called[calls[c, CALLED] + 1] += 1


@entry(types.void(_i88, _i88, _i8s, _i8s, _i8s, _u1, _u1, _i44, _i4, _i4, _i44, _i4, _i4, _i4, _i44, _i4, _i4, _i4,
                  _i4))
def _arrange(edges, calls, states, starts, counts, available, held, prices, upto, places, rows, begins, into, arrives,  # type: ignore[no-untyped-def]
             linked, calls_of, callers, called, columns):
    """Fills all of Arcs, from rows on. upto, places: of _fill_rows, 0."""
    for byte in range(available.size):
        upto[byte + 1] = upto[byte] + available[byte]
    _fill_rows(edges, calls, states, starts, upto, held, prices, rows, linked, places)
    _group(rows, calls, starts, begins, into, arrives, calls_of, callers, called)
    for rule in range(counts.size):
        columns[rule] = counts[rule]
