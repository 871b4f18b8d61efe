"""A conjunction of schemas becomes its alternatives: sets of schemas without branches, of which one must hold.

`$ref`, `allOf` and siblings join a set, `anyOf` and its relatives multiply it. Everything is by place, so that equal
sets are found again and recursion ends. The order of a set is the order in which the schemas declare things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from .document import Derived, Document, Link, pointer_of
from .errors import ConstraintTooLarge, InvalidConstraint, UnsupportedKeyword
from .evaluated import ITEMS, PROPERTIES, Links, Rests, may_evaluate
from .json_text import JsonValue
from .keywords import ANNOTATIONS, ASSERTIONS, BRANCHES, REFUSED, TYPES, check_form, is_idle, refuse
from .limits import Meter
from .negate import dependency, exclusive, implication, negation
from .readings import Readings
from .shape import Places


@dataclass(frozen=True, slots=True)
class _Base:
    """The schema's own keywords, without branches."""


@dataclass(frozen=True, slots=True)
class _All:
    place: str


@dataclass(frozen=True, slots=True)
class _Any:
    """exclusive: the places are known to exclude each other."""

    places: Places
    exclusive: bool = False


_Part = _Base | _All | _Any
_BASE = _Base()
_UNBRANCHED: tuple[list[_Part], ...] = ([], [_BASE])


@dataclass(frozen=True, slots=True)
class _Chain:
    """The places that led here without an instance in between; meeting one again is a loop."""

    place: str
    before: _Chain | None

    def holds(self, place: str) -> bool:
        link: _Chain | None = self
        while link is not None:
            if link.place == place:
                return True
            link = link.before
        return False


@dataclass(frozen=True, slots=True)
class _Todo:
    """What an alternative still has to take in."""

    part: _Part | str  # a str: the base of that place
    chain: _Chain | None
    rest: _Todo | None


# An alternative on its way: what is left to take in, what was taken in, all places seen, the types that are left, and
# (where something asks) which place led to which.
_Branch = tuple[_Todo | None, Places, frozenset[str], frozenset[str], Links]
_KINDS = frozenset(TYPES) - {"integer"}

# oneOf inside oneOf, through references: each level costs Python stack.
_MAX_NESTED_CHOICES = 40
# Options of a union that are taken in all combinations, where what they evaluate matters.
_MAX_COMBINED = 6

# Unions smaller than this are multiplied out without a look at what excludes what.
_LOOK_FROM = 64


class Looping(InvalidConstraint):
    """Met again while it is being decided which of its options overlap."""


# Whether two schemas without branches exclude each other; False when in doubt.
Apart = Callable[[str, str], bool]
# Which of these options may overlap which, under the schema they stand in: index -> the later and earlier ones.
Overlaps = Callable[[str, list[str]], dict[int, list[int]]]


