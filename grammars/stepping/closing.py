"""How far a running frame is from its end, with the free keys it holds: law 4 while generating.

Where no free key was written the answer is a table entry. Where some were, another key must still exist, and the
shortest may be used: then the shortest unused one is searched along the tree of used keys. Objects in any order:
members.py.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import BEGUN_AT, STARTS
from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    distance_of,
    edges_of,
    go_of,
    rules_of,
    sets_of,
    single_of,
    states_of,
)
from ..binding.tables import (
    BASE,
    DISTINCT,
    EDGES,
    EDGES_END,
    FAR,
    KIND,
    LEAST,
    LISTED,
    LOW,
    MEMBERS,
    PLAIN,
    REACH,
    RULE,
    column,
)
from ..ir import OPEN_KEY
from ..jit import inner
from .members import members_remaining
from .new_keys import new_key

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _open_new_key(context, state, keys, low):  # type: ignore[no-untyped-def]
    """Bytes from the begin of the next free key behind a state to the frame's end: of the one that may come, or the
    worst of all of the rule; remembered with the set."""
    rules, rule, begin = rules_of(context), states_of(context)[state, RULE], states_of(context)[state, REACH] - 1
    edges, known = edges_of(context), sets_of(context)[keys]
    if known[STARTS] >= 0 and known[BEGUN_AT] == begin:
        return _i8(known[STARTS])
    worst, last = _i8(-1), _i8(-1)
    for e in range(rules[rule, EDGES], rules[rule, EDGES_END]):
        if edges[e, 2] == OPEN_KEY and edges[e, 1] != last and (begin < 0 or edges[e, 1] == begin):
            last = _i8(edges[e, 1])
            cost = new_key(context, _i8(edges[e, 1]), _i8(1), keys, low)
            if cost < _FAR:
                worst = max(worst, cost)
    known[STARTS], known[BEGUN_AT] = worst if worst >= 0 else _i8(_FAR), begin
    return _i8(known[STARTS])


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _fewer(context, keys, least):  # type: ignore[no-untyped-def]
    """Whether the set has fewer keys than that: what free_key_costs.py counts the next ones at holds."""
    sets = sets_of(context)
    while keys > 0 and least > 0:
        keys = _i8(sets[keys, 0])
        least -= 1
    return least > 0


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _next_item(context, state, keys, low):  # type: ignore[no-untyped-def]
    """Bytes to the end of a list that must go on, from a state between items: one way leads to the next. Those behind
    it are counted at a price that one of them has whatever was written (item_costs.py)."""
    classes, single = classes_of(context), single_of(context)
    go, edges, length = go_of(context), edges_of(context), 0
    while length < go.shape[0]:
        entry = _i8(-1)
        for byte in range(256):
            if go[state, classes[byte]] != -1 and single[byte] == 1:
                entry = _i8(go[state, classes[byte]])
        if entry == -1:
            return _i8(_FAR)
        length += 1
        if entry <= -2:
            rest = new_key(context, _i8(edges[-2 - entry, 1]), _i8(1), keys, low)
            return min(_i8(_FAR), length + rest)
        state = entry
    return _i8(_FAR)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def remaining(context, state, register, key, exact):  # type: ignore[no-untyped-def]
    """Bytes that the frame in (state, register) needs to its end; FAR or more when it cannot.

    key: the open free key, 0 for none. exact 0: as if no free key had been written.
    """
    states, distance, rules = states_of(context), distance_of(context), rules_of(context)
    base = _i8(states[state, BASE])
    if states[state, KIND] == PLAIN:
        return _i8(distance[base])
    if states[state, KIND] == MEMBERS:
        return members_remaining(context, state, register, key, exact)
    rule = _i8(states[state, RULE])
    low = _i8(rules[rule, LOW])
    if exact == 0 or states[state, KIND] != DISTINCT or register <= low:
        return _i8(distance[base + column(context, state, register)])
    if key > 0:
        return new_key(context, state, key, register - low, low)
    alone = _i8(distance[base + low + 1])
    way = _i8(distance[base + low + 2])
    if way >= _FAR:
        return alone
    if alone <= way:
        return alone
    if rules[rule, LISTED] == 0 and alone >= _FAR and _fewer(context, register - low, _i8(rules[rule, LEAST])):
        return _i8(distance[base + low])
    if rules[rule, LISTED] == 0:
        return min(alone, way + _open_new_key(context, state, register - low, low))
    return alone if alone < _FAR else _next_item(context, state, register - low, low)
