"""From meanings to a plan: for every place where a value stands, which scalars, lists and objects may stand there.

Plans refer to each other, so recursion is a cycle here. `settle` finds the plans that have a finite instance, as a
least fixpoint; what has none is absent where it is optional, and a refusal where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ..automata.dfa import Dfa, longest
from ..errors import Unsatisfiable
from ..schemas.json_text import JsonValue
from ..schemas.strings import StringText
from .number_text import NumberText


class ValuePlan(msgspec.Struct, eq=False):
    """values: members of an enum, spelled where they stand. numbers, strings: automata. words: of null, true, false.
    freely: strings have any spelling, as all of them have beside one that may be any text."""

    pointer: str
    values: list[JsonValue] = []
    words: list[JsonValue] = []
    numbers: list[NumberText] = []
    strings: list[StringText] = []
    lists: list[ListPlan] = []
    objects: list[ObjectPlan] = []
    freely: bool = False
    possible: bool = False

    @property
    def has_scalar(self) -> bool:
        return bool(self.values or self.words or self.numbers or self.strings)


class ItemMachine(msgspec.Struct, eq=False):
    """arcs[s]: the values that may stand next in state s, and the state after each. State 0 is before the first item;
    a list may end in one of `finals`. Arcs may compete. asked: values of which a list has so many at least.
    enough: by id of a value's plan, how many values suffice for a list of different items to find another; None: as
    many as the list has items."""

    arcs: list[list[tuple[ValuePlan, int]]]
    finals: frozenset[int]
    asked: list[tuple[ValuePlan, int]] = []
    enough: dict[int, int | None] = {}

    def ends(self) -> bool:
        """Some list is possible, given which values are."""
        return self.least() is not None

    def least(self) -> int | None:
        """Items of the shortest list, given which values are possible; None when there is no list."""
        far = {0: 0}
        queue = [0]
        for state in queue:
            if state in self.finals:
                return far[state]
            for value, target in self.arcs[state]:
                if value.possible and target not in far:
                    far[target] = far[state] + 1
                    queue.append(target)
        return None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arcs of a machine by their values, and what an item is that may stand on both: two equal ones may."""

    one: ValuePlan
    other: ValuePlan
    both: ValuePlan

    def possible_in(self, machine: ItemMachine) -> bool:
        """Whether some list has two such items."""
        seen, queue = {(0, 0)}, [(0, 0)]  # states of the machine, how many of the two have come
        for state, count in queue if self.both.possible else ():  # grows while it runs
            if count == 2 and state in machine.finals:
                return True
            for value, target in machine.arcs[state]:
                fits = count < 2 and (value is self.one or value is self.other)
                for follower in ((target, count), *([(target, count + 1)] if fits else [])) if value.possible else ():
                    if follower not in seen:
                        seen.add(follower)
                        queue.append(follower)
        return False


@dataclass(frozen=True, slots=True)
class Comparable:
    """Values that are equal when their texts are. text: the strings, as characters; others: numbers and words, as
    bytes, None when there are none; nested: lists and objects, as bytes, by the levels of indentation around them, None
    when there are none."""

    text: Dfa
    others: Dfa | None
    nested: Callable[[int], Dfa] | None = None


@dataclass(frozen=True, slots=True)
class Different:
    """Values of which each may stand once in a list. places: by position, the last for all later ones. count: how many
    values there are where all positions have the same, None for too many to run out of."""

    places: tuple[Comparable, ...]
    count: int | None


class ListPlan(msgspec.Struct, eq=False):
    """prefix: the first items; rest: the others. most None: without end. unique: the pointer of uniqueItems.
    different: with unique, when the texts of items are compared. machine: where position alone does not say what may
    stand next; then it says everything. unlike: with unique, when the values of items are compared, whatever their
    texts. alike: the pointer of uniqueItems, where some two items must be equal and their values are compared; pairs:
    which two may be, all of them arcs of the machine; joins: by what two may be, and an arc, what an item of that arc
    is that may come again as one of these.
    enough: with unlike, by id of a value's plan, how many values suffice where that is less than least."""

    pointer: str
    prefix: list[ValuePlan]
    rest: ValuePlan
    least: int
    most: int | None
    unique: str | None = None
    different: Different | None = None
    machine: ItemMachine | None = None
    unlike: bool = False
    alike: str | None = None
    pairs: list[Pair] = []
    joins: list[Pair] = []
    enough: dict[int, int] = {}
    possible: bool = False

    def settled(self) -> bool:
        """Cut `most` to what can exist; True when a list can."""
        if self.machine is not None:
            return self._counted(self.machine)
        if not self.rest.possible:
            self.most = len(self.prefix) if self.most is None else min(self.most, len(self.prefix))
        for index, plan in enumerate(self.prefix):
            if not plan.possible:
                self.most = index if self.most is None else min(self.most, index)
                break
        return self.most is None or self.least <= self.most

    def _counted(self, machine: ItemMachine) -> bool:
        return any(pair.possible_in(machine) for pair in self.pairs) if self.pairs else machine.ends()


