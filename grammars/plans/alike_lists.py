"""The rule of a list in which some two items must be equal (ir.Unlike).

The states of the list's machine come several times over: where no item was chosen to come again, where some were, one
time for each language that the two may share, and behind two equal ones, where items may be anything. Which items are
chosen is followed in all ways at once; of ways that differ only in this, one has chosen what all others have
(alike.outdone): so that it has, whatever the places on its way, the first is chosen where its place allows the whole
language, the others wherever what both allow is possible. Keys stand in an order of their own there, so what comes
again is written in one of these ways. The last item that may be equal to one before is written as that was, for whether
another text can still come to its value is not known in the middle of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..automata.build import RuleBuilder
from ..errors import ConstraintTooLarge
from ..ir import AGAIN, ANYWAY, COPY, NOTHING, Rule, Unlike
from .items import by_place
from .plan import ListPlan

if TYPE_CHECKING:
    from .emit import Emitter

_MAX_COUNTED = 20_000  # items that are told apart by states
# Behind which state of the machine, and how: no item was chosen, some were of the rule of this number, two are equal.
_Place = tuple[int, int]
_NONE, _EQUAL = -2, -1


class AlikeItems:
    """plan: with its machine."""

    def __init__(self, emitter: Emitter, builder: RuleBuilder, plan: ListPlan, depth: int) -> None:
        machine = plan.machine or by_place(plan)
        self._builder = builder
        self._layout = emitter.layout(depth)
        self._emitter = emitter
        self._finals = machine.finals
        self._arcs = [[(emitter.value(value, depth + 1), target) for value, target in arcs if value.possible]
                      for arcs in machine.arcs]
        # by the rule of what two equal items may be: the rules of the arcs on which one of them may stand
        self._shared: dict[int, set[int]] = {}
        for pair in plan.pairs:
            if pair.both.possible and pair.one.possible and pair.other.possible:
                arcs = self._shared.setdefault(emitter.value(pair.both, depth + 1), set())
                arcs |= {emitter.value(pair.one, depth + 1), emitter.value(pair.other, depth + 1)}
        # by the same, and the rule of an arc, the rule of what both allow
        self._joined = {rule: dict.fromkeys(arcs, rule) for rule, arcs in self._shared.items()}
        for join in plan.joins:
            if join.both.possible and join.one.possible and join.other.possible:
                self._joined[emitter.value(join.one, depth + 1)].setdefault(
                    emitter.value(join.other, depth + 1), emitter.value(join.both, depth + 1))
        self._goes_on = {rule: _goes_on(self._arcs, self._finals, arcs) for rule, arcs in self._shared.items()}
        # Where all items are of one rule, each is chosen.
        self._all = len({rule for arcs in self._arcs for rule, _ in arcs} | self._shared.keys()) == 1
        if len(self._arcs) * (2 + len(self._shared)) > _MAX_COUNTED:
            raise ConstraintTooLarge(f"the items here, two of them equal, need more than {_MAX_COUNTED} states",
                                     keyword="uniqueItems", where=plan.pointer, fix="Use smaller bounds.")

    def rule(self) -> Rule:
        builder, layout = self._builder, self._layout
        end = builder.state()
        builder.final(end)
        opened = self._blanks(builder.text(0, b"["))
        start: _Place = (_NONE, 0)
        before = {start: self._blanks(builder.text(opened, layout.inside.encode())) if layout.inside else opened}
        closing, comma = layout.outside.encode() + b"]", layout.comma.encode()
        after: dict[tuple[_Place, int], int] = {}  # behind an item, by how it was compared too
        for place in (order := [start]):  # grows while it runs
            for called, action, follower in self._items(place):
                if follower not in before:
                    before[follower] = self._blanks(builder.state())
                    order.append(follower)
                if (follower, action) not in after:
                    state = after[follower, action] = self._blanks(builder.state())
                    builder.text(state, comma, before[follower])
                    if follower[0] == _EQUAL and follower[1] in self._finals:
                        builder.text(state, closing, end)
                builder.call(before[place], called, after[follower, action], action)
        return builder.finish(Unlike(0, self._emitter.writing.spelling == "any", alike=True))

    def _items(self, place: _Place) -> Iterator[tuple[int, int, _Place]]:
        """The rules of the items that may stand here, how they are compared, and what is behind them."""
        chosen, at = place
        for rule, target in self._arcs[at]:
            if chosen == _EQUAL or not (self._all or rule == chosen):
                yield rule, ANYWAY, (chosen, target)
            for shared, arcs in self._shared.items() if chosen == _NONE else ():
                if rule in arcs:
                    yield shared, NOTHING, (shared, target)
            if chosen in self._joined and rule in self._joined[chosen]:
                yield self._joined[chosen][rule], NOTHING, (chosen, target)
            if chosen in self._shared and rule in self._shared[chosen]:
                for again in dict.fromkeys(self._joined[chosen].values()):
                    compared = again == chosen and target in self._goes_on[chosen]
                    yield again, AGAIN if compared else COPY, (_EQUAL, target)

    def _blanks(self, state: int) -> int:
        """A state between items, with the blanks that may stand there."""
        return self._builder.blanks(state, self._emitter.spacing)


def _goes_on(arcs: Sequence[Sequence[tuple[int, int]]], finals: frozenset[int], chosen: set[int]) -> frozenset[int]:
    """The states of a machine from which an item of the rules `chosen` may come, and the end behind it."""
    before: dict[int, list[tuple[int, int]]] = {}
    for state, out in enumerate(arcs):
        for rule, target in out:
            before.setdefault(target, []).append((rule, state))
    ending = set(finals)
    for state in (queue := list(ending)):  # grows while it runs
        queue += (more := list({source for _, source in before.get(state, ())} - ending))
        ending.update(more)
    found = {source for state in ending for rule, source in before.get(state, ()) if rule in chosen}
    for state in (queue := list(found)):  # grows while it runs
        queue += (more := list({source for _, source in before.get(state, ())} - found))
        found.update(more)
    return frozenset(found)

