"""Rules become tables (tables.py), distances aside."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from .flat import (
    ACTION,
    BYTE_HIGH,
    BYTE_LOW,
    CALL_ACTION,
    CALL_TARGET,
    CALLED,
    COUNTER,
    OWNER,
    SOURCE,
    TARGET,
)
from .ir import NOTHING, Members, Order
from .jit import entry
from .member_keys import FREE_KEYS, KEYS_BEGIN
from .tables import (
    AMPLE,
    BACK,
    BASE,
    CALLED_RULE,
    CALLEE,
    CALLS,
    CALLS_END,
    DECODED,
    DEMAND,
    EDGES,
    EDGES_END,
    FAR,
    FILLER,
    FINAL,
    FIRST,
    HAS_FREE,
    HIGH,
    KEYS_AT,
    KIND,
    LEAST,
    LISTED,
    LOW,
    MOST,
    NEEDED,
    NEXT,
    ON_RETURN,
    PART,
    PLATEAU,
    REACH,
    REACH_END,
    RULE,
    SIZE,
    START,
    TWO,
    Layout,
    Tables,
)

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_i4, _i44, _u1 = types.int32[::1], types.int32[:, ::1], types.uint8[::1]


def build_tables(layout: Layout, single: Any) -> Tables:
    """The arrays, with every distance still FAR (distance.py fills them) and `first` still 0."""
    flat = layout.flat
    classes = np.zeros(257, np.uint8)
    go = np.full((layout.states, _byte_classes(flat.edges, classes)), -1, np.int32)
    states, calls = np.zeros((layout.states, AMPLE + 1), np.int32), np.empty((len(flat.calls), 4), np.int32)
    _fill_states(flat.finals, flat.calls, flat.kinds, flat.states, layout.starts, layout.base_of, layout.column_counts,
                 states, calls)
    rules = np.zeros((len(layout.rules), TWO + 1), np.int32)
    rules[:, [LOW, PLATEAU, HIGH]] = layout.bounds
    rules[:, START] = layout.starts
    following: list[int] = []
    members: list[tuple[int, int, int, int]] = []
    keys = layout.keys(single)
    states[:, PART], states[:, REACH], states[:, REACH_END] = keys.parts, keys.begins[:-1], keys.begins[1:]
    for index in np.flatnonzero(flat.kinds > COUNTER).tolist():
        rule = layout.rules[index]
        if isinstance(rule.register, Order):
            rules[index, NEXT] = len(following)
            rules[index, LISTED] = rule.register.least is not None
            following += _next_required(rule.register.required)
        rules[index, DECODED] = isinstance(rule.register, Order | Members) and rule.register.decoded
        if isinstance(rule.register, Members):
            _fill_members(rules[index], rule.register, keys.of_rule[index].tolist(), len(members))
            members += [(FAR, int(required), FAR, -1) for required in rule.register.required]
    edges, rules[:, EDGES], rules[:, EDGES_END] = _table_of_edges(flat.edges, layout.starts, classes, go)
    return Tables(classes[:256].copy(), go, states, rules, calls, edges,
                  np.zeros((len(rules), go.shape[1]), np.uint8), np.full(max(layout.entries, 1), FAR, np.int32),
                  np.array(following or [0], np.int32), single.copy(),
                  np.array(members, np.int32).reshape(-1, 4), keys.reach.copy())


def _fill_members(row: Any, register: Members, keys: list[int], first: int) -> None:
    """What is known of Members before any distance. keys: MemberKeys.of_rule."""
    row[FIRST], row[SIZE], row[NEEDED] = first, len(register.required), sum(register.required)
    row[LEAST], row[MOST] = register.least, -1 if register.most is None else register.most
    row[KEYS_AT], row[HAS_FREE] = keys[KEYS_BEGIN], keys[FREE_KEYS]
    row[DEMAND], row[FILLER] = register.demand, FAR


def _next_required(required: tuple[bool, ...]) -> list[int]:
    following = [len(required)] * (len(required) + 1)
    for r in range(len(required) - 1, -1, -1):
        following[r] = r if required[r] else following[r + 1]
    return following


def _table_of_edges(edges: Any, starts: Any, classes: Any, go: Any) -> tuple[Any, Any, Any]:
    """Fills `go`, all -1. Returns the edges with an action, int32 [n, 4], and where those of
    each rule begin and end."""
    acting = np.empty((_count_actions(edges, classes), 4), np.int32)
    begins, ends = (np.zeros(len(starts), np.int32) for _ in range(2))
    _fill_edges(edges, starts, classes, go, acting, begins, ends)
    return acting, begins, ends


@entry(_i8(_i88, _u1))
def _byte_classes(edges, classes):  # type: ignore[no-untyped-def]
    """Fills classes [257], 0: bytes that no edge tells apart have one class. Returns how many there are."""
    for e in range(edges.shape[0]):
        classes[edges[e, BYTE_LOW]] = classes[edges[e, BYTE_HIGH] + 1] = 1
    classes[0] = 0
    for byte in range(1, 256):
        classes[byte] += classes[byte - 1]
    return _i8(classes[255]) + 1


@entry(types.void(_i88, _i88, _i8s, _i8s, _i8s, _i8s, _i8s, _i44, _i44))
def _fill_states(finals, calls, kinds, counts, starts, bases, columns, states, linked):  # type: ignore[no-untyped-def]
    """KIND to RULE of `states`, and `calls` of the tables (linked), by the state that makes them. The rest by rule, of
    flat.py and tables.Layout. states: 0."""
    for rule in range(counts.size):
        for s in range(counts[rule]):
            state = starts[rule] + s
            states[state, RULE], states[state, KIND] = rule, kinds[rule]
            states[state, BASE] = bases[rule] + columns[rule] * s
    for f in range(finals.shape[0]):
        states[starts[finals[f, 0]] + finals[f, 1], FINAL] = 1
    for c in range(calls.shape[0]):
        states[starts[calls[c, OWNER]] + calls[c, SOURCE], CALLS_END] += 1
    at = 0
    for state in range(states.shape[0]):
        many = states[state, CALLS_END]
        states[state, CALLS] = states[state, CALLS_END] = at
        at += many
    for c in range(calls.shape[0]):
        start, called = starts[calls[c, OWNER]], calls[c, CALLED]
        at = states[start + calls[c, SOURCE], CALLS_END]
        states[start + calls[c, SOURCE], CALLS_END] = at + 1
        linked[at, CALLEE], linked[at, BACK] = starts[called], start + calls[c, CALL_TARGET]
        linked[at, ON_RETURN], linked[at, CALLED_RULE] = calls[c, CALL_ACTION], called


@entry(_i8(_i88, _u1))
def _count_actions(edges, classes):  # type: ignore[no-untyped-def]
    """How many pairs of an edge with an action and a class of its bytes there are."""
    count = 0
    for e in range(edges.shape[0]):
        if edges[e, ACTION] != NOTHING:
            count += 1 + classes[edges[e, BYTE_HIGH]] - classes[edges[e, BYTE_LOW]]
    return _i8(count)


@entry(types.void(_i88, _i8s, _u1, _i44, _i44, _i4, _i4))
def _fill_edges(edges, starts, classes, go, acting, begins, ends):  # type: ignore[no-untyped-def]
    """Enters the edges into `go`, class by class, those with an action into `acting` too: of rule r they are
    acting[begins[r]: ends[r]]."""
    count, rule = 0, 0
    for e in range(edges.shape[0]):
        while rule < edges[e, OWNER]:
            ends[rule] = count
            rule += 1
            begins[rule] = count
        start, action = starts[rule], edges[e, ACTION]
        row, goal = start + edges[e, SOURCE], start + edges[e, TARGET]
        for k in range(classes[edges[e, BYTE_LOW]], classes[edges[e, BYTE_HIGH]] + 1):
            go[row, k] = goal
            if action != NOTHING:
                go[row, k] = -2 - count
                acting[count, 0], acting[count, 1], acting[count, 2], acting[count, 3] = row, goal, action, k
                count += 1
    while rule < starts.size:
        ends[rule] = count
        rule += 1
        if rule < starts.size:
            begins[rule] = count
