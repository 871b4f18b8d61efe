"""The rule of a list in which some two items must be equal (ir.Unlike).

States count the items twice over: while all have differed, when one more may repeat one of them or be new, and behind
two equal ones, when they may be anything. The last item that there may be has to repeat one: it is written as that was,
for whether another text can still come to its value is not known in the middle of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .build import RuleBuilder
from .errors import ConstraintTooLarge
from .ir import AGAIN, ANYWAY, COPY, NOTHING, Rule, Unlike
from .keywords import refuse
from .plan import ListPlan

if TYPE_CHECKING:
    from .emit import Emitter

_MAX_COUNTED = 20_000  # items that are told apart by states


class AlikeItems:
    def __init__(self, emitter: Emitter, builder: RuleBuilder, plan: ListPlan, depth: int) -> None:
        self._builder = builder
        self._plan = plan
        self._layout = emitter.layout(depth)
        self._emitter = emitter
        self._item = emitter.value(plan.rest, depth + 1)
        self._last = max(plan.least, 2) if plan.most is None else plan.most
        if self._last > _MAX_COUNTED:
            raise ConstraintTooLarge(f"{self._last} items, two of them equal, need more than {_MAX_COUNTED} states",
                                     keyword="uniqueItems", where=plan.pointer, fix="Use smaller bounds.")

    def rule(self) -> Rule:
        builder, layout, last = self._builder, self._layout, self._last
        end = builder.state()
        builder.final(end)
        opened = self._state(builder.text(0, b"["))
        first = builder.text(opened, layout.inside.encode()) if layout.inside else opened
        differ = {0: first} | {count: self._state() for count in range(1, last + (self._plan.most is None))}
        equal = {count: self._state() for count in range(2, last + (self._plan.most is None))}
        closing, comma = layout.outside.encode() + b"]", layout.comma.encode()
        # behind an item, by how many there are and how the last was compared
        after: dict[tuple[int, int], int] = {}
        calls = [(differ[count], count, action) for count in differ for action in (NOTHING, AGAIN, COPY)
                 if action == self._allowed(count, action)]
        calls += [(equal[count], count, ANYWAY) for count in equal]
        for source, count, action in calls:
            here = min(count + 1, last), action
            if here not in after:
                state = after[here] = self._state()
                follower = differ.get(here[0]) if action == NOTHING else equal.get(here[0])
                if follower is not None:
                    builder.text(state, comma, follower)
                if action != NOTHING and here[0] >= self._plan.least:
                    builder.text(state, closing, end)
            builder.call(source, self._item, after[here], action)
        return builder.finish(Unlike(0, self._emitter.writing.spelling == "any", alike=True))

    def _allowed(self, count: int, action: int) -> int | None:
        """The action itself where an item may be compared so behind `count` that differ."""
        new = self._plan.most is None or count + 1 < self._last
        fits = {NOTHING: new, AGAIN: count > 0 and new, COPY: count > 0 and not new}
        return action if fits[action] else None

    def _state(self, state: int | None = None) -> int:
        """A state between items, a new one where none is given, with the blanks that may stand there."""
        return self._builder.blanks(self._builder.state() if state is None else state, self._emitter.spacing)


def check_nesting(rules: Sequence[Rule]) -> None:
    """Raises UnsupportedKeyword where lists whose items are compared lie in each other, two of one being equal."""
    lists = {number: rule.register for number, rule in enumerate(rules) if isinstance(rule.register, Unlike)}
    if not any(register.alike for register in lists.values()):
        return
    for number, register in lists.items():
        queue = list(dict.fromkeys(call.rule for call in rules[number].calls))
        seen = set(queue)
        for inside in queue:  # grows while it runs
            other = lists.get(inside)
            if other is not None and (register.alike or other.alike):
                raise refuse("uniqueItems", rules[inside].pointer, "is not enforced here: items of two lists would be "
                             "compared, one in the other, and in one of them two must be equal (not, oneOf, if)")
            queue += [call.rule for call in rules[inside].calls if call.rule not in seen]
            seen.update(queue)
