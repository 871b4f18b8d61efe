"""A conjunction of schemas becomes its alternatives: sets of schemas without branches, of which one must hold.

`$ref`, `allOf` and siblings join a set, `anyOf` and its relatives multiply it. Everything is by place, so that equal
sets are found again and recursion ends. The order of a set is the order in which the schemas declare things.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .document import Document, pointer_of
from .errors import ConstraintTooLarge, InvalidConstraint, UnsupportedKeyword
from .json_text import JsonValue
from .keywords import ANNOTATIONS, ASSERTIONS, BRANCHES, REFUSED, TYPES, check_form, is_idle, refuse
from .limits import Meter
from .negate import dependency, exclusive, implication, negation
from .shape import Places


@dataclass(frozen=True, slots=True)
class _Base:
    """The schema's own keywords, without branches."""


@dataclass(frozen=True, slots=True)
class _All:
    place: str


@dataclass(frozen=True, slots=True)
class _Any:
    places: Places


_Part = _Base | _All | _Any
_BASE = _Base()


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


# An alternative on its way: what is left to take in, what was taken in, all places seen, the types that are left.
_Branch = tuple[_Todo | None, Places, frozenset[str], frozenset[str]]
_KINDS = frozenset(TYPES) - {"integer"}

# oneOf inside oneOf, through references: each level costs Python stack.
_MAX_NESTED_CHOICES = 40

# Which of these options may overlap which, under the schema they stand in: index -> the later and earlier ones.
Overlaps = Callable[[str, list[str]], dict[int, list[int]]]


class Expander:
    """notes: unknown keywords met on the way, with their pointers."""

    def __init__(self, document: Document, meter: Meter, *, strict: bool, overlaps: Overlaps) -> None:
        self._document = document
        self._meter = meter
        self._strict = strict
        self._overlaps = overlaps
        self._parts_of: dict[str, list[_Part] | None] = {}
        self._known: dict[Places, tuple[Places, ...]] = {}
        self._negations: dict[str, str] = {}
        self._choosing: list[str] = []
        self.notes: dict[str, None] = {}

    def leaves(self, places: Places) -> tuple[Places, ...]:
        """The alternatives of the conjunction of the schemas at `places`; none when nothing can fit."""
        found = self._known.get(places)
        if found is None:
            found = self._known[places] = self._expand(places)
        return found

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    def _expand(self, places: Places) -> tuple[Places, ...]:
        todo: _Todo | None = None
        for place in reversed(places):
            todo = _Todo(_All(place), None, todo)
        found: dict[Places, None] = {}
        stack: list[_Branch] = [(todo, (), frozenset(), _KINDS)]
        made = 0
        while stack:
            rest, bases, seen, kinds = stack.pop()
            if rest is None:
                found.setdefault(bases)
                continue
            made += 1
            if made > self._meter.limits.alternatives * 8 or len(found) > self._meter.limits.alternatives:
                raise ConstraintTooLarge(
                    f"the unions here multiply out to more than {self._meter.limits.alternatives} alternatives",
                    keyword="anyOf", where=pointer_of(places[0]), fix="Combine fewer unions with each other.")
            self._meter.states(0)
            stack.extend(self._one(rest, bases, seen, kinds))
        return tuple(found)

    def _one(self, todo: _Todo, bases: Places, seen: frozenset[str], kinds: frozenset[str]) -> list[_Branch]:
        part = todo.part
        if isinstance(part, str):
            # What no type can satisfy any more is dropped here, before it multiplies.
            kinds &= self._kinds(part)
            return [(todo.rest, (*bases, part), seen, kinds)] if kinds else []
        if isinstance(part, _Any):
            # The last pushed is taken first: reversed keeps the order of the branches.
            return [(_Todo(_All(place), todo.chain, todo.rest), bases, seen, kinds)
                    for place in reversed(part.places)]
        if isinstance(part, _Base):
            raise ValueError("a base is queued by its place")
        place = part.place
        if todo.chain is not None and todo.chain.holds(place):
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="$ref", where=pointer_of(place), fix="Break the loop.")
        if place in seen:
            return [(todo.rest, bases, seen, kinds)]
        parts = self._parts(place)
        if parts is None:
            return []
        rest = todo.rest
        chain = _Chain(place, todo.chain)
        for one in reversed(parts):
            rest = _Todo(place if isinstance(one, _Base) else one, chain, rest)
        return [(rest, bases, seen | {place}, kinds)]

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
        parts: list[_Part] = []
        for keyword, value in schema.items():
            pointer = f"{pointer_of(place)}/{keyword}"
            check_form(keyword, value, pointer)
            if keyword in ASSERTIONS:
                if _BASE not in parts:
                    parts.append(_BASE)
            elif keyword in BRANCHES:
                parts.extend(self._branch(place, keyword, schema))
            elif keyword in REFUSED:
                if not is_idle(keyword, schema):
                    raise refuse(keyword, pointer)
            elif keyword not in ANNOTATIONS:
                self._unknown(keyword, pointer)
        return parts

    def _unknown(self, keyword: str, pointer: str) -> None:
        if self._strict:
            raise UnsupportedKeyword(f"{keyword} is no keyword of JSON Schema", keyword=keyword, where=pointer,
                                     fix="Remove it, or allow unknown keywords.")
        self.note(f"{keyword} at {pointer} is no keyword of JSON Schema and constrains nothing")

    def _branch(self, place: str, keyword: str, schema: dict[str, JsonValue]) -> list[_Part]:
        value = schema[keyword]
        if keyword == "$ref":
            return [_All(self._document.resolve(str(value), place))]
        if keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
            options = [self._document.child(place, keyword, str(i)) for i in range(len(value))]
            if keyword == "allOf":
                return [_All(option) for option in options]
            return [_Any(tuple(options)) if keyword == "anyOf" else self._one_of(place, options)]
        if keyword == "not":
            return [_All(self._negated(self._document.child(place, "not")))]
        if keyword == "if":
            if not {"then", "else"} & schema.keys():
                return []
            return [_All(self._document.derive(place, implication(self._document, place, schema)))]
        if keyword in ("dependentRequired", "dependentSchemas") and isinstance(value, dict):
            return [_All(self._document.derive(place, dependency(self._document, place, keyword, name)))
                    for name in value]
        return []  # then and else belong to if

    def _negated(self, target: str) -> str:
        if target not in self._negations:
            self._negations[target] = self._document.derive(target, negation(self._document, target))
        return self._negations[target]

    def _one_of(self, place: str, options: list[str]) -> _Part:
        if place in self._choosing:
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="oneOf", where=pointer_of(place), fix="Break the loop.")
        if len(self._choosing) >= _MAX_NESTED_CHOICES:
            raise ConstraintTooLarge(f"oneOf is nested deeper than {_MAX_NESTED_CHOICES} levels", keyword="oneOf",
                                     where=pointer_of(place), fix="Use anyOf where branches cannot overlap.")
        self._choosing.append(place)
        try:
            overlaps = self._overlaps(place, options)
        finally:
            self._choosing.pop()
        if not overlaps:
            return _Any(tuple(options))
        return _All(self._document.derive(place, exclusive(options, overlaps)))
