"""The invariants of a grammar, checked where it is bound to a vocabulary: after it crossed a border, before the engine
sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InvalidConstraint
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
    OWNER,
    SOURCE,
    TARGET,
    Flat,
    flatten,
)
from .ir import CLOSE_KEY, COUNT, ESCAPED, IR_VERSION, KEY, MEET, NEXT_KEY, NOTHING, OPEN_KEY, WRITTEN, Grammar

_EDGE_BYTES = 20
_SYMBOLS = ESCAPED + 0x110000  # bytes, and escapes of characters


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
    flat = flatten(grammar)
    flat = _verify_edges(grammar, flat)
    _verify_calls(grammar, flat)
    _verify_actions(grammar, flat, flat.edges[:, OWNER], flat.edges[:, ACTION])
    _verify_actions(grammar, flat, flat.calls[:, OWNER], flat.calls[:, CALL_ACTION])
    _verify_empty(grammar, flat)
    _verify_left_recursion(grammar, flat)
    return flat


def _fail(grammar: Grammar, number: int, message: str) -> None:
    rule = grammar.rules[number]
    raise BrokenGrammar(f"rule {number} ({rule.name}): {message}", where=rule.pointer)


def _check(grammar: Grammar, owners: Any, wrong: Any, message: str) -> None:
    """Refuses the first of these that is wrong."""
    if wrong.any():
        _fail(grammar, int(owners[np.argmax(wrong)]), message)


def _outside(values: Any, limit: Any) -> Any:
    return (values < 0) | (values >= limit)


def _verify_edges(grammar: Grammar, flat: Flat) -> Flat:
    """Gives the rules with their edges sorted."""
    edges, owners = flat.edges, flat.edges[:, OWNER]
    states, low, high = flat.states[owners], edges[:, BYTE_LOW], edges[:, BYTE_HIGH]
    wrong = _outside(edges[:, SOURCE], states) | _outside(edges[:, TARGET], states) | (low < 0) | (low > high)
    _check(grammar, owners, wrong | (high >= np.where(low < ESCAPED, ESCAPED, _SYMBOLS)), "an edge is out of range")
    place = ((np.cumsum(flat.states) - flat.states)[owners] + edges[:, SOURCE]) * _SYMBOLS
    first, last = place + low, place + high
    escapes = low >= ESCAPED
    if escapes.any():
        _verify_escapes(grammar, edges, place, escapes)
    if (first[1:] < first[:-1]).any():  # the compiler sorts its edges
        order = np.argsort(first, kind="stable")
        first, last, edges, owners = first[order], last[order], edges[order], owners[order]
    _check(grammar, owners[1:], first[1:] <= last[:-1], "two edges of a state overlap")
    finals = flat.finals
    _check(grammar, finals[:, 0], _outside(finals[:, 1], flat.states[finals[:, 0]]), "a final state is out of range")
    return flat._replace(edges=edges)


def _verify_escapes(grammar: Grammar, edges: Any, place: Any, escapes: Any) -> None:
    """place: ascends with the state; escapes: whether an edge is one."""
    owners, low, high = edges[:, OWNER], edges[:, BYTE_LOW], edges[:, BYTE_HIGH]
    code = low - ESCAPED
    _check(grammar, owners, escapes & (code < 0xE000) & (high - ESCAPED >= 0xD800), "an escape of half a pair")
    backslash = (low <= 0x5C) & (high >= 0x5C)
    _check(grammar, owners, backslash & np.isin(place, place[escapes]), "a backslash beside escapes")
    before, after = place[escapes] + code[escapes], edges[escapes][:, ACTION]
    together = place[escapes][1:] == place[escapes][:-1]
    wrong = (before[1:] < before[:-1]) | (together & (after[1:] != after[:-1]))
    _check(grammar, owners[escapes][1:], wrong, "escapes out of order, or with different actions")


def _verify_calls(grammar: Grammar, flat: Flat) -> None:
    calls, owners = flat.calls, flat.calls[:, OWNER]
    states, action = flat.states[owners], calls[:, CALL_ACTION]
    wrong = _outside(calls[:, SOURCE], states) | _outside(calls[:, CALL_TARGET], states)
    _check(grammar, owners, wrong | _outside(calls[:, CALLED], len(grammar.rules)), "a call is out of range")
    _check(grammar, owners, np.isin(action, (OPEN_KEY, CLOSE_KEY, NEXT_KEY)), "a call opens or closes a key")


def _verify_actions(grammar: Grammar, flat: Flat, owners: Any, actions: Any) -> None:
    kinds = flat.kinds[owners]
    orders = (actions == OPEN_KEY) | (actions == CLOSE_KEY) | (
        (actions >= KEY) & (actions < KEY + flat.properties[owners]))
    values = (actions == WRITTEN) | (actions == MEET)
    fits = ((actions == NOTHING) | ((actions == COUNT) & (kinds == COUNTER)) | (orders & (kinds > COUNTER))
            | (values & (kinds == MEMBERS)) | ((actions == NEXT_KEY) & (kinds == DISTINCT)))
    _check(grammar, owners, ~fits, "an action does not fit the register")


def _verify_empty(grammar: Grammar, flat: Flat) -> None:
    """Only the start rule may accept the empty text. No rule is empty, so a call never is: state 0 decides."""
    called = np.ones(len(grammar.rules), bool)
    called[grammar.start] = (flat.calls[:, CALLED] == grammar.start).any()
    owners = flat.finals[:, 0]
    _check(grammar, owners, (flat.finals[:, 1] == 0) & called[owners], "it accepts the empty text")


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
