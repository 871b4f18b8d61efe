"""The rules of a grammar side by side in a few arrays, so that what is asked of all of them is asked at once."""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..ir import CHARACTER, Counter, Grammar, Members, Register, Unlike
from ..jit import entry

# columns of `edges` and of `calls`
OWNER, SOURCE, BYTE_LOW, BYTE_HIGH, TARGET, ACTION = 0, 1, 2, 3, 4, 5
CALLED, CALL_TARGET, CALL_ACTION = 2, 3, 4
NAME_RULE, NAME_BEGIN, NAME_END, NAME_KEY, NAME_TARGET = 0, 1, 2, 3, 4  # columns of `names`
_EDGES, _BY_RULE = 0, 4  # how many edges a rule has; how many numbers by rule there are
NO_NAMES = -2  # in `others`
PLAIN, COUNTER, ORDER, DISTINCT, MEMBERS, UNLIKE = 0, 1, 2, 3, 4, 5  # values of `kinds`
_i8, _i88, _i44 = types.int64, types.int64[:, ::1], types.int32[:, ::1]
_i8s, _u4 = types.int64[::1], types.uint32[::1]


class Flat(NamedTuple):
    """edges: int64 [n, 6] (rule, source, low, high, target, action); calls: int64 [n, 5] (rule, source, callee, target,
    action); finals: int64 [n, 2] (rule, state); all by rule. states, kinds, properties: int64 by rule; properties: of
    an Order or Members.
    names: int64 [n, 5] (rule, its letters from and to, key, target); letters: code points; others: by rule, NO_NAMES
    for one without (ir.Names).
    present: the kinds that some rule has; named: whether some rule has names; characters: how many edges are on
    characters."""

    edges: Any
    calls: Any
    finals: Any
    states: Any
    kinds: Any
    properties: Any
    names: Any
    letters: Any
    others: Any
    present: frozenset[int]
    named: bool
    characters: int

    def edges_of(self, rule: int) -> Any:
        """Those of one rule: int64 [n, 6]."""
        first, last = np.searchsorted(self.edges[:, OWNER], (rule, rule + 1))
        return self.edges[first:last]


def flatten(grammar: Grammar) -> Flat:
    """Raises ValueError where a rule's edges are not whole."""
    rules, shapes, calls, finals, names = grammar.rules, array("q"), array("q"), array("q"), array("q")
    texts: list[str] = []
    present, end = set[int](), 0
    for i, rule in enumerate(rules):
        kind, properties = _kind(rule.register)
        present.add(kind)
        shapes.extend((len(rule.edges) // 20, rule.states, kind, properties,
                       NO_NAMES if rule.names is None else rule.names.others))
        for call in rule.calls:
            calls.extend((i, call.source, call.rule, call.target, call.action))
        for state in rule.finals:
            finals.extend((i, state))
        if rule.names is not None:
            for text, key, target in zip(rule.names.names, rule.names.keys, rule.names.targets, strict=True):
                begin, end = end, end + len(text)
                names.extend((i, begin, end, key, target))
            texts += rule.names.names
    # Compiled code fills the arrays: each operation of NumPy that is used once here takes tens of microseconds.
    packed = np.frombuffer(bytearray().join([rule.edges for rule in rules]), "<i4").reshape(-1, 5)
    edges, by_rule = np.empty((len(packed), ACTION + 1), np.int64), np.empty((_BY_RULE, len(rules)), np.int64)
    points = np.frombuffer(bytearray("".join(texts).encode("utf-32-le", "surrogatepass")), "<u4")
    letters = np.empty(len(points), np.int64)
    characters = _unfold(packed, _table(shapes, 1 + _BY_RULE), points, edges, by_rule, letters)
    return Flat(edges, _table(calls, CALL_ACTION + 1), _table(finals, 2), by_rule[0], by_rule[1], by_rule[2],
                _table(names, NAME_TARGET + 1), letters, by_rule[3], frozenset(present),
                any(rule.names is not None for rule in rules), characters)


def _table(numbers: array[int], columns: int) -> Any:
    """int64 [n, columns]."""
    return np.array(numbers).reshape(-1, columns)


@entry(_i8(_i44, _i88, _u4, _i88, _i88, _i8s))
def _unfold(packed, shapes, points, edges, by_rule, letters):  # type: ignore[no-untyped-def]
    """Fills edges, what is told by rule, and letters. Returns how many edges are on characters."""
    at, characters = 0, 0
    for rule in range(shapes.shape[0]):
        for e in range(at, at + shapes[rule, _EDGES]):
            edges[e, OWNER] = rule
            for column in range(packed.shape[1]):
                edges[e, SOURCE + column] = packed[e, column]
            characters += 1 if edges[e, BYTE_LOW] >= CHARACTER else 0
        at += shapes[rule, _EDGES]
        for k in range(_BY_RULE):
            by_rule[k, rule] = shapes[rule, 1 + k]
    for k in range(points.size):
        letters[k] = points[k]
    return _i8(characters)


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
