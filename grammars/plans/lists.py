"""The rule of a list: first items by position, then one state that repeats under a counter of commas.

The counter is on the comma, so a list that is full cannot begin another item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..automata.build import RuleBuilder
from ..ir import COUNT, Counter, Register, Rule, Unlike
from .alike_lists import AlikeItems
from .different import DifferentItems
from .items import by_place
from .plan import ItemMachine, ListPlan, ValuePlan

if TYPE_CHECKING:
    from .emit import Emitter

# Up to here numbers of items are told apart by states; beyond, a register counts.
_UNROLLED = 64


class ListEmitter:
    def __init__(self, emitter: Emitter, plan: ListPlan, depth: int) -> None:
        self._emitter = emitter
        self._plan = plan
        self._depth = depth
        self._layout = emitter.layout(depth)
        self._builder = RuleBuilder(f"list at {plan.pointer}", plan.pointer, emitter.meter)
        least = plan.least if plan.least <= _UNROLLED else 1
        most = plan.most
        self._turn = max(len(plan.prefix), least, 1)
        if most is not None and most <= max(self._turn, _UNROLLED // 4):
            self._turn = most
        self._endless = most is None or most > self._turn
        self._deferred = plan.least > self._turn

    def rule(self) -> Rule:
        if self._plan.alike:
            return AlikeItems(self._emitter, self._builder, self._plan, self._depth).rule()
        if self._plan.unlike:
            machine = self._plan.machine or by_place(self._plan)
            least, enough = machine.least() or 0, dict[int, int]()
            for value in dict.fromkeys(value for arcs in machine.arcs for value, _ in arcs if value.possible):
                rule = self._emitter.value(value, self._depth + 1)
                enough[rule] = max(enough.get(rule, 1), self._plan.enough.get(id(value), least))
            few = tuple((rule, many) for rule, many in enough.items() if many != least)
            return self._counted(machine, Unlike(least, self._emitter.writing.spelling == "any", few))
        if self._plan.machine is not None:
            return self._counted(self._plan.machine)
        if self._plan.different is not None:
            return DifferentItems(self._emitter, self._builder, self._plan, self._plan.different, self._depth).rule()
        return self._unique() if self._plan.unique else self._plain()

    def _counted(self, machine: ItemMachine, register: Register | None = None) -> Rule:
        """The items of a machine: a state before an item and one after it for each of its states."""
        builder, layout = self._builder, self._layout
        end = builder.state()
        builder.final(end)
        opened = self._blanks(builder.text(0, b"["))
        if 0 in machine.finals:
            builder.text(opened, b"]", end)
        # The first item has a place of its own: behind the bracket the list may close, behind a comma it may not.
        first = builder.text(opened, layout.inside.encode()) if layout.inside else opened
        before = [self._blanks(builder.state()) for _ in machine.arcs]
        after = [self._blanks(builder.state()) for _ in machine.arcs]
        for state, arcs in enumerate(machine.arcs):
            if state in machine.finals:
                builder.text(after[state], layout.outside.encode() + b"]", end)
            possible = [(value, target) for value, target in arcs if value.possible]
            if possible:
                builder.text(after[state], layout.comma.encode(), before[state])
            for value, target in possible:
                rule = self._emitter.value(value, self._depth + 1)
                for source in (first, before[0]) if state == 0 else (before[state],):
                    builder.call(source, rule, after[target])
        return builder.finish(register)

    def _unique(self) -> Rule:
        """Different items of a small enum: a state for each set of items that were written."""
        builder, plan, layout = self._builder, self._plan, self._layout
        texts = self._emitter.texts(plan.rest, self._depth + 1)
        end = builder.state()
        builder.final(end)
        opened = builder.text(0, b"[")
        if plan.least == 0:
            builder.text(opened, b"]", end)
        before = {0: builder.text(opened, layout.inside.encode()) if layout.inside else opened}
        # Sets as bits; a set with more members has a higher number than some smaller one that leads to it.
        for written in range(1 << len(texts)):
            if written not in before:
                continue
            after = {written | 1 << i: text for i, text in enumerate(texts) if not written >> i & 1}
            self._choices(before[written], after, before, end)
        return builder.finish()

    def _choices(self, source: int, after: dict[int, bytes], before: dict[int, int], end: int) -> None:
        """One more item from `source`; after: the set of written items that each text leads to."""
        builder, plan, layout = self._builder, self._plan, self._layout
        heads: dict[bytes, int] = {b"": source}
        for written, text in after.items():
            state = source
            for length in range(1, len(text) + 1):
                if text[:length] not in heads:
                    heads[text[:length]] = builder.text(state, text[length - 1:length])
                state = heads[text[:length]]
            count = written.bit_count()
            if count >= plan.least:
                builder.text(state, layout.outside.encode() + b"]", end)
            if plan.most is None or count < plan.most:
                if written not in before:
                    before[written] = builder.state()
                builder.text(state, layout.comma.encode(), before[written])

    def _plain(self) -> Rule:
        builder, plan = self._builder, self._plan
        end = builder.state()
        opened = self._blanks(builder.text(0, b"["))
        if plan.least == 0:
            builder.text(opened, b"]", end)
        if plan.most != 0:
            before = builder.text(opened, self._layout.inside.encode()) if self._layout.inside else opened
            self._items(before, end)
        builder.final(end)
        rest = None if plan.most is None else plan.most - self._turn
        if not self._deferred:
            return builder.finish(Counter(0, rest) if self._endless and rest is not None else None)
        body = builder.finish(Counter(plan.least - self._turn, rest))
        closing = self._layout.outside.encode() + b"]"
        return self._emitter.closed(body, closing, ("open list", id(plan), self._depth))

    def _items(self, before: int, end: int) -> None:
        """Items 0 .. turn - 1 each in states of their own; the last repeats."""
        builder, layout = self._builder, self._layout
        closing = layout.outside.encode() + b"]"
        comma = layout.comma.encode()
        for index in range(self._turn):
            after = self._blanks(builder.state())
            builder.call(before, self._value(index), after)
            last = index == self._turn - 1
            if last and self._deferred:
                builder.final(after)
            elif index + 1 >= self._plan.least:
                builder.text(after, closing, end)
            if not last:
                before = self._blanks(builder.text(after, comma))
            elif self._endless:
                again = self._blanks(builder.text(after, comma, action=COUNT if self._counts else 0))
                builder.call(again, self._value(self._turn), after)

    def _blanks(self, state: int) -> int:
        return self._builder.blanks(state, self._emitter.spacing)

    @property
    def _counts(self) -> bool:
        return self._deferred or self._plan.most is not None

    def _value(self, index: int) -> int:
        plan = self._plan
        value: ValuePlan = plan.prefix[index] if index < len(plan.prefix) else plan.rest
        return self._emitter.value(value, self._depth + 1)
