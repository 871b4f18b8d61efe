"""The rule of a list whose items differ: the register remembers them as it does the free keys of an object.

An item that is a string is remembered from quote to quote. Where others are among them, all are remembered whole: a
number ends where the comma or the bracket comes. Where their number matters, states count the items.

In any spelling strings are remembered decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..automata.build import RuleBuilder, merged, quoted
from ..automata.dfa import Dfa
from ..automata.utf8 import json_string
from ..errors import ConstraintTooLarge
from ..ir import CLOSE_KEY, NEXT_KEY, NOTHING, OPEN_KEY, Order, Rule
from .plan import Comparable, Different, ListPlan

if TYPE_CHECKING:
    from .emit import Emitter

# States for different items: what is spent gladly, and the most.
_COUNTED = 2_000
_MAX_COUNTED = 40_000


class DifferentItems:
    def __init__(self, emitter: Emitter, builder: RuleBuilder, plan: ListPlan, different: Different,
                 depth: int) -> None:
        self._builder = builder
        self._plan = plan
        self._inside = depth + 1 if emitter.spacing == "indented" else 0
        self._layout = emitter.layout(depth)
        self._whole = any(place.others or place.nested for place in different.places)
        self._spacing = emitter.spacing
        self._decoded = emitter.writing.spelling == "any"
        self._bodies = [self._item(emitter, place) for place in different.places]
        size = max(len(body.edges) for body in self._bodies)
        most = plan.most
        if most is not None and most == different.count and most * size > _COUNTED:
            most = None  # that they run out, the register knows
        self._most = most
        self._cap = max(plan.least, len(self._bodies) - 1) if most is None else most
        if (self._cap + 1) * size > _MAX_COUNTED:
            raise ConstraintTooLarge(f"{self._cap} different items need more than {_MAX_COUNTED} states to count",
                                     keyword="uniqueItems", where=plan.pointer, fix="Use smaller bounds.")

    def _item(self, emitter: Emitter, place: Comparable) -> Dfa:
        """What is remembered of an item, as bytes."""
        text = emitter.text(place.text) if self._decoded else json_string(place.text, emitter.meter)
        if not self._whole:
            return text.dfa
        parts = [] if place.text.empty else [quoted(text)]
        if place.others is not None:
            parts.append(place.others)
        if place.nested is not None:
            parts.append(place.nested(self._inside))
        return merged(parts, emitter.meter)

    def rule(self) -> Rule:
        builder = self._builder
        end = builder.state()
        builder.final(end)
        before = [self._blanks(builder.state()) for _ in range(self._cap + 1)]
        for count in range(self._cap + 1 if self._most is None else self._cap):
            inside = before[count]
            if not self._whole:
                inside = builder.state()
                builder.edge(before[count], 0x22, 0x22, inside, NEXT_KEY)
            body = self._bodies[min(count, len(self._bodies) - 1)]
            numbers = builder.graft(body, inside)
            if count == 0:
                self._begin(numbers, end)
            self._follow([numbers[state] for state in body.finals], min(count + 1, self._cap), before, end)
        return builder.finish(Order((), True, self._decoded, self._plan.least))

    def _begin(self, numbers: list[int], end: int) -> None:
        """The bracket and the first item, whose states have these numbers."""
        builder, inside = self._builder, self._layout.inside.encode()
        closes = self._plan.least == 0
        if self._whole and not inside:  # the bracket already begins an item
            opened = builder.text(0, b"[", action=OPEN_KEY)
            for low, high, target in self._bodies[0].edges[0]:
                builder.edge(opened, low, high, numbers[target])
            if closes:
                builder.text(opened, b"]", end, CLOSE_KEY)
            return
        opened = self._blanks(builder.text(0, b"["))
        if closes:
            builder.text(opened, b"]", end)
        last = b'"'
        if self._whole:
            inside, last = inside[:-1], inside[-1:]
        builder.text(builder.text(opened, inside), last, numbers[0], OPEN_KEY)

    def _blanks(self, state: int) -> int:
        """Numbers and words, which end where the comma comes, stand close to it."""
        return state if self._whole else self._builder.blanks(state, self._spacing)

    def _follow(self, finals: list[int], count: int, before: list[int], end: int) -> None:
        """What may come behind an item that makes them `count`, from the states in which it can end."""
        builder, plan, layout = self._builder, self._plan, self._layout
        if not self._whole:
            after = self._blanks(builder.state())
            for state in finals:
                builder.edge(state, 0x22, 0x22, after, CLOSE_KEY)
            finals = [after]
        if count >= plan.least:
            for state in finals:
                builder.text(state, layout.outside.encode() + b"]", end, CLOSE_KEY if self._whole else NOTHING)
        if self._most is not None and count == self._most:
            return
        comma = layout.comma.encode()
        for state in finals:
            if not self._whole:
                builder.text(state, comma, before[count])
            elif len(comma) == 1:
                builder.text(state, comma, before[count], NEXT_KEY)
            else:
                ended = builder.text(builder.text(state, comma[:1], action=CLOSE_KEY), comma[1:-1])
                builder.text(ended, comma[-1:], before[count], NEXT_KEY)

