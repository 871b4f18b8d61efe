"""The invariants of a grammar, checked where it is bound to a vocabulary: after it crossed a border, before the engine
sees it."""

from __future__ import annotations

import numpy as np
from numba import types

from ..errors import InvalidConstraint
from ..ir import (
    AGAIN,
    ANYWAY,
    CHARACTER,
    CLOSE_KEY,
    COPY,
    COUNT,
    IR_VERSION,
    KEY,
    MEET,
    NEXT_KEY,
    NOTHING,
    OPEN_KEY,
    WRITTEN,
    Grammar,
)
from ..jit import entry, inner
from .flat import (
    ACTION,
    BYTE_HIGH,
    BYTE_LOW,
    CALL_ACTION,
    CALL_TARGET,
    CALLED,
    COUNTER,
    DISTINCT,
    MEMBERS,
    NAME_BEGIN,
    NAME_END,
    NAME_KEY,
    NAME_RULE,
    NAME_TARGET,
    NO_NAMES,
    OWNER,
    SOURCE,
    TARGET,
    UNLIKE,
    Flat,
    flatten,
)

_EDGE_BYTES = 20
_SYMBOLS = CHARACTER + 0x110000  # bytes, and characters
_FAULTS = ("an edge is out of range", "an action does not fit the register", "two edges of a state overlap",
           "half of a pair", "a byte of characters beside characters", "characters with different actions",
           "a call is out of range", "a call opens or closes a key", "a final state is out of range",
           "it accepts the empty text", "something else leads on where its names begin", "a name is out of range",
           "its names do not ascend")
(_RANGE, _ACTION, _OVERLAP, _HALF, _BESIDE, _DIFFERENT, _CALL, _KEYS, _FINAL, _EMPTY, _AT_NAMES, _NAME,
 _NAMES) = range(len(_FAULTS))
_FINE, _UNSORTED, _MAY_RECURSE = -1, -2, -3
_SWEEPS = 64  # over all calls, before another way is taken
_i8, _i8s, _i88, _u1 = types.int64, types.int64[::1], types.int64[:, ::1], types.uint8[::1]


class BrokenGrammar(InvalidConstraint):
    """A grammar that the compiler should not have made, or that was damaged on its way."""


def verify(grammar: Grammar) -> Flat:
    """Raises BrokenGrammar with the rule that is at fault; gives the rules as arrays, edges sorted."""
    if grammar.version != IR_VERSION:
        raise BrokenGrammar(f"version {grammar.version} is not {IR_VERSION}")
    if not 0 <= grammar.start < len(grammar.rules):
        raise BrokenGrammar(f"the start rule {grammar.start} is not one of {len(grammar.rules)} rules")
    for number, rule in enumerate(grammar.rules):
        if rule.states < 1 or len(rule.edges) % _EDGE_BYTES:
            _fail(grammar, number, "no states, or broken edges")
        if rule.names is not None and not len(rule.names.names) == len(rule.names.keys) == len(rule.names.targets):
            _fail(grammar, number, "names without keys or targets")
    flat, blamed, leads = flatten(grammar), np.zeros(1, np.int64), np.zeros(len(grammar.rules), np.uint8)
    fault = _broken(*flat[:9], grammar.start, blamed, leads)
    if fault == _UNSORTED:  # the compiler sorts its edges
        columns = flat.edges[:, [BYTE_LOW, SOURCE, OWNER]].T
        flat = flat._replace(edges=np.ascontiguousarray(flat.edges[np.lexsort(columns)]))
        fault = _broken(*flat[:9], grammar.start, blamed, leads)
    if fault >= 0:
        _fail(grammar, int(blamed[0]), _FAULTS[fault])
    if fault == _MAY_RECURSE:
        _verify_left_recursion(grammar, flat)
    return flat


def _fail(grammar: Grammar, number: int, message: str) -> None:
    rule = grammar.rules[number]
    raise BrokenGrammar(f"rule {number} ({rule.name}): {message}", where=rule.pointer)