# Values by the demands they meet, as bits; what meets none is apart.
Witnesses = dict[int, "ValuePlan"]


class Member(msgspec.Struct):
    """A declared property. witnesses: its value where it is one of the properties that the object must have."""

    name: str
    value: ValuePlan
    required: bool
    witnesses: Witnesses = {}


class ObjectPlan(msgspec.Struct, eq=False):
    """members: declared properties in the order in which they are written. free: every other key as one automaton over
    characters (where keys come in any order, declared ones may be among them and are not meant); labels[state] is the
    index in free_values of the value of a key that ends there, and in free_witnesses.
    demands: how many demands some property must meet, each a bit. undeclared: there is none, and no declared property
    that could exist."""

    pointer: str
    members: list[Member]
    free: Dfa | None
    labels: dict[int, int]
    free_values: list[ValuePlan]
    least: int
    most: int | None
    free_witnesses: list[Witnesses] = []
    demands: int = 0
    undeclared: bool = False
    possible: bool = False
    waits: list[ValuePlan] | None = None  # required values that were not found possible so far

    @property
    def loose(self) -> bool:
        """A few undeclared keys are its members: they come in any order, also where declared ones have one."""
        return self.undeclared and self.free is None and len(self.members) > 1

    def missing(self) -> Member | None:
        """A required property that cannot exist."""
        return next((m for m in self.members if m.required and not m.value.possible), None)

    def _lacks(self) -> bool:
        """Like missing; each required property is looked at once, as in one fixpoint what is possible stays so."""
        if self.waits is None:
            self.waits = [m.value for m in self.members if m.required]
        while self.waits and self.waits[-1].possible:
            self.waits.pop()
        return bool(self.waits)

    def settled(self) -> bool:
        if self._lacks():
            return False
        if self.most is not None and max(sum(m.required for m in self.members), self.least) > self.most:
            return False
        if self.demands:
            return self._meets()
        if not self.least:
            return True
        endless = self.free is not None and any(value.possible for value in self.free_values)
        return endless or sum(m.value.possible for m in self.members) >= self.least

    def _meets(self) -> bool:
        """Whether some properties together meet every demand, within the numbers that are allowed."""
        most = self.most if self.most is not None else self.least + self.demands + len(self.members)
        reached = {(0, 0)}
        for member in self.members:
            written = _steps(reached, member.value, member.witnesses, most)
            reached = written if member.required else reached | written
        if self.free is not None:
            for _ in range(most):
                more = set(reached)
                for value, witnesses in zip(self.free_values, self.free_witnesses, strict=True):
                    more |= _steps(reached, value, witnesses, most)
                if more == reached:
                    break
                reached = more
        return any(count >= self.least and met == (1 << self.demands) - 1 for count, met in reached)


def _steps(reached: set[tuple[int, int]], value: ValuePlan, witnesses: Witnesses,
           most: int) -> set[tuple[int, int]]:
    """(properties, demands met) after one more property."""
    bits = [0, *(met for met, plan in witnesses.items() if plan.possible)] if value.possible else []
    return {(count + 1, met | more) for count, met in reached if count < most for more in bits}


def find_possible(plans: list[ValuePlan]) -> None:
    """Least fixpoint of `possible`, by a work list over who mentions whom."""
    owners: dict[int, list[ValuePlan]] = {}
    for plan in plans:
        if not (plan.lists or plan.objects):
            continue
        for thing in plan.objects:
            thing.waits = None
        for inner in mentioned(plan):
            owners.setdefault(id(inner), []).append(plan)
    queue = [plan for plan in plans if _possible(plan)]
    for plan in queue:
        plan.possible = True
    for plan in queue:  # grows while it runs
        for owner in owners.get(id(plan), ()):
            if not owner.possible and _possible(owner):
                owner.possible = True
                queue.append(owner)
    for plan in plans:
        for one in plan.lists:
            one.possible = one.settled()
        for thing in plan.objects:
            thing.possible = thing.settled()


