"""The rules of a grammar side by side in a few arrays, so that what is asked of all of them is asked at once."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np

from .ir import Counter, Grammar, Members, Register, Unlike

# columns of `edges` and of `calls`
OWNER, SOURCE, BYTE_LOW, BYTE_HIGH, TARGET, ACTION = 0, 1, 2, 3, 4, 5
CALLED, CALL_TARGET, CALL_ACTION = 2, 3, 4
NAME_RULE, NAME_BEGIN, NAME_END, NAME_KEY, NAME_TARGET = 0, 1, 2, 3, 4  # columns of `names`
NO_NAMES = -2  # in `others`
PLAIN, COUNTER, ORDER, DISTINCT, MEMBERS, UNLIKE = 0, 1, 2, 3, 4, 5  # values of `kinds`


class Flat(NamedTuple):
    """edges: int64 [n, 6] (rule, source, low, high, target, action); calls: int64 [n, 5] (rule, source, callee, target,
    action); finals: int64 [n, 2] (rule, state); all by rule. states, kinds, properties: int64 by rule; properties: of
    an Order or Members.
    names: int64 [n, 5] (rule, its letters from and to, key, target); letters: code points; others: by rule, NO_NAMES
    for one without (ir.Names)."""

    edges: Any
    calls: Any
    finals: Any
    states: Any
    kinds: Any
    properties: Any
    names: Any
    letters: Any
    others: Any

    def edges_of(self, rule: int) -> Any:
        """Those of one rule: int64 [n, 6]."""
        first, last = np.searchsorted(self.edges[:, OWNER], (rule, rule + 1))
        return self.edges[first:last]


def flatten(grammar: Grammar) -> Flat:
    """Raises ValueError where a rule's edges are not whole."""
    rules = grammar.rules
    packed = np.frombuffer(b"".join([rule.edges for rule in rules]), np.dtype("<i4")).reshape(-1, 5)
    shapes = _numbers(4, [n for rule in rules for n in (len(rule.edges) // 20, rule.states, *_kind(rule.register))])
    edges = np.empty((len(packed), 6), np.int64)
    edges[:, OWNER] = np.arange(len(rules)).repeat(shapes[:, 0])
    edges[:, SOURCE:] = packed
    calls = _numbers(5, [n for i, rule in enumerate(rules) for c in rule.calls
                         for n in (i, c.source, c.rule, c.target, c.action)])
    finals = _numbers(2, [n for i, rule in enumerate(rules) for state in rule.finals for n in (i, state)])
    states, kinds, properties = (np.ascontiguousarray(shapes[:, column]) for column in (1, 2, 3))
    return Flat(edges, calls, finals, states, kinds, properties, *_names(grammar))


def _names(grammar: Grammar) -> tuple[Any, Any, Any]:
    """(names, letters, others)"""
    some = [(i, rule.names) for i, rule in enumerate(grammar.rules) if rule.names is not None]
    texts = [text for _, names in some for text in names.names]
    others = np.full(len(grammar.rules), NO_NAMES, np.int64)
    for i, found in some:
        others[i] = found.others
    names = np.empty((len(texts), NAME_TARGET + 1), np.int64)
    names[:, [NAME_RULE, NAME_KEY, NAME_TARGET]] = _numbers(3, [
        n for i, found in some for key, target in zip(found.keys, found.targets, strict=True)
        for n in (i, key, target)])
    lengths = _numbers(1, [len(text) for text in texts])[:, 0]
    names[:, NAME_END] = lengths.cumsum()
    names[:, NAME_BEGIN] = names[:, NAME_END] - lengths
    letters = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.dtype("<u4")).astype(np.int64)
    return names, letters, others


def _numbers(columns: int, flat: list[int]) -> Any:
    """int64 [n, columns]."""
    return np.array(array("q", flat)).reshape(-1, columns)


def _kind(register: Register | None) -> tuple[int, int]:
    """The kind of a register, and how many properties it has."""
    if register is None:
        return PLAIN, 0
    if isinstance(register, Counter):
        return COUNTER, 0
    if isinstance(register, Members):
        return MEMBERS, len(register.required)
    if isinstance(register, Unlike):
        return UNLIKE, 0
    return (DISTINCT if register.distinct else ORDER), len(register.required)