@inner(types.boolean(_i8, _i8, _i8))
def _fits(action, kind, properties):  # type: ignore[no-untyped-def]
    """Whether a register of this kind (flat.py) knows the action."""
    if action == COUNT:
        return kind == COUNTER
    if action in (WRITTEN, MEET):
        return kind == MEMBERS
    if action in (AGAIN, COPY, ANYWAY):
        return kind == UNLIKE
    if action == NEXT_KEY:
        return kind == DISTINCT
    if action in (OPEN_KEY, CLOSE_KEY):
        return kind > COUNTER
    return action == NOTHING or (kind > COUNTER and KEY <= action < KEY + properties)


@inner(_i8(_i88, _i8s, _i8s, _i8s, _i8s, _i8s))
def _broken_edge(edges, others, states, kinds, properties, blamed):  # type: ignore[no-untyped-def]
    """Which of _FAULTS the edges have, -1 for none, _UNSORTED when they do not ascend by rule, source and byte.
    blamed[0]: the rule at fault."""
    beside = False  # whether the state has a byte that may be one of a character
    for e in range(edges.shape[0]):
        owner, low, high = edges[e, OWNER], edges[e, BYTE_LOW], edges[e, BYTE_HIGH]
        count, source, target, action = states[owner], edges[e, SOURCE], edges[e, TARGET], edges[e, ACTION]
        blamed[0] = owner
        if not (0 <= source < count and 0 <= target < count and 0 <= low <= high):
            return _i8(_RANGE)
        if others[owner] != NO_NAMES and source == count - 1:
            return _i8(_AT_NAMES)
        if high >= (CHARACTER if low < CHARACTER else _SYMBOLS):
            return _i8(_RANGE)
        if not _fits(action, kinds[owner], properties[owner]):
            return _i8(_ACTION)
        if low >= CHARACTER and low - CHARACTER < 0xE000 and high - CHARACTER >= 0xD800:
            return _i8(_HALF)
        same = e > 0 and edges[e - 1, OWNER] == owner and edges[e - 1, SOURCE] == source
        if e > 0 and edges[e - 1, OWNER] == owner and (
                edges[e - 1, SOURCE] > source or (same and edges[e - 1, BYTE_LOW] > low)):
            return _i8(_UNSORTED)
        if same and edges[e - 1, BYTE_HIGH] >= low:
            return _i8(_OVERLAP)
        beside = (beside and same) or (low < CHARACTER and high >= 0x20 and not low == high == 0x22)
        if low >= CHARACTER and beside:
            return _i8(_BESIDE)
        if same and edges[e - 1, BYTE_LOW] >= CHARACTER and edges[e - 1, ACTION] != action:
            return _i8(_DIFFERENT)
    return _i8(_FINE)


@inner(_i8(_i88, _i88, _i8s, _i8s, _i8s, _i8s, _i8, _i8s))
def _broken_rest(calls, finals, others, states, kinds, properties, start, blamed):  # type: ignore[no-untyped-def]
    """Which of _FAULTS the calls and finals have, -1 for none. blamed[0]: the rule at fault."""
    started = False  # whether the start rule is called
    for c in range(calls.shape[0]):
        owner, action = calls[c, OWNER], calls[c, CALL_ACTION]
        blamed[0] = owner
        if not (0 <= calls[c, SOURCE] < states[owner] and 0 <= calls[c, CALL_TARGET] < states[owner]
                and 0 <= calls[c, CALLED] < states.size):
            return _i8(_CALL)
        if others[owner] != NO_NAMES and calls[c, SOURCE] == states[owner] - 1:
            return _i8(_AT_NAMES)
        if action in (OPEN_KEY, CLOSE_KEY, NEXT_KEY):
            return _i8(_KEYS)
        if not _fits(action, kinds[owner], properties[owner]):
            return _i8(_ACTION)
        started = started or calls[c, CALLED] == start
    for f in range(finals.shape[0]):
        owner, state = finals[f, 0], finals[f, 1]
        blamed[0] = owner
        if not 0 <= state < states[owner]:
            return _i8(_FINAL)
        # No rule is empty, so a call never is: state 0 decides.
        if state == 0 and (owner != start or started):
            return _i8(_EMPTY)
    return _i8(_FINE)


