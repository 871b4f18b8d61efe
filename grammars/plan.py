"""From meanings to a plan: for every place where a value stands, which scalars, lists and objects may stand there.

Plans refer to each other, so recursion is a cycle here. `settle` finds the plans that have a finite instance, as a
least fixpoint; what has none is absent where it is optional, and a refusal where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .constraint import Spacing
from .dfa import Dfa, bounded, combine, explore, intersect, literals, longest, minimise, overlay, trim
from .document import pointer_of
from .errors import ConstraintTooLarge, Unsatisfiable
from .json_text import MAX_VALUE_DEPTH, JsonValue, depth_of
from .limits import Meter
from .meaning import Meaning, kind_of
from .numbers import number_dfa
from .shape import Places, Shape
from .strings import ANY_CHARACTERS, StringText, free_text, shaped_text, without

# A finite set of free keys with at most this many members is written in order, like declared ones.
_FINITE_KEYS = 64


@dataclass(slots=True, eq=False)
class ValuePlan:
    """values: members of an enum, spelled where they stand. numbers, strings: automata. words: of null, true, false."""

    pointer: str
    values: list[JsonValue] = field(default_factory=list)
    words: list[JsonValue] = field(default_factory=list)
    numbers: list[Dfa] = field(default_factory=list)
    strings: list[StringText] = field(default_factory=list)
    lists: list[ListPlan] = field(default_factory=list)
    objects: list[ObjectPlan] = field(default_factory=list)
    possible: bool = False

    @property
    def has_scalar(self) -> bool:
        return bool(self.values or self.words or self.numbers or self.strings)


@dataclass(slots=True, eq=False)
class ListPlan:
    """prefix: the first items; rest: the others. most None: without end."""

    pointer: str
    prefix: list[ValuePlan]
    rest: ValuePlan
    least: int
    most: int | None
    possible: bool = False

    def settled(self) -> bool:
        """Cut `most` to what can exist; True when a list can."""
        if not self.rest.possible:
            self.most = len(self.prefix) if self.most is None else min(self.most, len(self.prefix))
        for index, plan in enumerate(self.prefix):
            if not plan.possible:
                self.most = index if self.most is None else min(self.most, index)
                break
        return self.most is None or self.least <= self.most


@dataclass(slots=True)
class Member:
    """A declared property."""

    name: str
    value: ValuePlan
    required: bool


@dataclass(slots=True, eq=False)
class ObjectPlan:
    """members: declared properties in the order in which they are written. free: every other key as one automaton over
    characters; labels[state] is the index in free_values of the value of a key that ends there."""

    pointer: str
    members: list[Member]
    free: Dfa | None
    labels: dict[int, int]
    free_values: list[ValuePlan]
    least: int
    most: int | None
    possible: bool = False

    def missing(self) -> Member | None:
        """A required property that cannot exist."""
        return next((m for m in self.members if m.required and not m.value.possible), None)

    def settled(self) -> bool:
        if self.missing() is not None:
            return False
        needed = sum(m.required for m in self.members)
        if self.most is not None and max(needed, self.least) > self.most:
            return False
        endless = self.free is not None and any(value.possible for value in self.free_values)
        return endless or sum(m.value.possible for m in self.members) >= self.least


class Planner:
    """Plans by place. `plan` only queues; `settle` finishes them all."""

    def __init__(self, meaning: Meaning, meter: Meter, spacing: Spacing) -> None:
        self._meaning = meaning
        self._meter = meter
        self._spacing = spacing
        self._plans: dict[tuple[Places, ...], ValuePlan] = {}
        self._lists: dict[Places, ListPlan] = {}
        self._texts: dict[tuple[object, ...], StringText | None] = {}
        self._objects: dict[Places, ObjectPlan] = {}
        self._queue: list[tuple[tuple[Places, ...], ValuePlan]] = []

    def plan(self, places: Places, pointer: str) -> ValuePlan:
        """Conjunctions with the same alternatives share a plan."""
        leaves = self._meaning.leaves(places)
        key = leaves or (places, ())  # what nothing fits keeps its own place
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = ValuePlan(pointer_of(places[0]) if places else pointer)
            self._queue.append((leaves, known))
        return known

    def settle(self, root: ValuePlan) -> None:
        """Fill every plan, then find those with a finite instance. Raises Unsatisfiable when the root has none."""
        for leaves, plan in self._queue:  # grows while it runs
            if len(self._queue) > self._meter.limits.rules:
                raise ConstraintTooLarge(f"the schema needs more than {self._meter.limits.rules} rules",
                                         keyword="rules", where=plan.pointer, fix="Use a smaller schema.")
            self._meter.time(plan.pointer)
            for leaf in leaves:
                self._fill(plan, leaf)
        _fixpoint([plan for _, plan in self._queue])
        if not root.possible:
            raise _unsatisfiable(root)

    # One value

    def _fill(self, plan: ValuePlan, leaf: Places) -> None:
        shape = self._meaning.shape(leaf)
        if shape.values is not None:
            self._fill_values(plan, shape)
            return
        words: list[tuple[str, JsonValue]] = [("null", None), ("boolean", True), ("boolean", False)]
        plan.words.extend(word for kind, word in words if kind in shape.kinds)
        if "number" in shape.kinds:
            numbers = number_dfa(shape.number, self._meter, shape.pointer)
            plan.numbers.extend([] if numbers.empty else [numbers])
        if "string" in shape.kinds:
            plan.strings.extend(self._strings(shape))
        if "array" in shape.kinds:
            if leaf not in self._lists:
                self._lists[leaf] = self._list(shape)
            plan.lists.append(self._lists[leaf])
        if "object" in shape.kinds:
            if leaf not in self._objects:
                self._objects[leaf] = self._object(shape)
            plan.objects.append(self._objects[leaf])

    def _fill_values(self, plan: ValuePlan, shape: Shape) -> None:
        for value in shape.values or ():
            if depth_of(value) > MAX_VALUE_DEPTH:
                raise ConstraintTooLarge(f"a value is nested deeper than {MAX_VALUE_DEPTH} levels", keyword="enum",
                                         where=shape.pointer, fix="Describe it with properties and items.")
            self._meter.states(0)
            if kind_of(value) in shape.kinds and self._meaning.fits(shape, value):
                whole = shape.number.integer and kind_of(value) == "number"
                plan.values.append(int(value) if whole else value)  # type: ignore[arg-type]

    def _strings(self, shape: Shape) -> list[StringText]:
        shapes, most = self._meaning.text_shapes(shape), shape.most_length
        if most is not None and shape.least_length > most:
            return []
        # Automata are shared by what they say, so the same one is the same object: see Meaning.pattern.
        key = (tuple(map(id, shapes)), shape.least_length, most)
        if key not in self._texts:
            self._texts[key] = (shaped_text(shapes, shape.least_length, most, self._meter, shape.pointer) if shapes
                                else free_text(shape.least_length, most, self._meter))
        text = self._texts[key]
        return [] if text is None else [text]

    def _list(self, shape: Shape) -> ListPlan:
        longest_prefix = max((len(part.prefix) for part in shape.lists), default=0)
        return ListPlan(
            shape.pointer,
            [self.plan(self._meaning.item(shape, i), shape.pointer) for i in range(longest_prefix)],
            self.plan(self._meaning.item(shape, longest_prefix), shape.pointer),
            shape.least_items, shape.most_items,
        )

    # One object

    def _object(self, shape: Shape) -> ObjectPlan:
        names = self._declared(shape)
        members: list[Member] = []
        for name in names:
            places = self._meaning.member(shape, name)
            if not all(self._meaning.admits((rule,), name) for rule in shape.names):
                places = (self._meaning.document.derive("#", False),)
            members.append(Member(name, self.plan(places, shape.pointer), name in shape.required))
        plan = ObjectPlan(shape.pointer, members, None, {}, [], shape.least_properties, shape.most_properties)
        closed = any(not part.patterns and self._is_false(part.additional) for part in shape.objects)
        if not closed and (plan.most is None or plan.most > sum(m.required for m in members)):
            declared = literals([[*map(ord, name)] for name in names], self._meter)
            self._free_keys(plan, shape, without(self._name_shape(shape), declared, self._meter))
        return plan

    def _is_false(self, place: str | None) -> bool:
        return place is not None and self._meaning.document.schema(place) is False

    def _declared(self, shape: Shape) -> list[str]:
        """Declared names in the order of declaration, then those that are only required."""
        names: dict[str, None] = {}
        for part in shape.objects:
            for name in part.properties:
                names.setdefault(name)
        for name in shape.required:
            names.setdefault(name)
        return list(names)

    def _name_shape(self, shape: Shape) -> Dfa:
        """All keys that propertyNames allows."""
        options = [ANY_CHARACTERS]
        for rule in shape.names:
            options.append(self._names_of(rule))
        return minimise(intersect(options, self._meter)) if len(options) > 1 else ANY_CHARACTERS

    def _names_of(self, rule: str) -> Dfa:
        found: list[Dfa] = []
        for inner in self._meaning.shapes((rule,)):
            if "string" not in inner.kinds:
                continue
            if inner.values is not None:
                words = [v for v in inner.values if isinstance(v, str) and self._meaning.fits(inner, v)]
                found.append(literals([[*map(ord, word)] for word in words], self._meter))
                continue
            shape = intersect([ANY_CHARACTERS, *self._meaning.text_shapes(inner)], self._meter)
            found.append(bounded(shape, inner.least_length, inner.most_length, self._meter))
        return combine(found, any, self._meter) if found else literals([], self._meter)

    def _free_keys(self, plan: ObjectPlan, shape: Shape, allowed: Dfa) -> None:
        """Split the keys that are not declared by the schemas that their values must fit."""
        patterns = [self._meaning.pattern(located) for part in shape.objects for located, _ in part.patterns]
        keys, verdicts = _labelled([allowed, *patterns], self._meter)
        values: dict[Places, int] = {}
        for state, verdict in verdicts.items():
            places = self._free_value(shape, verdict[1:])
            if any(self._is_false(place) for place in places):
                continue
            if places not in values:
                values[places] = len(plan.free_values)
                plan.free_values.append(self.plan(places, shape.pointer))
            plan.labels[state] = values[places]
        plan.free, plan.labels = _relabel(keys, plan.labels) if patterns else (keys, plan.labels)
        self._finite_keys(plan)

    def _free_value(self, shape: Shape, matched: tuple[bool, ...]) -> Places:
        places: dict[str, None] = {}
        place_of = iter(matched)
        for part in shape.objects:
            mine = [place for (_, place), hit in zip(part.patterns, place_of, strict=False) if hit]
            if not mine and part.additional is not None:
                mine = [part.additional]
            for place in mine:
                places.setdefault(place)
        return tuple(places)

    def _finite_keys(self, plan: ObjectPlan) -> None:
        """A few possible keys are better written in order: nothing must be remembered, and counts stay honest."""
        if plan.free is None or not plan.labels:
            plan.free = None
            return
        if longest(plan.free) is None:
            return
        words = _words(plan.free, _FINITE_KEYS)
        if words is not None:
            plan.members.extend(Member(word, plan.free_values[plan.labels[state]], False) for word, state in words)
            plan.free = None


def _labelled(parts: list[Dfa], meter: Meter) -> tuple[Dfa, dict[int, tuple[bool, ...]]]:
    """The texts of the first part, with the verdicts of all parts for each final state."""
    if len(parts) == 1:
        return parts[0], dict.fromkeys(parts[0].finals, (True,))
    order: list[tuple[int, ...]] = []

    def step(states: tuple[int, ...]) -> list[tuple[int, int, tuple[int, ...]]]:
        order.append(states)
        rows = [parts[i].edges[s] if s >= 0 else () for i, s in enumerate(states)]
        return [arc for arc in overlay(rows) if arc[2][0] >= 0]

    dfa = explore((0,) * len(parts), step, lambda states: states[0] in parts[0].finals, meter)
    verdicts = {i: tuple(s in parts[k].finals for k, s in enumerate(order[i])) for i in dfa.finals}
    return dfa, verdicts


def _relabel(dfa: Dfa, labels: dict[int, int]) -> tuple[Dfa, dict[int, int]]:
    """Keep only the labelled finals, trimmed and minimised with the labels told apart."""
    # A private symbol per label, above all characters, keeps finals of different labels apart.
    end = len(dfa.edges)
    rows = [list(row) for row in dfa.edges]
    for state, label in labels.items():
        rows[state].append((0x110000 + label, 0x110000 + label, end))
    marked = minimise(trim(Dfa(tuple(tuple(row) for row in [*rows, []]), frozenset([end]))))
    found: dict[int, int] = {}
    plain: list[tuple[tuple[int, int, int], ...]] = []
    for state, row in enumerate(marked.edges):
        plain.append(tuple(edge for edge in row if edge[0] < 0x110000))
        for low, _, _ in row:
            if low >= 0x110000:
                found[state] = low - 0x110000
    return Dfa(tuple(plain), frozenset(found)), found


def _words(dfa: Dfa, limit: int) -> list[tuple[str, int]] | None:
    """All texts of a finite automaton with the state each ends in; None when there are more than `limit`."""
    found: list[tuple[str, int]] = []
    stack = [("", 0)]
    while stack:
        text, state = stack.pop()
        if state in dfa.finals:
            found.append((text, state))
        for low, high, target in reversed(dfa.edges[state]):
            if high - low >= limit:
                return None
            stack.extend((text + chr(code), target) for code in range(high, low - 1, -1))
        if len(found) > limit or len(stack) > limit * 4:
            return None
    return found


def _fixpoint(plans: list[ValuePlan]) -> None:
    """Least fixpoint of `possible`, by a work list over who mentions whom."""
    owners: dict[int, list[ValuePlan]] = {}
    for plan in plans:
        for inner in _mentioned(plan):
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


def _mentioned(plan: ValuePlan) -> list[ValuePlan]:
    inner = [value for one in plan.lists for value in (*one.prefix, one.rest)]
    for thing in plan.objects:
        inner.extend(member.value for member in thing.members)
        inner.extend(thing.free_values)
    return inner


def _possible(plan: ValuePlan) -> bool:
    return plan.has_scalar or any(_list_possible(one) for one in plan.lists) or any(o.settled() for o in plan.objects)


def _list_possible(plan: ListPlan) -> bool:
    """Like ListPlan.settled, changing nothing: plans may still become possible."""
    if plan.most is not None and plan.least > plan.most:
        return False
    needed = [*plan.prefix[:plan.least], *([plan.rest] if plan.least > len(plan.prefix) else [])]
    return all(value.possible for value in needed)


def _unsatisfiable(root: ValuePlan) -> Unsatisfiable:
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
            needed = [v for v in (*plan.lists[0].prefix, plan.lists[0].rest) if not v.possible]
            if not needed:
                break
            plan, where, why = needed[0], plan.lists[0].pointer, "no list has the items that it needs"
        if plan.pointer != "#":
            where = plan.pointer
    return Unsatisfiable(why, keyword="schema", where=where, fix="Loosen the keywords that exclude each other.")


