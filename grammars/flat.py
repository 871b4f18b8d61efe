"""The rules of a grammar side by side in a few arrays, so that what is asked of all of them is asked at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .ir import Counter, Grammar, Members, Order

# columns of `edges` and of `calls`
OWNER, SOURCE, BYTE_LOW, BYTE_HIGH, TARGET, ACTION = 0, 1, 2, 3, 4, 5
CALLED, CALL_TARGET, CALL_ACTION = 2, 3, 4
PLAIN, COUNTER, ORDER, DISTINCT, MEMBERS = 0, 1, 2, 3, 4  # values of `kinds`


class Flat(NamedTuple):
    """edges: int64 [n, 6] (rule, source, low, high, target, action); calls: int64 [n, 5] (rule, source, callee, target,
    action); finals: int64 [n, 2] (rule, state); all by rule. states, kinds, properties: int64 by rule; properties: of
    an Order or Members."""

    edges: Any
    calls: Any
    finals: Any
    states: Any
    kinds: Any
    properties: Any

    def edges_of(self, rule: int) -> Any:
        """Those of one rule: int64 [n, 6]."""
        first, last = np.searchsorted(self.edges[:, OWNER], (rule, rule + 1))
        return self.edges[first:last]


def flatten(grammar: Grammar) -> Flat:
    """Raises ValueError where a rule's edges are not whole."""
    rules = grammar.rules
    packed = np.frombuffer(b"".join([rule.edges for rule in rules]), np.dtype("<i4")).reshape(-1, 5)
    edges = np.empty((len(packed), 6), np.int64)
    edges[:, OWNER] = np.repeat(np.arange(len(rules)), [len(rule.edges) // 20 for rule in rules])
    edges[:, SOURCE:] = packed
    calls = [(i, c.source, c.rule, c.target, c.action) for i, rule in enumerate(rules) for c in rule.calls]
    finals = [(i, state) for i, rule in enumerate(rules) for state in rule.finals]
    registers = [rule.register for rule in rules]
    kinds = [_kind(register) if register is not None else PLAIN for register in registers]
    properties = [len(register.required) if isinstance(register, Order | Members) else 0 for register in registers]
    return Flat(edges, np.array(calls, np.int64).reshape(-1, 5), np.array(finals, np.int64).reshape(-1, 2),
                np.array([rule.states for rule in rules], np.int64), np.array(kinds, np.int64),
                np.array(properties, np.int64))


def _kind(register: Counter | Order | Members) -> int:
    if isinstance(register, Counter):
        return COUNTER
    if isinstance(register, Members):
        return MEMBERS
    return DISTINCT if register.distinct else ORDER
