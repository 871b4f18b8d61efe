"""Rules become tables (tables.py), distances aside."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
from numba import types

from ..ir import NOTHING, Members, Order, Unlike
from ..jit import entry, inner
from .flat import ACTION, BYTE_HIGH, BYTE_LOW, CALL_ACTION, CALL_TARGET, CALLED, OWNER, SOURCE, TARGET
from .member_keys import FREE_KEYS, KEYS_BEGIN
from .tables import (
    ALIKE,
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
    RANKED,
    REACH,
    REACH_END,
    RULE,
    SIZE,
    START,
    Layout,
    Tables,
)

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_i4, _i44, _u1 = types.int32[::1], types.int32[:, ::1], types.uint8[::1]
_OF_MEMBER = RANKED + 1  # columns of `members`
_MOST_ACTING = 1 << 32


def build_tables(layout: Layout, single: Any) -> Tables:
    """The arrays, with every distance still FAR (distance.py fills them) and `first` still 0."""
    flat, classes, keys = layout.flat, np.zeros(257, np.uint8), layout.keys(single)
    width, acting = divmod(_measure(flat.edges, classes), _MOST_ACTING)
    rules, members, following = _rules(layout, keys.of_rule.tolist())
    states, calls = np.zeros((layout.states, AMPLE + 1), np.int32), np.empty((len(flat.calls), 4), np.int32)
    go, edges = np.empty((layout.states, width), np.int32), np.empty((acting, 4), np.int32)
    distance = np.empty(max(layout.entries, 1), np.int32)
    _fill(flat.edges, flat.finals, flat.calls, flat.kinds, flat.states, layout.starts, layout.base_of,
          layout.column_counts, keys.parts, keys.begins, classes, go, states, rules, calls, edges, distance)
    return Tables(classes[:256].copy(), go, states, rules, calls, edges, np.zeros((len(rules), width), np.uint8),
                  distance, following, single.copy(), members, keys.reach.copy())


def _rules(layout: Layout, keys: list[list[int]]) -> tuple[Any, Any, Any]:
    """The rules but for their edges, the members, and next_required. keys: MemberKeys.of_rule."""
    rows, members, following = array("i"), array("i"), array("i")
    for rule, bounds, start, places in zip(layout.rules, layout.bounds, layout.offsets, keys, strict=True):
        row, register = [0] * (ALIKE + 1), rule.register
        row[LOW], row[PLATEAU], row[HIGH] = bounds
        row[START] = start
        if isinstance(register, Order):
            row[NEXT], row[LISTED], row[DECODED] = len(following), register.least is not None, register.decoded
            following.extend(_next_required(register.required))
        elif isinstance(register, Members):
            row[FIRST], row[DECODED] = len(members) // _OF_MEMBER, register.decoded
            _fill_members(row, register, places)
            for required in register.required:
                members.extend((FAR, required, FAR, -1))
        elif isinstance(register, Unlike):
            row[DECODED] = register.decoded
        rows.extend(row)
    return (np.array(rows).reshape(-1, ALIKE + 1), np.array(members).reshape(-1, _OF_MEMBER),
            np.array(following or array("i", (0,))))


def _fill_members(row: list[int], register: Members, keys: list[int]) -> None:
    """What is known of Members before any distance. keys: MemberKeys.of_rule."""
    row[SIZE], row[NEEDED] = len(register.required), sum(register.required)
    row[LEAST], row[MOST] = register.least, -1 if register.most is None else register.most
    row[KEYS_AT], row[HAS_FREE] = keys[KEYS_BEGIN], keys[FREE_KEYS]
    row[DEMAND], row[FILLER] = register.demand, FAR


def _next_required(required: tuple[bool, ...]) -> list[int]:
    following = [len(required)] * (len(required) + 1)
    for r in range(len(required) - 1, -1, -1):
        following[r] = r if required[r] else following[r + 1]
    return following


@inner(_i8(_i88, _u1))
def _byte_classes(edges, classes):  # type: ignore[no-untyped-def]
    """Fills classes [257], 0: bytes that no edge tells apart have one class. Returns how many there are."""
    for e in range(edges.shape[0]):
        classes[edges[e, BYTE_LOW]] = classes[edges[e, BYTE_HIGH] + 1] = 1
    classes[0] = 0
    for byte in range(1, 256):
        classes[byte] += classes[byte - 1]
    return _i8(classes[255]) + 1


@inner(types.void(_i88, _i88, _i8s, _i8s, _i8s, _i8s, _i8s, _i44, _i44))
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


@inner(_i8(_i88, _u1))
def _count_actions(edges, classes):  # type: ignore[no-untyped-def]
    """How many pairs of an edge with an action and a class of its bytes there are."""
    count = 0
    for e in range(edges.shape[0]):
        if edges[e, ACTION] != NOTHING:
            count += 1 + classes[edges[e, BYTE_HIGH]] - classes[edges[e, BYTE_LOW]]
    return _i8(count)


@inner(types.void(_i88, _i8s, _u1, _i44, _i44, _i44))
def _fill_edges(edges, starts, classes, go, acting, rules):  # type: ignore[no-untyped-def]
    """Enters the edges into `go`, class by class, those with an action into `acting` too: of rule r they are
    acting[rules[r, EDGES]: rules[r, EDGES_END]]."""
    count, rule = 0, 0
    go[:] = -1
    for e in range(edges.shape[0]):
        while rule < edges[e, OWNER]:
            rules[rule, EDGES_END] = count
            rule += 1
            rules[rule, EDGES] = count
        start, action = starts[rule], edges[e, ACTION]
        row, goal = start + edges[e, SOURCE], start + edges[e, TARGET]
        for k in range(classes[edges[e, BYTE_LOW]], classes[edges[e, BYTE_HIGH]] + 1):
            go[row, k] = goal
            if action != NOTHING:
                go[row, k] = -2 - count
                acting[count, 0], acting[count, 1], acting[count, 2], acting[count, 3] = row, goal, action, k
                count += 1
    while rule < starts.size:
        rules[rule, EDGES_END] = count
        rule += 1
        if rule < starts.size:
            rules[rule, EDGES] = count


@entry(_i8(_i88, _u1))
def _measure(edges, classes):  # type: ignore[no-untyped-def]
    """Fills classes as _byte_classes does. Returns how many there are, and _count_actions behind them."""
    width = _byte_classes(edges, classes)
    return width * _MOST_ACTING + _count_actions(edges, classes)


@entry(types.void(_i88, _i88, _i88, _i8s, _i8s, _i8s, _i8s, _i8s, _i4, _i4, _u1, _i44, _i44, _i44, _i44, _i44, _i4))
def _fill(edges, finals, calls, kinds, counts, starts, bases, columns, parts, begins, classes, go, states, rules,  # type: ignore[no-untyped-def]
          linked, acting, distance):
    """All that compiled code can tell of the tables before any distance. parts, begins: of MemberKeys."""
    _fill_states(finals, calls, kinds, counts, starts, bases, columns, states, linked)
    for s in range(states.shape[0]):
        states[s, PART], states[s, REACH], states[s, REACH_END] = parts[s], begins[s], begins[s + 1]
    _fill_edges(edges, starts, classes, go, acting, rules)
    distance[:] = FAR
