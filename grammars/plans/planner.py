"""From meanings to plans, place by place; conjunctions with the same alternatives share a plan."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain, combinations_with_replacement, islice
from typing import TypeVar

from msgspec.structs import replace

from ..automata import charset
from ..automata.dfa import Dfa, complement, intersect, literals, longest
from ..automata.minimise import minimise
from ..automata.utf8 import json_string, json_string_freely
from ..constraint import Writing
from ..errors import ConstraintTooLarge
from ..limits import Meter
from ..schemas.document import pointer_of
from ..schemas.json_text import MAX_VALUE_DEPTH, depth_of
from ..schemas.meaning import Meaning, kind_of
from ..schemas.shape import Places, Shape, SomeProperty
from ..schemas.strings import ANY_CHARACTERS, StringText, free_text, shaped_text, without
from .canonical import Canonical
from .contested import PlaceValues, contested
from .items import ItemCounter, by_place
from .keys import labelled, relabel, words_of
from .nested_patterns import flatten_patterns
from .number_text import number_text
from .plan import ItemMachine, ListPlan, Member, ObjectPlan, Pair, ValuePlan, Witnesses, find_possible, unsatisfiable
from .unique import check_enough, has_fewer, have_equal_items, keep_apart
from .unordered import one_demand_each

# A finite set of free keys with at most this many members is written like declared ones.
_FINITE_KEYS = 64
# In any order they cost little: each is a member of the register.
_FINITE_UNORDERED = 4_096
# Negations that ask for some property: each doubles the states of an object.
_MAX_DEMANDS = 8
# Places of a list, two by two, where two items that must be equal may stand.
_MAX_PAIRS = 128
# What is asked of a string that is a pattern and nothing else (Meaning.texts_of).
_PATTERN = ((), (), ("regex",), ())

_Labelled = TypeVar("_Labelled", bound="tuple[Dfa, dict[int, tuple[bool, ...]]] | tuple[Dfa, dict[int, int]]")


class Planner:
    """Plans by place. `plan` only queues; `settle` finishes them all."""

    def __init__(self, meaning: Meaning, meter: Meter, writing: Writing) -> None:
        self._meaning = meaning
        self._writing = writing
        self._meter = meter
        self._plans: dict[tuple[Places, ...] | str, ValuePlan] = {}
        self._lists: dict[Places, ListPlan] = {}
        self._unique: list[ListPlan] = []
        self._repeated: list[tuple[ListPlan, str]] = []
        self._texts: dict[tuple[object, ...], StringText | None] = {}
        self._objects: dict[Places, list[ObjectPlan]] = {}
        self._queue: list[tuple[tuple[Places, ...], ValuePlan]] = []
        self._places: dict[int, Places] = {}  # by id of a plan
        self._done: set[int] = set()  # ids of lists whose places were looked at together

    def plan(self, places: Places, pointer: str) -> ValuePlan:
        """Conjunctions with the same alternatives share a plan, and so do those that ask for one type of scalars."""
        leaves = self._meaning.leaves(places)
        key = self._meaning.bare(leaves) or leaves or (places, ())  # what nothing fits keeps its own place
        known = self._plans.get(key)
        if known is None:
            known = self._plans[key] = ValuePlan(pointer_of(places[0]) if places else pointer)
            self._queue.append((leaves, known))
            self._places[id(known)] = places
        return known

    def settle(self, root: ValuePlan) -> None:
        """Fill every plan, then find those with a finite instance. Raises Unsatisfiable when the root has none."""
        self._fill_all(0)
        while self._restrict_keys() or self._cut_lists() or self._share_values():
            self._find_possible()
        if not root.possible:
            raise unsatisfiable(root)
        flatten_patterns([*self._unique, *(one for one, _ in self._repeated)])
        for one in self._unique:
            if one.unlike and one.possible:
                check_enough(one, self._canonical())

    def _fill_all(self, filled: int) -> None:
        """Fills the plans behind the first ones, and those that they mention."""
        lists, repeated = len(self._unique), len(self._repeated)
        for leaves, plan in islice(self._queue, filled, None):  # grows while it runs
            if len(self._queue) > self._meter.limits.rules:
                raise ConstraintTooLarge(f"the schema needs more than {self._meter.limits.rules} rules",
                                         keyword="rules", where=plan.pointer, fix="Use a smaller schema.")
            self._meter.time(plan.pointer)
            plan.freely = self._writing.spelling == "any" or (len(leaves) > 1 and any(map(self._any_text, leaves)))
            for leaf in leaves:
                self._fill(plan, leaf)
        for one, pointer in self._repeated[repeated:]:
            have_equal_items(one, pointer)
        # Those inside others first: what these may be depends on them.
        for one in reversed(self._unique[lists:]):
            keep_apart(one, self._canonical(), self._writing)
        self._find_possible()

    def _find_possible(self) -> None:
        plans = [plan for _, plan in self._queue]
        for plan in plans:
            plan.possible = False
        find_possible(plans)

    def _restrict_keys(self) -> bool:
        """Takes out the free keys whose values cannot exist, so that few others are told as such; whether there were
        any."""
        found = False
        for plan in chain.from_iterable(self._objects.values()):
            labels = {state: label for state, label in plan.labels.items() if plan.free_values[label].possible}
            if plan.free is not None and len(labels) < len(plan.labels):
                plan.free, plan.labels = relabel(plan.free, labels) if labels else (plan.free, {})
                self._finite_keys(plan)
                found = True
        return found

    def _cut_lists(self) -> bool:
        """Cuts lists that must have more different items than there are values; whether there were any."""
        cut = [one for one in self._unique if one.unlike and one.possible and has_fewer(one, self._canonical())]
        return bool(cut)

    def _share_values(self) -> bool:
        """Sees to it that all places of one list find values of their own; whether there was one to look at."""
        for one in reversed(self._unique):
            if not (one.unlike and one.possible and (one.prefix or one.machine)) or id(one) in self._done:
                continue
            self._done.add(id(one))
            values = PlaceValues(self._canonical(), self._meaning, lambda plan: self._places[id(plan)], self.plan)
            filled = len(self._queue)
            one.machine = contested(one, values)
            self._fill_all(filled)
            return True
        return False

    def _canonical(self) -> Canonical:
        leaves = {id(plan): found for found, plan in self._queue}
        return Canonical(leaves, self._meaning, self._meter, self._writing)

    # One value

    def _any_text(self, leaf: Places) -> bool:
        """Whether a string may be any text, its length aside."""
        shape = self._meaning.shape(leaf)
        return shape.values is None and "string" in shape.kinds and not self._meaning.text_shapes(shape)

    def _fill(self, plan: ValuePlan, leaf: Places) -> None:
        shape = self._meaning.shape(leaf)
        if shape.values is not None:
            self._fill_values(plan, shape)
            return
        plan.words.extend([*([None] if "null" in shape.kinds else []),
                           *([True, False] if "boolean" in shape.kinds else [])])
        if "number" in shape.kinds:
            number = replace(shape.number, zeros=self._writing.spelling == "any")
            numbers = number_text(number, self._meter, shape.pointer)
            if numbers.note:
                self._meaning.note(f"multipleOf at {shape.pointer}: {numbers.note}")
            plan.numbers.extend([] if numbers.dfa.empty else [numbers])
        if "string" in shape.kinds:
            plan.strings.extend(self._strings(shape, plan.freely))
        if "array" in shape.kinds:
            if leaf not in self._lists:
                self._lists[leaf] = self._list(shape)
            plan.lists.append(self._lists[leaf])
        if "object" in shape.kinds:
            if leaf not in self._objects:
                whole = self._object(shape)
                self._objects[leaf] = [whole] if self._writing.order == "schema" else one_demand_each(whole)
            plan.objects.extend(self._objects[leaf])

    def _fill_values(self, plan: ValuePlan, shape: Shape) -> None:
        for value in shape.values or ():
            if depth_of(value) > MAX_VALUE_DEPTH:
                raise ConstraintTooLarge(f"a value is nested deeper than {MAX_VALUE_DEPTH} levels", keyword="enum",
                                         where=shape.pointer, fix="Describe it with properties and items.")
            self._meter.states(0)
            if kind_of(value) in shape.kinds and self._meaning.fits(shape, value):
                whole = shape.number.integer and kind_of(value) == "number"
                plan.values.append(int(value) if whole else value)  # type: ignore[arg-type]

    def _strings(self, shape: Shape, freely: bool) -> list[StringText]:
        shapes, least, most = self._meaning.text_shapes(shape), shape.least_length, shape.most_length
        if most is not None and least > most:
            return []
        meter = self._meter
        spell = json_string_freely if freely else json_string
        key = ("text", self._meaning.texts_of(shape), least, most, freely)
        if key not in self._texts:
            self._texts[key] = meter.shared(
                key,
                lambda: shaped_text(shapes, least, most, meter, spell) if shapes else free_text(least, most, meter),
                lambda text: text.body.dfa.size if text else 100)
        text = self._texts[key]
        if text is not None and (least, most) == (0, None) and key[1] == _PATTERN:
            text = replace(text, nested=spell)
        return [] if text is None else [text]

    def _list(self, shape: Shape) -> ListPlan:
        prefix = max((len(part.prefix) for part in shape.lists), default=0)
        unique = None if shape.most_items in (0, 1) else shape.unique
        least = shape.least_items if shape.repeated is None else max(shape.least_items, 2)
        if shape.some_items:
            counter = ItemCounter(shape.some_items, prefix, least, shape.most_items,
                                  lambda index: self._meaning.item(shape, index), self._meaning.negated,
                                  lambda places: self.plan(places, shape.pointer))
            plan = ListPlan(shape.pointer, [], self.plan((), shape.pointer), least, shape.most_items,
                            unique, machine=counter.machine(), unlike=unique is not None)
        else:
            first = [self.plan(self._meaning.item(shape, i), shape.pointer) for i in range(prefix)]
            plan = ListPlan(shape.pointer, first, self.plan(self._meaning.item(shape, prefix), shape.pointer), least,
                            shape.most_items, unique)
        if unique is not None:
            self._unique.append(plan)
        if shape.repeated is not None:
            self._repeated.append((plan, shape.repeated))
            plan.pairs = self._pairs(plan.machine or by_place(plan), shape.pointer)
            plan.joins = self._joins(plan.machine, plan.pairs, shape.pointer) if plan.machine else []
            plan.machine = plan.machine or by_place(plan)
        return plan

    def _pairs(self, machine: ItemMachine, pointer: str) -> list[Pair]:
        """The arcs of a machine whose values two equal items may have."""
        values = list(dict.fromkeys(value for arcs in machine.arcs for value, _ in arcs))
        found: list[Pair] = []
        for one, other in combinations_with_replacement(values, 2):
            mine, theirs = self._places[id(one)], self._places[id(other)]
            if one is other or not self._meaning.disjoint(mine, theirs):
                found.append(Pair(one, other, self._both(one, other, pointer)))
            if len(found) > _MAX_PAIRS:
                raise ConstraintTooLarge(f"more than {_MAX_PAIRS} pairs of places here may have the two equal items "
                                         "that a negation asks for", keyword="uniqueItems", where=pointer,
                                         fix="Use fewer prefixItems, or simpler contains.")
        return found

    def _joins(self, machine: ItemMachine, pairs: list[Pair], pointer: str) -> list[Pair]:
        """What the arcs of a machine and the values of two equal items share. Where a way of counting items is one of
        several, each way then knows all the items that may come again."""
        values = dict.fromkeys(value for arcs in machine.arcs for value, _ in arcs)
        found: list[Pair] = []
        for chosen in dict.fromkeys(pair.both for pair in pairs):
            found += [Pair(chosen, value, self._both(chosen, value, pointer)) for value in values
                      if not self._meaning.disjoint(self._places[id(chosen)], self._places[id(value)])]
        return found

    def _both(self, one: ValuePlan, other: ValuePlan, pointer: str) -> ValuePlan:
        """What is of both plans."""
        return self.plan(tuple(dict.fromkeys((*self._places[id(one)], *self._places[id(other)]))), pointer)

    # One object

    def _object(self, shape: Shape) -> ObjectPlan:
        names, required = self._declared(shape), {*shape.required}
        members: list[Member] = []
        undeclared = not shape.some_properties
        for name in names:
            places = self._meaning.member(shape, name)
            if shape.names and not all(self._meaning.admits((rule,), name) for rule in shape.names):
                places = (self._meaning.document.derive("#", False),)
            undeclared = undeclared and any(map(self._is_false, places))
            member = Member(name, self.plan(places, shape.pointer), name in required)
            if shape.some_properties:
                meets = tuple(self._meaning.witness(some, name) for some in shape.some_properties)
                member.witnesses = self._witnesses(shape, places, meets)
            members.append(member)
        plan = ObjectPlan(shape.pointer, members, None, {}, [], shape.least_properties, shape.most_properties,
                          demands=self._demands(shape), undeclared=undeclared)
        closed = any(not part.patterns and self._is_false(part.additional) for part in shape.objects)
        if not closed and (plan.most is None or plan.most > sum(m.required for m in members)):
            allowed = self._name_shape(shape)
            if self._writing.order == "schema" or shape.some_properties:
                allowed = without(allowed, literals([[*map(ord, name)] for name in names], self._meter), self._meter)
            self._free_keys(plan, shape, allowed)
        return plan

    @staticmethod
    def _demands(shape: Shape) -> int:
        if len(shape.some_properties) > _MAX_DEMANDS:
            raise ConstraintTooLarge(
                f"more than {_MAX_DEMANDS} negations here each ask for some property", keyword="not",
                where=shape.pointer, fix="Combine fewer negations of objects.")
        return len(shape.some_properties)

    def _witnesses(self, shape: Shape, places: Places, meets: tuple[bool, ...]) -> Witnesses:
        """The values of a property by the demands that they meet, for each set of those that its key allows."""
        found: Witnesses = {}
        able = [i for i, meet in enumerate(meets) if meet]
        for bits in range(1, 1 << len(able)):
            chosen = [i for at, i in enumerate(able) if bits >> at & 1]
            extra = [shape.some_properties[i].value for i in chosen]
            merged = tuple(dict.fromkeys((*places, *(place for place in extra if place is not None))))
            found[sum(1 << i for i in chosen)] = self.plan(merged, shape.pointer)
        return found

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
        for some in shape.some_properties:
            for name in (*sorted(some.excluded), *self._few_witnesses(some)):
                names.setdefault(name)
        return list(names)

    def _few_witnesses(self, some: SomeProperty) -> list[str]:
        """The names that may meet a demand, where order does not matter and they are few."""
        keys = minimise(self._witness_keys(some)) if self._writing.order == "any" else ANY_CHARACTERS
        words = words_of(keys, _FINITE_KEYS) if longest(keys) is not None else None
        return [word for word, _ in words or ()]

    def _name_shape(self, shape: Shape) -> Dfa:
        """All keys that propertyNames allows."""
        options = [ANY_CHARACTERS]
        for rule in shape.names:
            options.append(self._meaning.texts((rule,)))
        return minimise(intersect(options, self._meter)) if len(options) > 1 else ANY_CHARACTERS

    def _free_keys(self, plan: ObjectPlan, shape: Shape, allowed: Dfa) -> None:
        """Split the keys that are not declared by the schemas that their values must fit."""
        if allowed is ANY_CHARACTERS and not shape.some_properties and not any(one.patterns for one in shape.objects):
            self._any_keys(plan, self._free_value(shape, ()))
            return
        located = [one for part in shape.objects for one, _ in part.patterns]
        witnesses = [self._witness_keys(some) for some in shape.some_properties]
        texts = tuple([one.text for one in located]) if allowed is ANY_CHARACTERS and not witnesses else None
        parts = [allowed, *map(self._meaning.pattern, located), *witnesses]
        keys, verdicts = self._shared_keys(texts, "told", lambda: labelled(parts, self._meter))
        chosen: dict[tuple[bool, ...], int] = {}
        values: dict[tuple[Places, tuple[bool, ...]], int] = {}
        for verdict in dict.fromkeys(verdicts.values()):
            places = self._free_value(shape, verdict[1:1 + len(located)])
            if any(self._is_false(place) for place in places):
                continue
            key = places, verdict[1 + len(located):]
            if key not in values:
                values[key] = len(plan.free_values)
                plan.free_values.append(self.plan(places, shape.pointer))
                plan.free_witnesses.append(self._witnesses(shape, *key))
            chosen[verdict] = values[key]
        plan.free = keys
        plan.labels = {state: chosen[verdict] for state, verdict in verdicts.items() if verdict in chosen}
        if located or witnesses:
            plan.free, plan.labels = self._shared_keys(
                texts, tuple(sorted(chosen.items())), lambda: relabel(keys, plan.labels))
        self._finite_keys(plan)

    def _any_keys(self, plan: ObjectPlan, places: Places) -> None:
        """As _free_keys, where all keys are alike."""
        if not any(map(self._is_false, places)):
            plan.free, plan.labels = ANY_CHARACTERS, {0: 0}
            plan.free_values.append(self.plan(places, plan.pointer))
            plan.free_witnesses.append({})

    def _shared_keys(self, texts: tuple[str, ...] | None, what: Hashable, make: Callable[[], _Labelled]) -> _Labelled:
        """What is made of the keys that patterns of these texts tell apart, found again. None: not these alone."""
        if texts is None:
            return make()
        return self._meter.shared(("keys", texts, what), make, lambda made: made[0].size + 100 * len(made[1]))

    def _witness_keys(self, some: SomeProperty) -> Dfa:
        """The keys that may meet a demand, as characters."""
        parts = [self._meaning.pattern(some.only) if some.only else ANY_CHARACTERS]
        parts += [complement(self._meaning.pattern(pattern), charset.ALL) for pattern in some.patterns]
        if some.names is not None:
            parts.append(self._meaning.texts((some.names,)))
        return intersect(parts, self._meter)  # names that are excluded are declared, and so no free keys here

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
        """A few possible keys are members, so that counts stay honest. Those that are declared are none of them: behind
        such they are written in order, so that nothing must be remembered. Where none is, no order is asked for."""
        if plan.free is None or not plan.labels:
            plan.free = None
            return
        if longest(plan.free) is None:
            return
        words = words_of(plan.free, _FINITE_KEYS if self._writing.order == "schema" else _FINITE_UNORDERED)
        if words is not None:
            declared = {member.name for member in plan.members}
            plan.members.extend(Member(word, plan.free_values[plan.labels[state]], False,
                                       plan.free_witnesses[plan.labels[state]])
                                for word, state in words if word not in declared)
            plan.free = None
        elif self._writing.order == "any" and plan.least > _FINITE_UNORDERED:
            raise ConstraintTooLarge(f"minProperties above {_FINITE_UNORDERED} where keys are finitely many",
                                     keyword="minProperties", where=plan.pointer, fix="Use a smaller bound.")
