"""Rules whose states have what was written of keys and items: of objects, and of lists whose items are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..ir import ANYWAY, CLOSE_KEY, KEY, MEET, NEXT_KEY, NOTHING, OPEN_KEY, Call, Members, Order, Rule, pack_edges
from .declared import Declared
from .exits import check_places
from .orders import Item, Orders, Text, Written

Edge = tuple[int, int, int, int, int]
Marks = Mapping[tuple[int, int], int]  # actions, by source and target of an edge
_LOST: Text = (-1,)
_BACKSLASH = 0x5C


class Literals:
    """Rules of one text each, numbered from `first` on."""

    def __init__(self, first: int) -> None:
        self.rules: list[Rule] = []
        self._first, self._numbers = first, dict[bytes, int]()

    def number(self, text: bytes) -> int:
        if text not in self._numbers:
            self._numbers[text] = self._first + len(self.rules)
            edges = [(at, byte, byte, at + 1, NOTHING) for at, byte in enumerate(text)]
            self.rules.append(Rule("item", "", len(text) + 1, pack_edges(edges), (), (len(text),)))
        return self._numbers[text]


class _Memory(NamedTuple):
    """written: of Members, a bit for each declared key, and one for the demand. free: how many free keys were, as far
    as it matters. named: the named keys and items that were written. other: whether one came that is not named.
    open: what was read of a key while it may become a named one, then _LOST; None outside of one."""

    written: int = 0
    free: int = 0
    named: Written = ()
    other: bool = False
    open: Text | None = None


class _Remembering:
    """States are those of a rule with what was written."""

    def __init__(self, rule: Rule, edges: list[Edge], orders: Orders) -> None:
        self._rule, self._orders = rule, orders
        self._order, self._numbers = [(0, _Memory())], {(0, _Memory()): 0}
        self._given: dict[int, list[Edge]] = {}
        for edge in edges:
            self._given.setdefault(edge[0], []).append(edge)
        self._called: dict[int, list[Call]] = {}
        for call in rule.calls:
            self._called.setdefault(call.source, []).append(call)

    def rule(self) -> Rule:
        edges, calls, finals = list[Edge](), list[Call](), list[int]()
        for here, (state, memory) in enumerate(self._order):  # grows while it runs
            check_places(here)
            if state in self._rule.finals and self._may_end(memory):
                finals.append(here)
            for _, low, high, target, action in self._given.get(state, ()):
                edges += self._moves(here, memory, low, high, target, action)
            for call in self._called.get(state, ()):
                calls += self._calls(here, memory, call)
        rule = self._rule
        return Rule(rule.name, rule.pointer, len(self._order), pack_edges(edges), tuple(calls), tuple(finals),
                    self._register())

    def _place(self, state: int, memory: _Memory) -> int:
        at = self._numbers.setdefault((state, memory), len(self._order))
        if at == len(self._order):
            self._order.append((state, memory))
        return at

    def _may_end(self, memory: _Memory) -> bool:
        return True

    def _register(self) -> Order | None:
        return None

    def _moves(self, here: int, memory: _Memory, low: int, high: int, target: int, action: int) -> list[Edge]:
        """The edges that one edge becomes."""
        return [(here, low, high, self._place(target, memory), NOTHING)]

    def _calls(self, here: int, memory: _Memory, call: Call) -> list[Call]:
        """The calls that one call becomes."""
        return [Call(here, call.rule, self._place(call.target, memory), call.action)]


class Items(_Remembering):
    """Items that are compared by value."""

    def __init__(self, rule: Rule, edges: list[Edge], orders: Orders, literals: Literals) -> None:
        super().__init__(rule, edges, orders)
        self._literals = literals

    def _calls(self, here: int, memory: _Memory, call: Call) -> list[Call]:
        if call.action == ANYWAY:
            return [Call(here, call.rule, self._place(call.target, memory))]
        found = list[Call]()
        if memory == _Memory() and call.action == NOTHING:
            found.append(Call(here, call.rule, self._place(call.target, memory._replace(other=True))))
        for item in self._orders.after(memory.named) if not memory.other else ():
            if isinstance(item, Item) and (item.rule, item.action) == (call.rule, call.action):
                target = self._place(call.target, memory._replace(named=(*memory.named, item)))
                found.append(Call(here, self._literals.number(item.text), target))
        return found


class Keys(_Remembering):
    """Keys of an object, and items of a list that are told apart by their texts. repeating: any number of keys that are
    not named may come, alike or not."""

    def __init__(self, rule: Rule, register: Members | Order, edges: list[Edge], orders: Orders, declared: Declared, *,
                 repeating: bool = False) -> None:
        super().__init__(rule, edges, orders)
        self.marks: dict[tuple[int, int], int] = {}
        self._kept, self._declared, self._repeating = register, declared, repeating
        self._longer: dict[Text | None, set[int]] = {}  # what may be read of named keys, by what was
        for key in orders.all:
            if not isinstance(key, Item):
                for length, symbol in enumerate(key):
                    self._longer.setdefault(key[:length], set()).add(symbol)
        self._listed = isinstance(register, Order) and (
            register.least is not None or any(action == NEXT_KEY for *_, action in edges))

    def _register(self) -> Order | None:
        required = self._declared.required
        return None if required is None or self._listed else Order(required, False)

    def _calls(self, here: int, memory: _Memory, call: Call) -> list[Call]:
        if memory.open not in (None, _LOST):
            return []
        met = memory.written | (call.action == MEET) << len(self._kept.required)
        kept = call.action if isinstance(self._kept, Order) else NOTHING
        return [Call(here, call.rule, self._place(call.target, memory._replace(written=met)), kept)]

    def _may_end(self, memory: _Memory) -> bool:
        lacks = self._declared.needed & ~memory.written
        return lacks == 0 and self._amount(memory) >= self._declared.least

    def _amount(self, memory: _Memory) -> int:
        return (memory.written & self._declared.tracked).bit_count() + memory.free

    def _moves(self, here: int, memory: _Memory, low: int, high: int, target: int, action: int) -> list[Edge]:
        if action == NOTHING and memory.open is not None:
            return self._inside(here, memory, low, high, target)
        after: _Memory | None = memory
        if action == CLOSE_KEY or (action == NEXT_KEY and memory.open is not None):
            after = self._closed(memory)
        elif action >= KEY:
            after = self._chosen(memory, 1 << action - KEY)
        if action in (OPEN_KEY, NEXT_KEY) and after is not None:
            another = isinstance(self._kept, Members) or self._repeating or not after.other
            another = another or bool(self._orders.after(after.named))
            after = after._replace(open=() if self._orders.all else _LOST) if another else None
        if after is None:
            return []
        there = self._place(target, after)
        if action in (OPEN_KEY, CLOSE_KEY, NEXT_KEY) or action >= KEY:
            self.marks[here, there] = action
        return [(here, low, high, there, action if self._keeps(action) else NOTHING)]

    def _keeps(self, action: int) -> bool:
        """Whether an edge keeps its action."""
        if action >= KEY:
            return bool(self._declared.ordered >> action - KEY & 1)
        return isinstance(self._kept, Order) and not self._listed and action == OPEN_KEY

    def _inside(self, here: int, memory: _Memory, low: int, high: int, target: int) -> list[Edge]:
        found, begin, lost = list[Edge](), low, memory._replace(open=_LOST)
        if self._kept.decoded and self._orders.all and low <= _BACKSLASH <= high:
            return []  # an escape may spell a named key too
        for symbol in sorted(self._longer.get(memory.open, ())):
            if low <= symbol <= high:
                if begin < symbol:
                    found.append((here, begin, symbol - 1, self._place(target, lost), NOTHING))
                longer = memory._replace(open=(*(memory.open or ()), symbol))
                found.append((here, symbol, symbol, self._place(target, longer), NOTHING))
                begin = symbol + 1
        if begin <= high:
            found.append((here, begin, high, self._place(target, lost), NOTHING))
        return found

    def _chosen(self, memory: _Memory, key: int) -> _Memory | None:
        """Behind a declared key, as a set; None where it may not come."""
        declared, after = self._declared, memory._replace(open=None)
        if declared.tracked & key:
            barred = memory.written & key or self._full(memory)
            return None if barred else after._replace(written=memory.written | key)
        return after if declared.loose or declared.ordered & key else None

    def _full(self, memory: _Memory) -> bool:
        return self._declared.most is not None and self._amount(memory) >= self._declared.most

    def _closed(self, memory: _Memory) -> _Memory | None:
        """Behind a free key; None where it may not come."""
        if self._full(memory):
            return None
        more = min(memory.free + 1, max(self._declared.least, self._declared.most or 0))
        after = memory._replace(free=more, open=None)
        if memory.open is not None and memory.open in self._orders.all:
            comes = memory.open in self._orders.after(memory.named)
            return after._replace(named=(*memory.named, memory.open)) if comes else None
        return after._replace(other=True) if self._repeating or not memory.other else None
