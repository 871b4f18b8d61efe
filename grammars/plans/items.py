"""Lists of which some items must fit: `contains`, and the negation of `items`. The items become a small machine.

A state is (items so far, how many of them counted for each demand). An item that must count is held to its demand's
schema; where too many may count, every other item is held to the negation. Which items count is a choice that the
engine follows in all ways at once, so no item needs to be judged whole before the next begins. Each way that the items
before may have counted is one more reading of the text: where these would be many, all that fits counts and every other
item is held to the negation, so that items that have ended leave one way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from ..errors import ConstraintTooLarge
from ..schemas.shape import Places, SomeItems
from .plan import ItemMachine, ListPlan, ValuePlan

_MAX_STATES = 2_000
# Items that must be unlike are told apart by states up to here.
_MAX_COUNTED = 20_000
# Ways in which the items before may have counted that are followed together.
_FOLLOWED = 16
_State = tuple[int, tuple[int, ...]]
# An item's part in one demand: the place that it is held to (None: no further one), and what it adds.
_Choice = tuple[str | None, int]


class ItemCounter:
    """item(i): the schemas that item i must fit anyway. negated, plan: as Meaning and Planner have them."""

    def __init__(self, demands: Sequence[SomeItems], prefix: int, least: int, most: int | None,
                 item: Callable[[int], Places], negated: Callable[[str], str],
                 plan: Callable[[Places], ValuePlan]) -> None:
        self._demands = demands
        self._prefix = prefix
        self._least = least
        self._enough: dict[int, int | None] = {}
        self._most = most
        self._item = item
        self._negated = negated
        self._plan = plan
        self._apart = prod(_ways(demand) for demand in demands) > _FOLLOWED
        starts = max(demand.start for demand in demands)
        self._cap = max(prefix, least, starts) if most is None else most

    def machine(self) -> ItemMachine:
        """Raises ConstraintTooLarge when there is too much to count."""
        start: _State = (0, (0,) * len(self._demands))
        numbers = {start: 0}
        order = [start]
        arcs: list[list[tuple[ValuePlan, int]]] = []
        for state in order:  # grows while it runs
            out: list[tuple[ValuePlan, int]] = []
            for plan, follower in self._step(state):
                number = numbers.setdefault(follower, len(order))
                if number == len(order):
                    order.append(follower)
                if len(order) > _MAX_STATES:
                    raise ConstraintTooLarge(f"the items here need more than {_MAX_STATES} states to count",
                                             keyword="contains", where=self._demands[0].pointer,
                                             fix="Use smaller bounds.")
                out.append((plan, number))
            arcs.append(out)
        finals = frozenset(i for i, state in enumerate(order) if self._final(state))
        return ItemMachine(arcs, finals, self._asked(), self._enough)

    def _asked(self) -> list[tuple[ValuePlan, int]]:
        if self._prefix:
            return []
        return [(self._plan(tuple(dict.fromkeys((*self._item(0), demand.place)))), demand.least)
                for demand in self._demands if not demand.start and demand.least]

    def _final(self, state: _State) -> bool:
        index, counts = state
        return index >= self._least and all(
            count >= demand.least and (demand.most is None or count <= demand.most)
            for count, demand in zip(counts, self._demands, strict=True))

    def _step(self, state: _State) -> list[tuple[ValuePlan, _State]]:
        index, counts = state
        if index == self._most:
            return []
        followers: list[tuple[ValuePlan, _State]] = []
        options = [self._choices(demand, index, count) for demand, count in zip(self._demands, counts, strict=True)]
        for choice in product(*options):
            extra = [place for place, _ in choice if place is not None]
            places = tuple(dict.fromkeys((*self._item(index), *extra)))
            after = tuple(count + more for count, (_, more) in zip(counts, choice, strict=True))
            plan = self._plan(places)
            self._note(plan, extra)
            followers.append((plan, (min(index + 1, self._cap), after)))
        return followers

    def _note(self, plan: ValuePlan, extra: list[str]) -> None:
        """An item that fits what is asked for counts, in the reading that is nearest to the end: no more of its values
        are written before than have counted, so where another must count, as many as are asked for are enough."""
        asked = [demand.least for demand in self._demands if demand.place in extra]
        enough = min(asked) if asked and len(asked) == len(extra) else None
        known = self._enough.get(id(plan), 0)
        self._enough[id(plan)] = None if enough is None or known is None else max(enough, known)

    def _choices(self, demand: SomeItems, index: int, count: int) -> list[_Choice]:
        if index < demand.start:
            return [(None, 0)]
        if demand.most is None and count == demand.least:
            return [(None, 0)]
        if demand.most is None and not self._apart:
            return [(demand.place, 1), (None, 0)]
        others: list[_Choice] = [(self._negated(demand.place), 0)]
        if count == demand.most:
            return others
        # Once enough items count, one that may count need not.
        return [(demand.place if count < demand.least or self._apart else None, 1), *others]


def _ways(demand: SomeItems) -> int:
    """In how many ways items that have ended may have counted."""
    return demand.least + 1 if demand.most is None else demand.most - demand.least + 1


def by_place(plan: ListPlan) -> ItemMachine:
    """A list without a machine as one: a state for each number of items, as far as it matters."""
    last = max(len(plan.prefix), plan.least) if plan.most is None else plan.most
    if last > _MAX_COUNTED:
        raise ConstraintTooLarge(f"{last} items that are compared need more than {_MAX_COUNTED} states to count",
                                 keyword="uniqueItems", where=plan.pointer, fix="Use smaller bounds.")
    arcs = [[(plan.prefix[i] if i < len(plan.prefix) else plan.rest, i + 1)] for i in range(last)]
    arcs.append([(plan.rest, last)] if plan.most is None else [])
    return ItemMachine(arcs, frozenset(range(plan.least, last + 1)))