def mentioned(plan: ValuePlan) -> list[ValuePlan]:
    """The plans of what may be inside a value."""
    inner = [value for one in plan.lists if one.machine is None for value in (*one.prefix, one.rest)]
    inner += [value for one in plan.lists if one.machine for arcs in one.machine.arcs for value, _ in arcs]
    inner += [pair.both for one in plan.lists for pair in (*one.pairs, *one.joins)]
    for thing in plan.objects:
        inner.extend(member.value for member in thing.members)
        inner.extend(thing.free_values)
        for witnesses in (*(member.witnesses for member in thing.members), *thing.free_witnesses):
            inner.extend(witnesses.values())
    return inner


def _possible(plan: ValuePlan) -> bool:
    return plan.has_scalar or any(_list_possible(one) for one in plan.lists) or any(o.settled() for o in plan.objects)


def _list_possible(plan: ListPlan) -> bool:
    """Like ListPlan.settled, changing nothing: plans may still become possible."""
    if plan.machine is not None:
        return plan.settled()
    if plan.most is not None and plan.least > plan.most:
        return False
    needed = [*plan.prefix[:plan.least], *([plan.rest] if plan.least > len(plan.prefix) else [])]
    return all(value.possible for value in needed)


def unsatisfiable(root: ValuePlan) -> Unsatisfiable:
    """Follow the one reason down as far as it is one."""
    plan, where, why = root, root.pointer, "no value fits this schema"
    seen: set[int] = set()
    while id(plan) not in seen:
        seen.add(id(plan))
        if len(plan.objects) + len(plan.lists) != 1:
            break
        if plan.objects:
            missing = plan.objects[0].missing()
            if missing is None:
                break
            where, why = plan.objects[0].pointer, f"the required property {missing.name!r} cannot exist"
            plan = missing.value
        else:
            if plan.lists[0].machine is not None:
                break
            needed = [v for v in (*plan.lists[0].prefix, plan.lists[0].rest) if not v.possible]
            if not needed:
                break
            plan, where, why = needed[0], plan.lists[0].pointer, "no list has the items that it needs"
        if plan.pointer != "#":
            where = plan.pointer
    return Unsatisfiable(why, keyword="schema", where=where, fix="Loosen the keywords that exclude each other.")


def endless(plan: ValuePlan, around: frozenset[int] = frozenset(), closed: frozenset[int] = frozenset()) -> bool:
    """Whether a plan certainly has endlessly many values. Which values are possible must be known. around: plans whose
    values may have any of this one inside; closed: those that may not."""
    if not plan.possible or id(plan) in closed:
        return False
    if id(plan) in around:
        return True  # none is the greatest
    around |= {id(plan)}
    if any(text.maximum is None and longest(text.body.dfa) is None for text in plan.strings):
        return True
    return any(_endless_list(one, around, closed) for one in plan.lists if one.possible) or any(
        _endless_object(thing, around, closed) for thing in plan.objects if thing.possible)


def _endless_list(plan: ListPlan, around: frozenset[int], closed: frozenset[int]) -> bool:
    if plan.machine is not None:
        return False
    if plan.most is None and plan.rest.possible and not plan.unique:
        return True
    if plan.unique:  # an item inside itself may be one that is there already
        around, closed = frozenset(), closed | around
    places = [*plan.prefix, *([plan.rest] if plan.most is None or plan.most > len(plan.prefix) else [])]
    return any(endless(value, around, closed) for value in places[:plan.most])


def _endless_object(plan: ObjectPlan, around: frozenset[int], closed: frozenset[int]) -> bool:
    if plan.demands:
        return False
    full = plan.most is not None and sum(member.required for member in plan.members) >= plan.most
    if plan.free is not None and not full:
        if longest(plan.free) is None and all(value.possible for value in plan.free_values):
            return True
        if any(endless(value, around, closed) for value in plan.free_values):
            return True
    return any(endless(member.value, around, closed) for member in plan.members if member.required or not full)
