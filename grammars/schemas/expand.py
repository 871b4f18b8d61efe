"""A conjunction of schemas becomes its alternatives: sets of schemas without branches, of which one must hold.

`$ref`, `allOf` and siblings join a set, `anyOf` and its relatives multiply it. Everything is by place, so that equal
sets are found again and recursion ends. The order of a set is the order in which the schemas declare things.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..errors import ConstraintTooLarge, InvalidConstraint, UnsupportedKeyword
from ..limits import Meter
from .alternatives import Alternatives
from .branches import KINDS, All, Any, Base, Chain, Part
from .document import Derived, Document, Link, pointer_of
from .evaluated import ITEMS, PROPERTIES, Apart, Held, Links, Rests, may_evaluate
from .json_text import JsonValue
from .keywords import ANNOTATIONS, ASSERTIONS, BRANCHES, REFUSED, TYPES, check_form, is_idle, refuse
from .negate import dependency, exclusive, implication, negation, opposite
from .notes import Notes
from .readings import Readings
from .shape import Places


class _Todo(msgspec.Struct, frozen=True):
    """What an alternative still has to take in."""

    part: Part | str  # a str: the base of that place
    chain: Chain | None
    rest: _Todo | None


# An alternative on its way: what is left to take in, what was taken in, all places seen, the types that are left, and
# (where something asks) which place led to which.
_Branch = tuple[_Todo | None, Places, frozenset[str], frozenset[str], Links]

_BASE = Base()
_UNBRANCHED: tuple[list[Part], ...] = ([], [_BASE])
_UNBRANCHED_KEYWORDS = ASSERTIONS | ANNOTATIONS
_KINDS_OF = {name: frozenset(["number" if name == "integer" else name]) for name in TYPES}

# oneOf inside oneOf, through references: each level costs Python stack.
_MAX_NESTED_CHOICES = 40

# Unions that come to fewer steps are multiplied out without a look at what excludes what.
_LOOK_FROM = 64


class Looping(InvalidConstraint):
    """Met again while it is being decided which of its options overlap."""


# Whether the first of two schemas without branches implies the second; False when in doubt.
Pair = Callable[[str, str], bool]
# Which of these options may overlap which, under the schema they stand in: index -> the later and earlier ones.
Overlaps = Callable[[str, list[str]], dict[int, list[int]]]


class Expander:
    """notes: unknown keywords met on the way, among others."""

    def __init__(self, document: Document, meter: Meter, readings: Readings, *, strict: bool, overlaps: Overlaps,
                 apart: Apart, implied: Pair) -> None:
        self.document = document
        self.meter = meter
        self.readings = readings
        self._strict = strict
        self._overlaps = overlaps
        self.apart, self.implied = apart, implied
        self._parts_of: dict[str, list[Part] | None] = {}
        self._known: dict[Places, tuple[Places, ...]] = {}
        self._negations: dict[str, str] = {}
        self._opposites: dict[str, str] = {}
        self.negative: set[str] = set()  # the places of negations
        self._exclusive: set[str] = set()  # of derived unions whose options exclude each other
        self.rests = Rests(document)
        self._choosing: list[str] = []
        self.notes = Notes()

    def leaves(self, places: Places) -> tuple[Places, ...]:
        """The alternatives of the conjunction of the schemas at `places`; none when nothing can fit."""
        found = self._known.get(places)
        if found is None:
            found = self._unbranched(places)
            found = self._known[places] = self._expand(places) if found is None else found
        return found

    def _unbranched(self, places: Places) -> tuple[Places, ...] | None:
        """What `_expand` finds, without its trees, where no schema has branches; None where one has."""
        if self.document.unevaluated or len(places) > _LOOK_FROM // 2:
            return None
        bases: dict[str, None] = {}
        kinds = KINDS
        for place in places:
            parts = self.parts(place)
            if parts is None:
                return ()
            if parts not in _UNBRANCHED:
                return None
            if parts:
                bases.setdefault(place)
                kinds &= self.kinds(place)
            if not kinds:
                return ()
        self.meter.states(0)
        return (tuple(bases),)

    def _expand(self, places: Places) -> tuple[Places, ...]:
        todo: _Todo | None = None
        for place in reversed(places):
            todo = _Todo(All(place), None, todo)
        found: dict[Places, None] = {}
        stack: list[_Branch] = [(todo, (), frozenset(), KINDS, frozenset())]
        made = 0
        while stack:
            rest, bases, seen, kinds, links = stack.pop()
            if rest is None:
                found.setdefault((*bases, *self.rests.of(bases, links)) if self.document.unevaluated else bases)
                continue
            made += 1
            if made > _LOOK_FROM:
                return Alternatives(self, places).found()
            self.meter.states(0)
            stack.extend(self._one(rest, bases, seen, kinds, links))
        return tuple(found)

    def _one(self, todo: _Todo, bases: Places, seen: frozenset[str], kinds: frozenset[str],
             links: Links) -> list[_Branch]:
        part = todo.part
        if isinstance(part, str):
            # What no type can satisfy any more is dropped here, before it multiplies.
            kinds &= self.kinds(part)
            return [(todo.rest, (*bases, part), seen, kinds, links)] if kinds else []
        if isinstance(part, Any):
            # The last pushed is taken first: reversed keeps the order of the branches.
            return [(self._joined(places, todo), bases, seen, kinds, links)
                    for places in reversed(self.options(part, todo.chain))]
        if isinstance(part, Base):
            raise ValueError("a base is queued by its place")
        place = part.place
        if todo.chain is not None and todo.chain.holds(place):
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="$ref", where=pointer_of(place), fix="Break the loop.")
        if self.document.unevaluated and todo.chain is not None and place not in self.negative:
            links |= {(todo.chain.place, place)}
        if place in seen:
            return [(todo.rest, bases, seen, kinds, links)]
        parts = self.parts(place)
        if parts is None:
            return []
        rest = todo.rest
        chain = Chain(place, todo.chain)
        for one in reversed(parts):
            rest = _Todo(place if isinstance(one, Base) else one, chain, rest)
        return [(rest, bases, seen | {place}, kinds, links)]

    @staticmethod
    def _joined(places: Places, todo: _Todo) -> _Todo | None:
        rest = todo.rest
        for place in reversed(places):
            rest = _Todo(All(place), todo.chain, rest)
        return rest

    def options(self, part: Any, chain: Chain | None) -> list[Places]:
        """The options of a union, one by one; in all combinations where what they evaluate together matters."""
        alone: list[Places] = [(place,) for place in part.places]
        if part.exclusive or not self.document.unevaluated or chain is None or chain.place in self.negative:
            return alone
        options = {place: self.surely((place,)) for place in part.places if may_evaluate(self.document, place)}
        several = self.rests.combined({place: held for place, held in options.items() if held is not None}, self.apart)
        if several is None:
            self.rests.coarse.add(chain.place)
        return alone + (several or [])

    def surely(self, places: Places) -> Held | None:
        """What holds where these do; None: nothing fits them."""
        bases: dict[str, None] = {}
        alone = True
        queue = dict.fromkeys(places)
        for place in (order := list(queue)):  # grows while it runs
            parts = self.parts(place)
            if parts is None:
                return None
            for part in parts:
                if isinstance(part, Base):
                    bases.setdefault(place)
                elif isinstance(part, Any):
                    alone = False
                elif part.place not in queue:
                    queue[part.place] = None
                    order.append(part.place)
        return Held(tuple(bases), alone)

    def kinds(self, place: str) -> frozenset[str]:
        """The types that the schema's `type` leaves, numbers as one."""
        schema = self.document.schema(place)
        named = schema.get("type") if isinstance(schema, dict) else None
        if named is None:
            return KINDS
        if isinstance(named, str):
            return _KINDS_OF[named]
        names = named if isinstance(named, list) else [named]
        return frozenset("number" if name == "integer" else str(name) for name in names)

    def only_types(self, place: str) -> bool:
        """The schema's own keywords ask for a type, and nothing else."""
        schema = self.document.schema(place)
        if not isinstance(schema, dict) or (schema.keys() - {"type"}) & (ASSERTIONS | {PROPERTIES, ITEMS}):
            return False
        kind = schema.get("type")
        return kind != "integer" and not (isinstance(kind, list) and "integer" in kind)

    def required(self, place: str) -> list[str]:
        """What the schema's own keywords require of an object."""
        schema = self.document.schema(place)
        names = schema.get("required", []) if isinstance(schema, dict) else []
        return [str(name) for name in names] if isinstance(names, list) else []

    def opposite(self, place: str) -> str:
        """The place of the opposite of an option of a negation (negate.opposite); "" where it has none."""
        if place not in self._opposites:
            derived = opposite(self.document.schema(place))
            self._opposites[place] = "" if derived is None else self.document.derive(place, derived)
        return self._opposites[place]

    def parts(self, place: str) -> list[Part] | None:
        """None: the schema is false."""
        if place not in self._parts_of:
            schema = self.document.schema(place)
            if isinstance(schema, bool):
                self._parts_of[place] = [] if schema else None
            else:
                self._parts_of[place] = self._read(place, schema)
        return self._parts_of[place]

    def _read(self, place: str, schema: dict[str, JsonValue]) -> list[Part]:
        for keyword, value in schema.items():
            check_form(keyword, value, place)
        if schema.keys() <= _UNBRANCHED_KEYWORDS:
            return [] if ASSERTIONS.isdisjoint(schema) else [_BASE]
        parts: list[Part] = []
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
        self.notes.at(keyword, pointer, " is no keyword of JSON Schema and constrains nothing")

    def _branch(self, place: str, keyword: str, schema: dict[str, JsonValue]) -> list[Part]:
        value = schema[keyword]
        if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            return [All(self.document.target(keyword, str(value), place))]
        if keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            options = [self.document.child(place, keyword, str(i)) for i in range(len(value))]
            if keyword == "allOf":
                return [All(option) for option in options]
            if keyword == "anyOf":
                return [Any(tuple(options), exclusive=place in self._exclusive)]
            return [self._one_of(place, options)]
        if keyword == "not":
            return [All(self._negated(self.document.child(place, "not")))]
        if keyword == "if":
            if not {"then", "else"} & schema.keys():
                # What `if` evaluates counts where it holds.
                inside = self.document.child(place, "if")
                either: list[Derived] = [True, Link(inside)]
                return [All(self.document.derive(place, {"anyOf": either}))] if self.document.unevaluated else []
            return [self._either(place, implication(self.document, place, schema))]
        if keyword in ("dependentRequired", "dependentSchemas") and isinstance(value, dict):
            return [self._either(place, dependency(self.document, place, keyword, name)) for name in value]
        return []  # then and else belong to if

    def _negated(self, target: str) -> str:
        if target not in self._negations:
            self._negations[target] = self.document.derive(target, negation(self.document, target))
            self.negative.add(self._negations[target])
        return self._negations[target]

    def _one_of(self, place: str, options: list[str]) -> Part:
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
            return Any(tuple(options), exclusive=True)
        return self._either(place, exclusive(options, overlaps))

    def _either(self, place: str, derived: Derived) -> All:
        """A union whose options exclude each other."""
        made = self.document.derive(place, derived)
        self._exclusive.add(made)
        return All(made)
