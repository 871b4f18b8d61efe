"""What may stand where an object does: declared members, and free keys by what their values must fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from ..automata import charset
from ..automata.dfa import Dfa, complement, intersect, literals, longest
from ..automata.minimise import minimise
from ..constraint import Writing
from ..errors import ConstraintTooLarge
from ..limits import Meter
from ..schemas.meaning import Meaning
from ..schemas.shape import Places, Shape, SomeProperty
from ..schemas.strings import ANY_CHARACTERS, without
from .keys import labelled, relabel, words_of
from .plan import Member, ObjectPlan, ValuePlan, Witnesses

# A finite set of free keys with at most this many members is written like declared ones.
_FINITE_KEYS = 64
# In any order they cost little: each is a member of the register.
_FINITE_UNORDERED = 4_096
# Negations that ask for some property: each doubles the states of an object.
_MAX_DEMANDS = 8

_Labelled = TypeVar("_Labelled", bound="tuple[Dfa, dict[int, tuple[bool, ...]]] | tuple[Dfa, dict[int, int]]")


class ObjectPlanner:
    """Plans of objects, one shape at a time."""

    def __init__(self, meaning: Meaning, meter: Meter, writing: Writing,
                 plan: Callable[[Places, str], ValuePlan]) -> None:
        """plan: of the value of a property, by its places and a pointer for where there are none."""
        self._meaning = meaning
        self._meter = meter
        self._writing = writing
        self._plan = plan

    def of_shape(self, shape: Shape) -> ObjectPlan:
        names, required = self._declared(shape), {*shape.required}
        members: list[Member] = []
        undeclared = not shape.some_properties
        for name in names:
            places = self._meaning.member(shape, name)
            if shape.names and not all(self._meaning.admits((rule,), name) for rule in shape.names):
                places = (self._meaning.document.derive("#", False),)
            undeclared = undeclared and any(map(self._is_false, places))
            member = Member(name, self._plan(places, shape.pointer), name in required)
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
            found[sum(1 << i for i in chosen)] = self._plan(merged, shape.pointer)
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
                plan.free_values.append(self._plan(places, shape.pointer))
                plan.free_witnesses.append(self._witnesses(shape, *key))
            chosen[verdict] = values[key]
        plan.free = keys
        plan.labels = {state: chosen[verdict] for state, verdict in verdicts.items() if verdict in chosen}
        lost = len(set(verdicts.values())) - len(chosen)
        apart = texts is not None and lost < 2 and len(set(chosen.values())) == len(chosen)
        if (located or witnesses) and (lost or not apart):
            plan.free, plan.labels = self._shared_keys(
                texts, tuple(sorted(chosen.items())), lambda: relabel(keys, plan.labels, apart=apart))
        self.finite_keys(plan)

    def _any_keys(self, plan: ObjectPlan, places: Places) -> None:
        """As _free_keys, where all keys are alike."""
        if not any(map(self._is_false, places)):
            plan.free, plan.labels = ANY_CHARACTERS, {0: 0}
            plan.free_values.append(self._plan(places, plan.pointer))
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

    def finite_keys(self, plan: ObjectPlan) -> None:
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
