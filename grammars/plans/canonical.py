"""Lists and objects that must differ: one automaton of their texts, in which equal values have equal texts.

Numbers and strings have one spelling, and keys stand in one order wherever two objects could be equal. So the register
of different items, which compares texts, compares values. What has no such automaton is compared by value (ir.Unlike):
keys that are not declared, several keys in any order, nesting without end, lists inside whose own items must differ,
any spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ..automata.build import merged, quoted
from ..automata.dfa import NOTHING, Dfa, Edge, combine, intersect, literals, trim
from ..automata.joining import Joining
from ..automata.minimise import minimise
from ..automata.utf8 import json_string
from ..constraint import Writing
from ..limits import Meter
from ..schemas.json_text import JsonValue, Layout, spell
from ..schemas.meaning import Meaning
from ..schemas.shape import Places
from .items import by_place
from .plan import ItemMachine, ListPlan, Member, ObjectPlan, ValuePlan

# Levels of lists and objects in an item.
_DEEPEST = 16
# Items of a list, and properties of an object times the numbers of them that are told apart.
_MANY = 256
# Characters of a string whose length is bounded: states.
_LONGEST = 500


class ManyTexts(Exception):
    """Values that have no such automaton, or a large one."""


class Canonical:
    """For one list. leaves: of every plan, by its id. Raises ManyTexts."""

    def __init__(self, leaves: Mapping[int, tuple[Places, ...]], meaning: Meaning, meter: Meter,
                 writing: Writing) -> None:
        self._leaves = leaves
        self._meaning = meaning
        self.meter = meter
        self._writing = writing
        self._before: set[tuple[str, str]] = set()  # keys of one object, in the order in which they are written
        self._nested: dict[tuple[int, int], Dfa] = {}
        self._made: dict[tuple[int, int], Dfa] = {}
        self._around: set[int] = set()  # plans at work, by id

    def plainly(self) -> Canonical:
        """For values that are only counted: as they are spelled by default."""
        return Canonical(self._leaves, self._meaning, self.meter, Writing())

    def strings(self, plan: ValuePlan) -> Dfa:
        """The strings of a plan, as characters."""
        leaves = self._leaves.get(id(plan))
        if leaves is None:
            words = [[*map(ord, value)] for value in plan.values if isinstance(value, str)]
            return literals(words, self.meter) if words else NOTHING
        found = [self._meaning.texts_at(leaf) for leaf in leaves]
        return minimise(combine(found, any, self.meter)) if found else NOTHING

    def nested(self, plan: ValuePlan, depth: int) -> Dfa:
        """The lists and objects of a plan, as bytes; depth: the levels of indentation around them."""
        inside = [value for value in plan.values if isinstance(value, list | dict)]
        if not (inside or plan.lists or plan.objects):
            return NOTHING
        key = (id(plan), depth)
        if key in self._nested:
            return self._nested[key]
        if self._writing.spacing == "any" or self._writing.spelling == "any":
            raise ManyTexts("lists and objects have many texts in any spelling or with any blanks")
        if id(plan) in self._around:
            raise ManyTexts("items nest without end")
        if len(self._around) > _DEEPEST:
            raise ManyTexts("items are nested too deeply")
        self._around.add(id(plan))
        text = _Texts(self, depth)
        for value in inside:
            text.end(text.constant(0, value, depth))
        for one in plan.lists:
            text.list_of(one)
        for thing in plan.objects:
            text.object_of(thing)
        self._around.discard(id(plan))
        self._nested[key] = text.finish()
        return self._nested[key]

    def value(self, plan: ValuePlan, depth: int) -> Dfa:
        """All values of a plan, as bytes."""
        key = (id(plan), depth)
        if key not in self._made:
            self._countable(plan)
            strings, others = self.strings(plan), scalars(plan, self.meter)
            texts = NOTHING if strings.empty else self.quoted(strings)
            parts = [part for part in (self.nested(plan, depth), others, texts) if part is not None and not part.empty]
            self._made[key] = merged(parts, self.meter) if parts else NOTHING
        return self._made[key]

    def _countable(self, plan: ValuePlan) -> None:
        for shape in map(self._meaning.shape, self._leaves.get(id(plan), ())):
            if "string" in shape.kinds and max(shape.least_length, shape.most_length or 0) > _LONGEST:
                raise ManyTexts("items have strings of too many characters to count")

    def quoted(self, text: Dfa) -> Dfa:
        return quoted(json_string(text, self.meter))

    def layout(self, depth: int) -> Layout:
        return Layout(self._writing.spacing, depth)

    def deeper(self, depth: int) -> int:
        """The levels of indentation around what is inside a value that has `depth` of them."""
        return depth + 1 if self._writing.spacing == "indented" else 0

    def machine(self, plan: ListPlan) -> ItemMachine:
        """What may stand where in a list inside an item."""
        if plan.machine is not None and not (plan.unlike or plan.alike):
            return plan.machine
        if plan.unique or plan.different or plan.alike:
            raise ManyTexts("items have lists whose items are compared too")
        last = max(len(plan.prefix), plan.least, plan.most or 0)
        if last > _MANY:
            raise ManyTexts("items have lists of too many items to count")
        return by_place(plan)

    def members(self, plan: ObjectPlan) -> list[Member]:
        """The properties of an object inside an item, in the order in which they are written."""
        if plan.free is not None or plan.demands:
            raise ManyTexts("items have keys that are not declared")
        if plan.most is None or plan.most > 1:
            self.ordered([member.name for member in plan.members], loose=plan.loose)
        return plan.members

    def ordered(self, names: list[str], *, loose: bool = False) -> None:
        """Notes the order of the keys of one object. Refuses what another object writes the other way round."""
        if len(names) > 1 and (loose or self._writing.order == "any"):
            raise ManyTexts("items have several keys, whose order is free")
        if len(names) > _MANY:
            raise ManyTexts("items have too many keys")
        pairs = {(one, other) for i, one in enumerate(names) for other in names[i + 1:]}
        if any((other, one) in self._before for one, other in pairs):
            raise ManyTexts("items have the same keys in several orders")
        self._before |= pairs


class _Texts:
    """The texts of some lists and objects, put side by side. depth: the levels of indentation around them."""

    def __init__(self, canonical: Canonical, depth: int) -> None:
        self._canonical = canonical
        self._depth = depth
        self._net = Joining(canonical.meter)
        self._end = self._net.state()

    def finish(self) -> Dfa:
        return self._net.finish(self._end)

    def end(self, state: int) -> None:
        self._net.skip(state, self._end)

    def constant(self, source: int, value: JsonValue, depth: int) -> int:
        """Reads one value; returns the state behind it."""
        if isinstance(value, str):
            return self._string(source, value)
        if not isinstance(value, list | dict):
            return self._net.text(source, scalar_text(value).encode())
        net, layout, inside = self._net, self._canonical.layout(depth), self._canonical.deeper(depth)
        opening, closing = (b"[", b"]") if isinstance(value, list) else (b"{", b"}")
        state, lead = net.text(source, opening), layout.inside
        if isinstance(value, list):
            for item in value:
                state = self.constant(net.text(state, lead.encode()), item, inside)
                lead = layout.comma
        else:
            self._canonical.ordered([*value])
            for key, item in value.items():
                colon = net.text(self._string(net.text(state, lead.encode()), key), layout.colon.encode())
                state, lead = self.constant(colon, item, inside), layout.comma
        return net.text(state, layout.outside.encode() + closing if value else closing)

    def _string(self, source: int, text: str) -> int:
        words = literals([[*map(ord, text)]], self._canonical.meter)
        return self._net.put(source, self._canonical.quoted(words))

    def _value(self, source: int, plan: ValuePlan) -> int:
        return self._net.put(source, self._canonical.value(plan, self._canonical.deeper(self._depth)))

    def list_of(self, plan: ListPlan) -> None:
        net, layout = self._net, self._canonical.layout(self._depth)
        machine = self._canonical.machine(plan)
        opened = net.text(0, b"[")
        if 0 in machine.finals:
            self.end(net.text(opened, b"]"))
        before = [net.state() for _ in machine.arcs]
        after = [net.state() for _ in machine.arcs]
        net.skip(net.text(opened, layout.inside.encode()), before[0])
        for state, arcs in enumerate(machine.arcs):
            for value, target in arcs:
                net.skip(self._value(before[state], value), after[target])
            net.skip(net.text(after[state], layout.comma.encode()), before[state])
            if state in machine.finals:
                self.end(net.text(after[state], layout.outside.encode() + b"]"))

    def object_of(self, plan: ObjectPlan) -> None:
        """A state before each key and one behind each value, for each number of properties that is told apart."""
        net, layout = self._net, self._canonical.layout(self._depth)
        members = self._canonical.members(plan)
        needed = [i for i, member in enumerate(members) if member.required]
        most = len(members) if plan.most is None else min(plan.most, len(members))
        counts = range((most if most < len(members) or plan.least > len(needed) else 0) + 1)
        opened = net.text(0, b"{")
        if not needed and not plan.least:
            self.end(net.text(opened, b"}"))
        keys = [[net.state() for _ in counts] for _ in members]
        places = [[net.state() for _ in counts] for _ in range(len(members) + 1)]
        for place in range(len(members) + 1):
            required = next((i for i in needed if i >= place), None)
            reach = range(place, len(members) if required is None else required + 1)
            for count in counts:
                state, here = places[place][count], count if len(counts) > 1 else plan.least
                if required is None and here >= plan.least:
                    self.end(net.text(state, layout.outside.encode() + b"}"))
                if len(counts) == 1 or count < most:
                    comma = net.text(state, layout.comma.encode())
                    for i in reach:
                        net.skip(comma, keys[i][count])
            if place == 0 and most:
                first = net.text(opened, layout.inside.encode())
                for i in reach:
                    net.skip(first, keys[i][0])
        for i, member in enumerate(members):
            for count in counts:
                colon = net.text(self._string(keys[i][count], member.name), layout.colon.encode())
                more = min(count + 1, len(counts) - 1)
                net.skip(self._value(colon, member.value), places[i + 1][more])


def scalars(plan: ValuePlan, meter: Meter) -> Dfa | None:
    """The numbers and words of a plan in their one spelling, as bytes; None when there are none."""
    words = [scalar_text(value) for value in (*plan.words, *plan.values) if not isinstance(value, str | list | dict)]
    parts = [intersect([numbers.limited(meter), _one_spelling()], meter) for numbers in plan.numbers]
    if words:
        parts.append(literals([word.encode() for word in words], meter))
    found = minimise(trim(merged(parts, meter))) if parts else NOTHING
    return None if found.empty else found


def scalar_text(value: JsonValue) -> str:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _digits(value)
    return spell(value, "compact")


def _digits(value: int | Decimal) -> str:
    """A number without exponent, and without zeros at the end of a fraction."""
    text = format(Decimal(value) or Decimal(0), "f")  # no -0
    return text.rstrip("0").rstrip(".") if "." in text else text


def _one_spelling() -> Dfa:
    """Numbers without exponent, and without zeros at the end of a fraction."""
    sign, zero, whole, point, fraction, zeros = range(6)
    rows: dict[int, list[Edge]] = {
        sign: [(0x2D, 0x2D, 6), (0x30, 0x30, zero), (0x31, 0x39, whole)],
        zero: [(0x2E, 0x2E, point)],
        whole: [(0x2E, 0x2E, point), (0x30, 0x39, whole)],
        point: [(0x30, 0x30, zeros), (0x31, 0x39, fraction)],
        fraction: [(0x30, 0x30, zeros), (0x31, 0x39, fraction)],
        zeros: [(0x30, 0x30, zeros), (0x31, 0x39, fraction)],
        6: [(0x30, 0x30, zero), (0x31, 0x39, whole)],
    }
    return Dfa(tuple(tuple(rows[state]) for state in range(len(rows))), frozenset([zero, whole, fraction]))
