"""From meanings to plans, place by place; conjunctions with the same alternatives share a plan."""

from __future__ import annotations

from itertools import chain, combinations_with_replacement, islice

from msgspec.structs import replace

from ..automata.utf8 import json_string, json_string_freely
from ..constraint import Writing
from ..errors import ConstraintTooLarge
from ..limits import Meter
from ..schemas.document import pointer_of
from ..schemas.json_text import MAX_VALUE_DEPTH, depth_of
from ..schemas.meaning import Meaning, kind_of
from ..schemas.shape import Places, Shape
from ..schemas.strings import StringText, free_text, shaped_text
from .canonical import Canonical
from .contested import PlaceValues, contested
from .items import ItemCounter, by_place
from .keys import relabel
from .nested_patterns import flatten_patterns
from .number_text import number_text
from .object_planner import ObjectPlanner
from .plan import ItemMachine, ListPlan, ObjectPlan, Pair, ValuePlan, find_possible, unsatisfiable
from .unique import check_enough, has_fewer, have_equal_items, keep_apart
from .unordered import one_demand_each

# Places of a list, two by two, where two items that must be equal may stand.
_MAX_PAIRS = 128
# What is asked of a string that is a pattern and nothing else (Meaning.texts_of).
_PATTERN = ((), (), ("regex",), ())


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
                self._properties().finite_keys(plan)
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

    def _properties(self) -> ObjectPlanner:
        """Made anew: one that is kept would know who keeps it, and only the collector would free them."""
        return ObjectPlanner(self._meaning, self._meter, self._writing, self.plan)

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
                self._meaning.notes.at("multipleOf", shape.pointer, f": {numbers.note}")
            plan.numbers.extend([] if numbers.dfa.empty else [numbers])
        if "string" in shape.kinds:
            plan.strings.extend(self._strings(shape, plan.freely))
        if "array" in shape.kinds:
            if leaf not in self._lists:
                self._lists[leaf] = self._list(shape)
            plan.lists.append(self._lists[leaf])
        if "object" in shape.kinds:
            if leaf not in self._objects:
                whole = self._properties().of_shape(shape)
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
