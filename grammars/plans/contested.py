"""Values that several places of a list of different items compete for: each place that a list must have has to find a
value of its own (Hall's condition).

Where the items before a place may use its values up, the values of such places are told apart by their *kinds*: those
that the same places may have. The state of the list says how many of each kind were written; which ones, the register
knows. An item is held to the values of one kind that has some left, or to none of them. So from each state that leads
to the end a way does so with values that are free, and an item that would take the last one that a later place needs
leads to a state from which there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from msgspec.structs import replace

from ..errors import ConstraintTooLarge
from ..schemas.json_text import JsonValue, identity
from ..schemas.meaning import Meaning
from ..schemas.shape import Places
from .canonical import Canonical
from .items import by_place
from .plan import ItemMachine, ListPlan, ValuePlan
from .unique import kinds_of, values_of

_MAX_STATES = 10_000
_MAX_VALUES = 4_096  # of one place, that are listed


class PlaceValues:
    """The values of places. places: by plan; plan: as Planner has it."""

    def __init__(self, canonical: Canonical, meaning: Meaning, places: Callable[[ValuePlan], Places],
                 plan: Callable[[Places, str], ValuePlan]) -> None:
        self._canonical = canonical
        self._meaning = meaning
        self._places = places
        self._plan = plan
        self._listed: dict[int, tuple[int, list[JsonValue] | None]] = {}
        self._enums: dict[tuple[Hashable, ...], str] = {}

    def listed(self, plan: ValuePlan, most: int) -> list[JsonValue] | None:
        """All values of a plan; None for more than `most`, or when that is not told."""
        most = min(most, _MAX_VALUES)
        asked, found = self._listed.get(id(plan), (-1, None))
        if found is None and most > asked:
            found = values_of(plan, most, self._canonical)
            self._listed[id(plan)] = most, found
        return None if found is None or len(found) > most else found

    def admits(self, plan: ValuePlan, value: JsonValue) -> bool:
        return self._meaning.admits(self._places(plan), value)

    def only(self, plan: ValuePlan, values: list[JsonValue]) -> ValuePlan:
        """These of the values of a plan, which admits them all."""
        return self._plan((*self._places(plan), self._enum(plan, values)), plan.pointer)

    def without(self, plan: ValuePlan, values: list[JsonValue]) -> ValuePlan:
        """All but these of the values of a plan."""
        others = self._meaning.negated(self._enum(plan, values))
        return self._plan((*self._places(plan), others), plan.pointer)

    def _enum(self, plan: ValuePlan, values: list[JsonValue]) -> str:
        key = tuple(map(identity, values))
        if key not in self._enums:
            self._enums[key] = self._meaning.document.derive(plan.pointer, {"enum": values})
        return self._enums[key]


def contested(plan: ListPlan, values: PlaceValues) -> ItemMachine:
    """The machine of a list of unlike items, with an end from each state that leads to one. Raises ConstraintTooLarge.
    Which values are possible must be known."""
    places = _Places(plan.machine or by_place(plan))
    fought = _Fought(places, values)
    if fought.values:
        return _Counting(places, fought, values, plan.pointer).machine()
    enough: dict[int, int | None] = {number: fought.enough(one) for number, one in places.plans.items()}
    return replace(places.base, enough=enough)


class _Places:
    """Where items stand. needed: by id of a plan, how many values it must have for one to be left there."""

    def __init__(self, base: ItemMachine) -> None:
        self.base = base
        self.arcs = [[(plan, target) for plan, target in arcs if plan.possible] for arcs in base.arcs]
        self.plans = {id(plan): plan for arcs in self.arcs for plan, _ in arcs}
        self._ordered = self._order()
        self._looping = self._after_loops()
        # Behind an end all items may be left out.
        self.must = [state not in base.finals for state in range(len(base.arcs))]

    def _order(self) -> list[int]:
        """The states, each before those that follow it; a state that follows itself counts once."""
        waiting = [0] * len(self.arcs)
        for state, arcs in enumerate(self.arcs):
            for target in {target for _, target in arcs} - {state}:
                waiting[target] += 1
        order = [state for state, count in enumerate(waiting) if not count]
        for state in order:  # grows while it runs
            for target in {target for _, target in self.arcs[state]} - {state}:
                waiting[target] -= 1
                if not waiting[target]:
                    order.append(target)
        return order

    def _after_loops(self) -> list[bool]:
        """By state, whether any number of items may come before it."""
        found = [any(target == state for _, target in arcs) for state, arcs in enumerate(self.arcs)]
        for state in self._ordered:
            for _, target in self.arcs[state]:
                found[target] = found[target] or found[state]
        return found

    def needed(self, plan: ValuePlan, competes: Callable[[ValuePlan], bool]) -> int:
        """How many values a plan must have, so that one is left wherever it is needed; 0: nowhere."""
        before, most = [0] * len(self.arcs), 0
        compete = {number: competes(other) for number, other in self.plans.items()}
        for state in self._ordered:
            for other, target in self.arcs[state]:
                if other is plan and self.must[state] and target != state:
                    most = max(most, self._enough(plan, state, before[state]))
                if target != state:
                    before[target] = max(before[target], before[state] + compete[id(other)])
        return most

    def _enough(self, plan: ValuePlan, state: int, before: int) -> int:
        enough = self.base.enough.get(id(plan))
        if enough is None:
            enough = (self.base.least() or 0) if self._looping[state] else before + 1
        return enough

    def reach(self, wanted: Callable[[ValuePlan], set[int]]) -> list[set[int]]:
        """By state, what is wanted of the items that must come from it on."""
        found: list[set[int]] = [set() for _ in self.arcs]
        for state in reversed(self._ordered):
            for plan, target in self.arcs[state]:
                found[state] |= found[target] | (wanted(plan) if self.must[state] else set())
        return found


class _Fought:
    """The values that may run out. values: by identity. needed: by id of a plan. tight: plans of such values alone."""

    def __init__(self, places: _Places, values: PlaceValues) -> None:
        self._places = places
        self._values = values
        self.values: dict[Hashable, JsonValue] = {}
        kinds = {number: kinds_of(plan) for number, plan in places.plans.items()}
        self.needed = {number: places.needed(plan, lambda other, mine=kinds[number]: not mine.isdisjoint(  # type: ignore[misc]
            kinds[id(other)])) for number, plan in places.plans.items()}
        if any(need > 1 for need in self.needed.values()):
            while self._grown():
                pass
        self.tight = {number for number, plan in places.plans.items() if self.values and self._inside(plan)}

    def _listed(self, plan: ValuePlan) -> dict[Hashable, JsonValue] | None:
        listed = self._values.listed(plan, self.needed[id(plan)] + len(self.values))
        return None if listed is None else {identity(value): value for value in listed}

    def enough(self, plan: ValuePlan, taken: int = 0) -> int:
        """How many values suffice for one to be left, `taken` of them aside."""
        listed = self._listed(plan)
        return self.needed[id(plan)] if listed is None else min(self.needed[id(plan)], len(listed) - taken)

    def _inside(self, plan: ValuePlan) -> bool:
        listed = self._listed(plan)
        return bool(listed) and listed is not None and listed.keys() <= self.values.keys()

    def _grown(self) -> bool:
        """Takes in the values of the plans that have too few beside those known; whether there were any."""
        before = len(self.values)
        for number, plan in self._places.plans.items():
            listed = self._listed(plan) if self.needed[number] else None
            if listed is None or listed.keys() <= self.values.keys():
                continue
            left = [value for key, value in listed.items() if key not in self.values]
            need = self._places.needed(plan, lambda other, left=left: any(  # type: ignore[misc]
                self._values.admits(other, value) for value in left))
            counted = self._places.base.enough.get(number) is not None and len(left) < len(listed)
            if counted or len(left) < need:
                self.values |= listed
        return len(self.values) > before


# A state of the list, and how many values of each kind were written, of those that matter from there on.
_State = tuple[int, tuple[int, ...]]


@dataclass(slots=True)
class _Counting:
    """The states in which kinds are counted."""

    places: _Places
    fought: _Fought
    values: PlaceValues
    pointer: str
    kinds: list[list[JsonValue]] = field(init=False)
    _admitted: dict[int, set[int]] = field(init=False)  # by id of a plan, the kinds that it has
    _enough: dict[int, int | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        plans, alike = list(self.places.plans.values()), dict[tuple[bool, ...], list[JsonValue]]()
        for value in self.fought.values.values():
            alike.setdefault(tuple(self.values.admits(plan, value) for plan in plans), []).append(value)
        self.kinds = list(alike.values())
        self._admitted = {id(plan): {kind for kind, of in enumerate(alike) if of[at]} for at, plan in enumerate(plans)}

    def machine(self) -> ItemMachine:
        matter = self.places.reach(
            lambda plan: self._admitted[id(plan)] if id(plan) in self.fought.tight else set())
        start: _State = (0, (0,) * len(self.kinds))
        numbers, order = {start: 0}, [start]
        arcs: list[list[tuple[ValuePlan, int]]] = []
        for state, counts in order:  # grows while it runs
            out: list[tuple[ValuePlan, int]] = []
            for plan, target in self.places.arcs[state]:
                for item, written in self._items(plan, counts, matter[target], must=self.places.must[state]):
                    kept = tuple(count if kind in matter[target] else 0 for kind, count in enumerate(written))
                    number = numbers.setdefault((target, kept), len(order))
                    if number == len(order):
                        order.append((target, kept))
                    out.append((item, number))
            if len(order) > _MAX_STATES:
                raise ConstraintTooLarge(f"the values that places here compete for need more than {_MAX_STATES} states",
                                         keyword="uniqueItems", where=self.pointer,
                                         fix="Let fewer places have the same few values.")
            arcs.append(out)
        finals = frozenset(i for i, (state, _) in enumerate(order) if state in self.places.base.finals)
        return ItemMachine(arcs, finals, self.places.base.asked, self._enough)

    def _items(self, plan: ValuePlan, counts: tuple[int, ...], matter: set[int], *,
               must: bool) -> list[tuple[ValuePlan, tuple[int, ...]]]:
        """What an item may be, and how many of each kind are written behind it."""
        whole = id(plan) in self.fought.tight
        apart = sorted(self._admitted[id(plan)] & (self._admitted[id(plan)] if whole and must else matter))
        found: list[tuple[ValuePlan, tuple[int, ...]]] = []
        for kind in apart:
            if counts[kind] < len(self.kinds[kind]):
                item = self.values.only(plan, self.kinds[kind])
                self._note(item, len(self.kinds[kind]))
                found.append((item, tuple(count + (at == kind) for at, count in enumerate(counts))))
        if not (whole and len(apart) == len(self._admitted[id(plan)])):
            taken = [value for kind in apart for value in self.kinds[kind]]
            item = self.values.without(plan, taken) if taken else plan
            self._note(item, self.fought.enough(plan, len(taken)) if must else 1)
            found.append((item, counts))
        return found

    def _note(self, plan: ValuePlan, enough: int) -> None:
        self._enough[id(plan)] = max(enough, self._enough.get(id(plan)) or 0)