@inner(_i8(_i88, _i8s, _i8s, _i8s, _i8s, _i8s, _i8s))
def _broken_names(names, letters, others, states, kinds, properties, blamed):  # type: ignore[no-untyped-def]
    """Which of _FAULTS the names have, -1 for none. blamed[0]: the rule at fault."""
    for rule in range(states.size):
        blamed[0] = rule
        if others[rule] != NO_NAMES and not (-1 <= others[rule] < states[rule] and kinds[rule] == MEMBERS):
            return _i8(_NAME)
    for n in range(names.shape[0]):
        rule, begin, end = names[n, NAME_RULE], names[n, NAME_BEGIN], names[n, NAME_END]
        blamed[0] = rule
        if not (-1 <= names[n, NAME_KEY] < properties[rule] and 0 <= names[n, NAME_TARGET] < states[rule]):
            return _i8(_NAME)
        for k in range(begin, end):
            if 0xD800 <= letters[k] < 0xE000:
                return _i8(_HALF)
        if n == 0 or names[n - 1, NAME_RULE] != rule:
            continue
        before, last = names[n - 1, NAME_BEGIN], names[n - 1, NAME_END]
        while before < last and begin < end and letters[before] == letters[begin]:
            before, begin = before + 1, begin + 1
        if begin == end or (before < last and letters[before] > letters[begin]):
            return _i8(_NAMES)
    return _i8(_FINE)


@inner(types.boolean(_i88, _u1))
def _may_recurse(calls, leads):  # type: ignore[no-untyped-def]
    """False: no rule calls itself before it has read a byte. True: some does, or that takes long to tell. leads: 0 by
    rule; then 1 for those that call one of these in their first state."""
    for c in range(calls.shape[0]):
        if calls[c, SOURCE] == 0:
            leads[calls[c, OWNER]] = 1
    for _ in range(_SWEEPS):
        changed, c = False, calls.shape[0]
        while c > 0:  # callees mostly come after their callers
            c -= 1
            owner, goes_on = calls[c, OWNER], calls[c, SOURCE] == 0 and leads[calls[c, CALLED]] == 1
            while c > 0 and calls[c - 1, OWNER] == owner:
                c -= 1
                goes_on = goes_on or (calls[c, SOURCE] == 0 and leads[calls[c, CALLED]] == 1)
            if leads[owner] == 1 and not goes_on:
                leads[owner] = 0
                changed = True
        if not changed:
            break
    return leads.any()


@entry(_i8(_i88, _i88, _i88, _i8s, _i8s, _i8s, _i88, _i8s, _i8s, _i8, _i8s, _u1))
def _broken(edges, calls, finals, states, kinds, properties, names, letters, others, start, blamed, leads):  # type: ignore[no-untyped-def]
    """Which of _FAULTS the rules have; _FINE, _UNSORTED, or _MAY_RECURSE. blamed[0]: the rule at fault. leads: of
    _may_recurse."""
    fault = _broken_edge(edges, others, states, kinds, properties, blamed)
    if fault == _FINE:
        fault = _broken_rest(calls, finals, others, states, kinds, properties, start, blamed)
    if fault == _FINE:
        fault = _broken_names(names, letters, others, states, kinds, properties, blamed)
    return _i8(_MAY_RECURSE) if fault == _FINE and _may_recurse(calls, leads) else fault


def _verify_left_recursion(grammar: Grammar, flat: Flat) -> None:
    """No rule calls itself before it has read a byte: depth-first over the calls of state 0, iterative."""
    first: dict[int, list[int]] = {}
    for caller, called in flat.calls[flat.calls[:, SOURCE] == 0][:, [OWNER, CALLED]].tolist():
        first.setdefault(caller, []).append(called)
    path: set[int] = set()
    done: set[int] = set()
    for root in first:
        stack = [(root, False)]
        while stack:
            number, leaving = stack.pop()
            if leaving:
                path.discard(number)
                done.add(number)
            elif number in path:
                _fail(grammar, number, "it calls itself before it reads a byte")
            elif number not in done:
                path.add(number)
                stack.append((number, True))
                stack.extend((called, False) for called in first.get(number, ()))
