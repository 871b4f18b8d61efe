"""Texts of a grammar that need little memory of keys and items: what is looked through for tokens that cross rules.

Of the free keys of an object, and of the items of a list that are told apart by their texts, some are named, in an
order in which they come (keys_written.py finds them); among them comes one at most that is not named. Of lists compared
by value one item is written. Objects in any order keep which keys they have in their states; where these are too many,
no free key is written, and the others come in the order in which they are declared, none that may be one too many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .exits import check_places
from .flat import SOURCE, Flat
from .ir import (
    CLOSE_KEY,
    KEY,
    MEET,
    NEXT_KEY,
    NOTHING,
    OPEN_KEY,
    Call,
    Grammar,
    Members,
    Order,
    Rule,
    Unlike,
    pack_edges,
)
from .names import with_names
from .verify import verify

_WRITTEN_OUT = 1 << 13  # states of an object in any order, by the set of keys written
_Edge = tuple[int, int, int, int, int]
Text = tuple[int, ...]  # what edges read: bytes and characters
_LOST: Text = (-1,)
_BACKSLASH = 0x5C
Marks = Mapping[tuple[int, int], int]  # by source and target of an edge, where a key begins, ends, or both


class Narrowed(NamedTuple):
    """marks: by rule that has named keys."""

    grammar: Grammar
    marks: dict[int, Marks]


def narrowed(grammar: Grammar, named: Mapping[int, tuple[Text, ...]], *, repeating: bool = False) -> Narrowed:
    """A grammar of some of its texts, with no registers but Counter and Order without `distinct`. named: by rule.
    repeating: any number of keys that are not named may come, alike or not: these are no texts of it."""
    flat, marks, rules = with_names(verify(grammar)), dict[int, Marks](), list[Rule]()
    for number, rule in enumerate(grammar.rules):
        register = rule.register
        if isinstance(register, Members) and int(flat.states[number]) << len(register.required) + 2 > _WRITTEN_OUT:
            rules.append(_in_order(rule, register, flat, number))
        elif isinstance(register, Members) or (isinstance(register, Order) and register.distinct):
            made = _Named(rule, register, _edges(flat, number), named.get(number, ()), repeating)
            rules.append(made.rule())
            marks[number] = made.marks
        else:
            rules.append(_of_one_item(rule, register, flat, number) if isinstance(register, Unlike) else rule)
    return Narrowed(Grammar(tuple(rules), grammar.start, grammar.notes, grammar.specials), marks)


def _edges(flat: Flat, number: int) -> list[_Edge]:
    return [(a, b, c, d, e) for a, b, c, d, e in flat.edges_of(number)[:, SOURCE:].tolist()]


def _made(rule: Rule, states: int, edges: list[_Edge], calls: tuple[Call, ...], finals: tuple[int, ...],
          register: Order | None) -> Rule:
    return Rule(rule.name, rule.pointer, states, pack_edges(edges), calls, finals, register)


class _Memory(NamedTuple):
    """written: of Members, a bit for each declared key, and one for the demand. free: how many free keys were, as far
    as it matters. next: the first of the named keys that may still come. other: whether one came that is not named.
    open: what was read of a free key while it may become a named one, then _LOST; None outside of one."""

    written: int = 0
    free: int = 0
    next: int = 0
    other: bool = False
    open: Text | None = None


class _Named:
    """States are those of the rule with what was written."""

    def __init__(self, rule: Rule, register: Members | Order, edges: list[_Edge], named: tuple[Text, ...],
                 repeating: bool) -> None:
        self.marks: dict[tuple[int, int], int] = {}
        self._rule, self._register, self._named, self._repeating = rule, register, named, repeating
        self._begun = {text[:length] for text in named for length in range(len(text) + 1)}
        self._order, self._numbers = [(0, _Memory())], {(0, _Memory()): 0}
        self._given: dict[int, list[_Edge]] = {}
        for edge in edges:
            self._given.setdefault(edge[0], []).append(edge)
        self._listed = isinstance(register, Order) and (
            register.least is not None or any(action == NEXT_KEY for *_, action in edges))
        self._keys = len(register.required)
        self._needed = sum(1 << j for j, must in enumerate(register.required) if must)
        self._least, self._most = 0, None if isinstance(register, Order) else register.most
        if isinstance(register, Members):
            self._least, self._needed = register.least, self._needed | register.demand << self._keys

    def rule(self) -> Rule:
        edges, calls, finals = list[_Edge](), list[Call](), list[int]()
        for here, (state, memory) in enumerate(self._order):  # grows while it runs
            check_places(here)
            if state in self._rule.finals and self._may_end(memory):
                finals.append(here)
            for _, low, high, target, action in self._given.get(state, ()):
                edges += self._moves(here, memory, low, high, target, action)
            for call in self._rule.calls if memory.open in (None, _LOST) else ():
                if call.source == state:
                    met = memory.written | (1 << self._keys) * (call.action == MEET)
                    kept = call.action if isinstance(self._register, Order) else NOTHING
                    target = self._place(call.target, memory._replace(written=met))
                    calls.append(Call(here, call.rule, target, kept))
        kept_order = isinstance(self._register, Order) and not self._listed
        register = Order(self._register.required, False) if kept_order else None
        return _made(self._rule, len(self._order), edges, tuple(calls), tuple(finals), register)

    def _place(self, state: int, memory: _Memory) -> int:
        at = self._numbers.setdefault((state, memory), len(self._order))
        if at == len(self._order):
            self._order.append((state, memory))
        return at

    def _may_end(self, memory: _Memory) -> bool:
        return isinstance(self._register, Order) or (
            memory.written & self._needed == self._needed and self._amount(memory) >= self._least)

    def _amount(self, memory: _Memory) -> int:
        return (memory.written & (1 << self._keys) - 1).bit_count() + memory.free

    def _moves(self, here: int, memory: _Memory, low: int, high: int, target: int, action: int) -> list[_Edge]:
        """The edges that one edge becomes."""
        if action == NOTHING and memory.open is not None:
            return self._inside(here, memory, low, high, target)
        after: _Memory | None = memory
        if action == CLOSE_KEY or (action == NEXT_KEY and memory.open is not None):
            after = self._closed(memory)
        elif action >= KEY and not isinstance(self._register, Order):
            bit = 1 << action - KEY
            full = self._most is not None and self._amount(memory) >= self._most
            after = None if memory.written & bit or full else memory._replace(written=memory.written | bit, open=None)
        if action in (OPEN_KEY, NEXT_KEY) and after is not None:
            left = after.next < len(self._named) or not after.other
            another = left or self._repeating or isinstance(self._register, Members)
            after = after._replace(open=() if self._named else _LOST) if another else None
        if after is None:
            return []
        there = self._place(target, after)
        if action in (OPEN_KEY, CLOSE_KEY, NEXT_KEY):
            self.marks[here, there] = action
        kept = isinstance(self._register, Order) and not self._listed and action not in (CLOSE_KEY, NEXT_KEY)
        return [(here, low, high, there, action if kept else NOTHING)]

    def _inside(self, here: int, memory: _Memory, low: int, high: int, target: int) -> list[_Edge]:
        found, begin, lost = list[_Edge](), low, memory._replace(open=_LOST)
        if self._register.decoded and self._named and low <= _BACKSLASH <= high:
            return []  # an escape may spell a named key too
        for symbol in sorted(text[-1] for text in self._begun if text and text[:-1] == memory.open):
            if low <= symbol <= high:
                if begin < symbol:
                    found.append((here, begin, symbol - 1, self._place(target, lost), NOTHING))
                longer = memory._replace(open=(*(memory.open or ()), symbol))
                found.append((here, symbol, symbol, self._place(target, longer), NOTHING))
                begin = symbol + 1
        if begin <= high:
            found.append((here, begin, high, self._place(target, lost), NOTHING))
        return found

    def _closed(self, memory: _Memory) -> _Memory | None:
        """Behind a free key; None where it may not come."""
        if self._most is not None and self._amount(memory) >= self._most:
            return None
        more = min(memory.free + 1, max(self._least, self._most or 0)) if isinstance(self._register, Members) else 0
        if memory.open in self._named:
            at = self._named.index(memory.open)
            return _Memory(memory.written, more, at + 1, memory.other) if at >= memory.next else None
        if memory.other and not self._repeating:
            return None
        return _Memory(memory.written, more, memory.next, True)


def _in_order(rule: Rule, register: Members, flat: Flat, number: int) -> Rule:
    """Where more keys are needed than are required, the first ones are; where they are counted, only those may come."""
    required = _enough(register.required, register.least)
    counted = register.most is not None and register.most < len(required)
    closes = register.least <= sum(required) and not register.demand
    edges = [(source, low, high, target, NOTHING if action == OPEN_KEY else action)
             for source, low, high, target, action in _edges(flat, number)
             if action != CLOSE_KEY and not (counted and action >= KEY and not required[action - KEY])]
    calls = tuple(Call(call.source, call.rule, call.target) for call in rule.calls)
    return _made(rule, int(flat.states[number]), edges, calls, rule.finals if closes else (), Order(required, False))


def _enough(required: tuple[bool, ...], least: int) -> tuple[bool, ...]:
    more, found = least - sum(required), []
    for must in required:
        found.append(must or more > 0)
        more -= not must
    return tuple(found)


def _of_one_item(rule: Rule, register: Unlike, flat: Flat, number: int) -> Rule:
    """Behind the call of its first item, a second row of states that call nothing. No list of one has two alike."""
    edges, more = _edges(flat, number), rule.states
    edges += [(source + more, low, high, target + more, action) for source, low, high, target, action in edges]
    calls = tuple(Call(call.source, call.rule, call.target + more) for call in rule.calls)
    finals = () if register.alike else (*rule.finals, *(state + more for state in rule.finals))
    return _made(rule, 2 * more, edges, calls, finals, None)