class Expander:
    """notes: unknown keywords met on the way, with their pointers."""

    def __init__(self, document: Document, meter: Meter, readings: Readings, *, strict: bool, overlaps: Overlaps,
                 apart: Apart) -> None:
        self._document = document
        self._meter = meter
        self._readings = readings
        self._strict = strict
        self._overlaps = overlaps
        self._apart = apart
        self._parts_of: dict[str, list[_Part] | None] = {}
        self._known: dict[Places, tuple[Places, ...]] = {}
        self._negations: dict[str, str] = {}
        self._negative: set[str] = set()  # the places of negations
        self._rests = Rests(document)
        self._choosing: list[str] = []
        self.notes: dict[str, None] = {}

    def leaves(self, places: Places) -> tuple[Places, ...]:
        """The alternatives of the conjunction of the schemas at `places`; none when nothing can fit."""
        found = self._known.get(places)
        if found is None:
            found = self._unbranched(places)
            found = self._known[places] = self._expand(places) if found is None else found
        return found

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    def _unbranched(self, places: Places) -> tuple[Places, ...] | None:
        """What `_expand` finds, without its trees, where no schema has branches; None where one has."""
        if self._document.unevaluated or len(places) > _LOOK_FROM // 2:
            return None
        bases: dict[str, None] = {}
        kinds = _KINDS
        for place in places:
            parts = self._parts(place)
            if parts is None:
                return ()
            if parts not in _UNBRANCHED:
                return None
            if parts:
                bases.setdefault(place)
                kinds &= self._kinds(place)
            if not kinds:
                return ()
        self._meter.states(0)
        return (tuple(bases),)

    def _expand(self, places: Places) -> tuple[Places, ...]:
        todo: _Todo | None = None
        for place in reversed(places):
            todo = _Todo(_All(place), None, todo)
        found: dict[Places, None] = {}
        stack: list[_Branch] = [(todo, (), frozenset(), _KINDS, frozenset())]
        made = 0
        while stack:
            rest, bases, seen, kinds, links = stack.pop()
            if rest is None:
                found.setdefault((*bases, *self._rests.of(bases, links)) if self._document.unevaluated else bases)
                continue
            made += 1
            if made > self._meter.limits.alternatives * 8 or len(found) > self._meter.limits.alternatives:
                raise ConstraintTooLarge(
                    f"the unions here multiply out to more than {self._meter.limits.alternatives} alternatives",
                    keyword="anyOf", where=pointer_of(places[0]), fix="Combine fewer unions with each other.")
            self._meter.states(0)
            if made > _LOOK_FROM and self._excluded(rest.part, bases):
                continue
            if made > _LOOK_FROM and isinstance(rest.part, _Any) and self._implied(rest.part, seen):
                stack.append((rest.rest, bases, seen, kinds, links))
                continue
            stack.extend(self._one(rest, bases, seen, kinds, links))
        return tuple(found)

    def _excluded(self, part: _Part | str, bases: Places) -> bool:
        """A schema that one of those taken in excludes."""
        return isinstance(part, str) and any(self._apart(base, part) for base in reversed(bases))

    def _implied(self, union: _Any, seen: frozenset[str]) -> bool:
        """One of the options reads like a schema that was taken in, so the union says nothing more."""
        if self._document.unevaluated:
            return False
        mine = {self._readings.number(place) for place in seen}
        return any(self._readings.number(place) in mine for place in union.places)

    def _one(self, todo: _Todo, bases: Places, seen: frozenset[str], kinds: frozenset[str],
             links: Links) -> list[_Branch]:
        part = todo.part
        if isinstance(part, str):
            # What no type can satisfy any more is dropped here, before it multiplies.
            kinds &= self._kinds(part)
            return [(todo.rest, (*bases, part), seen, kinds, links)] if kinds else []
        if isinstance(part, _Any):
            # The last pushed is taken first: reversed keeps the order of the branches.
            return [(self._joined(places, todo), bases, seen, kinds, links)
                    for places in reversed(self._options(part, todo.chain))]
        if isinstance(part, _Base):
            raise ValueError("a base is queued by its place")
        place = part.place
        if todo.chain is not None and todo.chain.holds(place):
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="$ref", where=pointer_of(place), fix="Break the loop.")
        if self._document.unevaluated and todo.chain is not None and place not in self._negative:
            links |= {(todo.chain.place, place)}
        if place in seen:
            return [(todo.rest, bases, seen, kinds, links)]
        parts = self._parts(place)
        if parts is None:
            return []
        rest = todo.rest
        chain = _Chain(place, todo.chain)
        for one in reversed(parts):
            rest = _Todo(place if isinstance(one, _Base) else one, chain, rest)
        return [(rest, bases, seen | {place}, kinds, links)]

    @staticmethod
    def _joined(places: Places, todo: _Todo) -> _Todo | None:
        rest = todo.rest
        for place in reversed(places):
            rest = _Todo(_All(place), todo.chain, rest)
        return rest

    def _options(self, part: _Any, chain: _Chain | None) -> list[Places]:
        """The options of a union, one by one; in all combinations where what they evaluate together matters."""
        alone: list[Places] = [(place,) for place in part.places]
        if part.exclusive or not self._document.unevaluated or chain is None:
            return alone
        evaluating = [place for place in part.places if may_evaluate(self._document, place)]
        if len(evaluating) > _MAX_COMBINED:
            self._rests.coarse.add(chain.place)
            return alone
        several = [combination for count in range(2, len(evaluating) + 1)
                   for combination in combinations(evaluating, count)]
        return alone + several

    def _kinds(self, place: str) -> frozenset[str]:
        """The types that the schema's `type` leaves, numbers as one."""
        schema = self._document.schema(place)
        named = schema.get("type") if isinstance(schema, dict) else None
        if named is None:
            return _KINDS
        names = named if isinstance(named, list) else [named]
        return frozenset("number" if name == "integer" else str(name) for name in names)

    def _parts(self, place: str) -> list[_Part] | None:
        """None: the schema is false."""
        if place not in self._parts_of:
            schema = self._document.schema(place)
            if isinstance(schema, bool):
                self._parts_of[place] = [] if schema else None
            else:
                self._parts_of[place] = self._read(place, schema)
        return self._parts_of[place]

    def _read(self, place: str, schema: dict[str, JsonValue]) -> list[_Part]:
        for keyword, value in schema.items():
            check_form(keyword, value, place)
        parts: list[_Part] = []
        based = False
        for keyword in schema:
            if keyword in ASSERTIONS or keyword in (PROPERTIES, ITEMS):
                if not based:
                    parts.append(_BASE)
                based = True
            elif keyword in ANNOTATIONS:
                continue
            elif keyword in BRANCHES:
                parts.extend(self._branch(place, keyword, schema))
            elif keyword not in REFUSED:
                self._unknown(keyword, f"{pointer_of(place)}/{keyword}")
            elif not is_idle(keyword, schema):
                raise refuse(keyword, f"{pointer_of(place)}/{keyword}")
        return parts

    def _unknown(self, keyword: str, pointer: str) -> None:
        if self._strict:
            raise UnsupportedKeyword(f"{keyword} is no keyword of JSON Schema", keyword=keyword, where=pointer,
                                     fix="Remove it, or allow unknown keywords.")
        self.note(f"{keyword} at {pointer} is no keyword of JSON Schema and constrains nothing")

    def _branch(self, place: str, keyword: str, schema: dict[str, JsonValue]) -> list[_Part]:
        value = schema[keyword]
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return [_All(self._document.target(keyword, str(value), place))]
        if keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            options = [self._document.child(place, keyword, str(i)) for i in range(len(value))]
            if keyword == "allOf":
                return [_All(option) for option in options]
            return [_Any(tuple(options)) if keyword == "anyOf" else self._one_of(place, options)]
        if keyword == "not":
            return [_All(self._negated(self._document.child(place, "not")))]
        if keyword == "if":
            if not {"then", "else"} & schema.keys():
                # What `if` evaluates counts where it holds.
                inside = self._document.child(place, "if")
                either: list[Derived] = [True, Link(inside)]
                return [_All(self._document.derive(place, {"anyOf": either}))] if self._document.unevaluated else []
            return [_All(self._document.derive(place, implication(self._document, place, schema)))]
        if keyword in ("dependentRequired", "dependentSchemas") and isinstance(value, dict):
            return [_All(self._document.derive(place, dependency(self._document, place, keyword, name)))
                    for name in value]
        return []  # then and else belong to if

    def _negated(self, target: str) -> str:
        if target not in self._negations:
            self._negations[target] = self._document.derive(target, negation(self._document, target))
            self._negative.add(self._negations[target])
        return self._negations[target]

    def _one_of(self, place: str, options: list[str]) -> _Part:
        if place in self._choosing:
            raise Looping("this reference leads back to itself without an instance in between", keyword="oneOf",
                          where=pointer_of(place), fix="Break the loop.")
        if len(self._choosing) >= _MAX_NESTED_CHOICES:
            raise ConstraintTooLarge(f"oneOf is nested deeper than {_MAX_NESTED_CHOICES} levels", keyword="oneOf",
                                     where=pointer_of(place), fix="Use anyOf where branches cannot overlap.")
        self._choosing.append(place)
        try:
            overlaps = self._overlaps(place, options)
        finally:
            self._choosing.pop()
        if not overlaps:
            return _Any(tuple(options), exclusive=True)
        return _All(self._document.derive(place, exclusive(options, overlaps)))
