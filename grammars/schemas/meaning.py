"""What a schema document means: alternatives and shapes by place, which values they admit, which exclude each other."""

from __future__ import annotations

from weakref import proxy

from ..automata import charset
from ..automata.dfa import NOTHING, Dfa, bounded, combine, complement, intersect, literals
from ..limits import Meter
from ..regular.regex import compile_regex
from .document import Document, Link, pointer_of
from .expand import Expander, Looping
from .formats import LONGEST, NOTES, STANDARD, format_dfa, outside_format
from .implied import Implied
from .json_text import JsonValue, identity
from .keywords import ASSERTIONS, refuse
from .notes import Notes
from .readings import Readings
from .shape import Located, Places, Shape, SomeItems, SomeProperty, shape_of
from .strings import ANY_CHARACTERS

# How far disjointness looks into properties of properties.
_LOOK = 3
_TYPE = frozenset(["type"])


def kind_of(value: JsonValue) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else ("object" if isinstance(value, dict) else "number")


class Meaning:
    """Answers are remembered; places are those of `document`. annotated: formats constrain nothing."""

    def __init__(self, document: Document, meter: Meter, *, strict: bool = False, annotated: bool = False) -> None:
        self.document = document
        self.meter = meter
        self._readings = Readings(document)
        mine: Meaning = proxy(self)  # no cycle: all of a compilation is freed at its end, without a collection
        self._expander = Expander(
            document, meter, self._readings, strict=strict,
            overlaps=lambda place, options: mine._overlaps(place, options), apart=lambda a, b, c: mine._apart(a, b, c),
            implied=Implied(mine))
        self._strict = strict
        self._annotated = annotated
        self._shapes: dict[Places, Shape] = {}
        self._patterns: dict[str, Dfa] = {}
        self._excluded: dict[str, Dfa] = {}  # by "pattern " or "format " and its text
        self._negations: dict[str, str] = {}
        self._pairs: dict[tuple[str, str, str], bool] = {}

    @property
    def notes(self) -> Notes:
        """For the caller, beside the grammar."""
        return self._expander.notes

    def shapes(self, places: Places) -> list[Shape]:
        """The alternatives of a conjunction."""
        return [self.shape(leaf) for leaf in self.leaves(places)]

    def leaves(self, places: Places) -> tuple[Places, ...]:
        """The alternatives as sets of places; equal sets mean the same."""
        return self._expander.leaves(places)

    def bare(self, leaves: tuple[Places, ...]) -> str:
        """The type of scalars that these alternatives come to, where nothing more is asked; "" where something is."""
        if len(leaves) != 1 or len(leaves[0]) != 1:
            return ""
        schema = self.document.schema(leaves[0][0])
        kind = schema.get("type") if isinstance(schema, dict) else None
        if not isinstance(schema, dict) or not isinstance(kind, str) or kind in ("array", "object"):
            return ""
        return kind if ASSERTIONS & schema.keys() == _TYPE else ""

    def shape(self, bases: Places) -> Shape:
        shape = self._shapes.get(bases)
        if shape is None:
            shape = shape_of(self.document, bases, pointer_of(bases[0]) if bases else "#")
            for located in shape.formats:
                longest = None if self._annotated else LONGEST.get(located.text)
                if longest is not None:
                    shape.most_length = longest if shape.most_length is None else min(longest, shape.most_length)
            self._shapes[bases] = shape
        return shape

    # Strings

    def pattern(self, located: Located) -> Dfa:
        """As a search, as the standard says."""
        found = self._patterns.get(located.text)
        if found is None:
            found = self._patterns[located.text] = self.meter.shared(
                ("pattern", located.text),
                lambda: compile_regex(located.text, self.meter, search=True, pointer=located.pointer),
                lambda dfa: dfa.size)
        return found

    def _excluded_pattern(self, located: Located) -> Dfa:
        key = f"pattern {located.text}"
        if key not in self._excluded:
            self._excluded[key] = complement(self.pattern(located), charset.ALL)
        return self._excluded[key]

    def texts_of(self, shape: Shape) -> tuple[tuple[str, ...], ...]:
        """What is asked of a string, its length aside: shapes with equal ones have equal `text_shapes`."""
        formats = () if self._annotated else (shape.formats, shape.excluded_formats)
        return tuple([tuple([one.text for one in asked])
                      for asked in (shape.patterns, shape.excluded_patterns, *formats)])

    def text_shapes(self, shape: Shape) -> list[Dfa]:
        """Automata that a string must all pass, beside its length."""
        if not (shape.patterns or shape.excluded_patterns or shape.formats or shape.excluded_formats):
            return []
        found = [self.pattern(p) for p in shape.patterns]
        found += [self._excluded_pattern(p) for p in shape.excluded_patterns]
        for located in shape.formats:
            if self._ignores(located):
                continue
            if located.text in NOTES:
                self.notes.at(f"format {located.text!r}", located.pointer, f": {NOTES[located.text]}")
            found.append(format_dfa(located.text, self.meter))
        found += [self._excluded_format(located) for located in shape.excluded_formats]
        return found

    def _excluded_format(self, located: Located) -> Dfa:
        """The texts that break a format; none do where it constrains nothing."""
        if self._ignores(located):
            return NOTHING
        key = f"format {located.text}"
        if key not in self._excluded:
            self._excluded[key] = outside_format(located.text, self.meter)
        return self._excluded[key]

    def _ignores(self, located: Located) -> bool:
        """Whether a format constrains nothing; if so it is noted."""
        if located.text in STANDARD:
            if self._annotated:
                self.notes.at(f"format {located.text!r}", located.pointer, " is taken as an annotation")
            return self._annotated
        if self._strict:
            raise refuse("format", located.pointer, f"{located.text!r} is no format of JSON Schema")
        self.notes.at(f"format {located.text!r}", located.pointer,
                      " is no format of JSON Schema and constrains nothing")
        return True

    # Parts of instances

    def item(self, shape: Shape, index: int) -> Places:
        """The schemas that item `index` must all fit."""
        places: dict[str, None] = {}
        for part in shape.lists:
            if index < len(part.prefix):
                places.setdefault(part.prefix[index])
            elif part.items is not None:
                places.setdefault(part.items)
        return tuple(places)

    def member(self, shape: Shape, name: str) -> Places:
        """The schemas that the value of property `name` must all fit."""
        if len(shape.objects) == 1 and not shape.objects[0].patterns:
            found = shape.objects[0].properties.get(name, shape.objects[0].additional)
            return () if found is None else (found,)
        places: dict[str, None] = {}
        for part in shape.objects:
            mine = [part.properties[name]] if name in part.properties else []
            mine += [place for located, place in part.patterns if self.pattern(located).accepts(map(ord, name))]
            if not mine and part.additional is not None:
                mine = [part.additional]
            for place in mine:
                places.setdefault(place)
        return tuple(places)

    def negated(self, place: str) -> str:
        """The place of the negation of a schema."""
        if place not in self._negations:
            self._negations[place] = self.document.derive(place, {"not": Link(place)})
        return self._negations[place]

    def witness(self, some: SomeProperty, name: str) -> bool:
        """Whether a property of that name may be the one that is asked for, its value aside."""
        codes = [ord(c) for c in name]
        return (name not in some.excluded and (some.only is None or self.pattern(some.only).accepts(codes))
                and not any(self.pattern(pattern).accepts(codes) for pattern in some.patterns)
                and (some.names is None or self.admits((some.names,), name)))

    def texts(self, places: Places) -> Dfa:
        """The strings that fit the schemas at these places, as characters."""
        found = [self.texts_at(leaf) for leaf in self.leaves(places)]
        return combine(found, any, self.meter) if found else NOTHING

    def texts_at(self, leaf: Places) -> Dfa:
        """The strings of one alternative, as characters."""
        shape = self.shape(leaf)
        if "string" not in shape.kinds:
            return NOTHING
        if shape.values is not None:
            words = [v for v in shape.values if isinstance(v, str) and self.fits(shape, v)]
            return literals([[*map(ord, word)] for word in words], self.meter)
        text = intersect([ANY_CHARACTERS, *self.text_shapes(shape)], self.meter)
        return bounded(text, shape.least_length, shape.most_length, self.meter)

    # Values

    def admits(self, places: Places, value: JsonValue) -> bool:
        return any(self.shape_admits(shape, value) for shape in self.shapes(places))

    def shape_admits(self, shape: Shape, value: JsonValue) -> bool:
        kind = kind_of(value)
        if kind not in shape.kinds:
            return False
        if shape.values is not None and identity(value) not in shape.identities:
            return False
        return self.fits(shape, value)

    def fits(self, shape: Shape, value: JsonValue) -> bool:
        """Like shape_admits, for a value whose kind and membership are settled."""
        if isinstance(value, str):
            if not _within(len(value), shape.least_length, shape.most_length):
                return False
            asked = self.text_shapes(shape)
            codes = [ord(c) for c in value] if asked else []
            return all(one.accepts(codes) for one in asked)
        if isinstance(value, list):
            different = len({identity(item) for item in value}) == len(value)
            if shape.repeated if different else shape.unique:
                return False
            return _within(len(value), shape.least_items, shape.most_items) and all(
                self.admits(self.item(shape, i), item) for i, item in enumerate(value)) and all(
                self._some_items(some, value) for some in shape.some_items)
        if isinstance(value, dict):
            return (_within(len(value), shape.least_properties, shape.most_properties)
                    and all(name in value for name in shape.required)
                    and all(self.admits(self.member(shape, name), item) for name, item in value.items())
                    and all(self.admits((names,), name) for name in value for names in shape.names)
                    and all(self._some_property(some, value) for some in shape.some_properties))
        return value is None or isinstance(value, bool) or shape.number.admits(value)

    def _some_items(self, some: SomeItems, value: list[JsonValue]) -> bool:
        return _within(sum(self.admits((some.place,), item) for item in value[some.start:]), some.least, some.most)

    def _some_property(self, some: SomeProperty, value: dict[str, JsonValue]) -> bool:
        return any(self.witness(some, name) and (some.value is None or self.admits((some.value,), item))
                   for name, item in value.items())

    # Disjointness

    def _overlaps(self, place: str, options: list[str]) -> dict[int, list[int]]:
        """Options of a oneOf that are not provably disjoint, with the schema around them taken into account."""
        shapes = [[self.shape((place, *leaf)) for leaf in self._expander.leaves((option,))]
                  for option in options]
        found: dict[int, list[int]] = {}
        tags = [[self._tags(shape) for shape in group] for group in shapes]
        for i in range(len(options)):
            self.meter.time(pointer_of(place))
            for j in range(i):
                if not all(_tags_differ(s, t) or self._disjoint(a, b, _LOOK)
                           for a, s in zip(shapes[i], tags[i], strict=True)
                           for b, t in zip(shapes[j], tags[j], strict=True)):
                    found.setdefault(i, []).append(j)
                    found.setdefault(j, []).append(i)
        return found

    def _apart(self, one: str, other: str, around: str) -> bool:
        """Provably no value fits both schemas, and that at `around` ("": any), their branches left out. While that is
        being found out: in doubt."""
        key = one, other, around
        found = self._pairs.get(key)
        if found is None:
            self._pairs[key], more = False, (around,) if around else ()
            found = self._pairs[key] = self._disjoint(self.shape((one, *more)), self.shape((other, *more)), 1)
        return found

    def disjoint(self, mine: Places, theirs: Places) -> bool:
        """Provably no value fits both conjunctions. False when in doubt."""
        try:
            return self._places_disjoint(mine, theirs, 1)
        except Looping:
            return False

    def _tags(self, shape: Shape) -> dict[str, frozenset[object]]:
        """Required properties with a finite set of values: what discriminates one object from another."""
        if shape.kinds != {"object"}:
            return {}
        tags: dict[str, frozenset[object]] = {}
        for name in shape.required:
            try:
                listed = [inner.values for inner in self.shapes(self.member(shape, name))]
            except Looping:
                continue
            if all(values is not None for values in listed):
                tags[name] = frozenset(identity(v) for values in listed for v in values or ())
        return tags

    def _disjoint(self, a: Shape, b: Shape, look: int) -> bool:
        """Provably no value fits both. False when in doubt."""
        try:
            for one, other in ((a, b), (b, a)):
                if one.values is not None:
                    return not any(self.shape_admits(one, v) and self.shape_admits(other, v) for v in one.values)
            return all(self._kind_disjoint(kind, a, b, look) for kind in a.kinds & b.kinds)
        except Looping:  # the answer would need itself
            return False

    def _kind_disjoint(self, kind: str, a: Shape, b: Shape, look: int) -> bool:
        if kind == "number":
            return a.number.disjoint(b.number)
        if kind == "string":
            return self._strings_disjoint(a, b)
        if kind == "array":
            return _apart(a.least_items, a.most_items, b.least_items, b.most_items) or any(
                self._places_disjoint(self.item(a, i), self.item(b, i), look)
                for i in range(min(max(a.least_items, b.least_items), 4)))
        if kind == "object":
            return self._objects_disjoint(a, b, look)
        return False

    def _strings_disjoint(self, a: Shape, b: Shape) -> bool:
        if _apart(a.least_length, a.most_length, b.least_length, b.most_length):
            return True
        mine, theirs = self.text_shapes(a), self.text_shapes(b)
        return bool(mine and theirs) and intersect([*mine, *theirs], self.meter).empty

    def _objects_disjoint(self, a: Shape, b: Shape, look: int) -> bool:
        required = dict.fromkeys((*a.required, *b.required))
        least = max(len(required), a.least_properties, b.least_properties)
        if any(most is not None and most < least for most in (a.most_properties, b.most_properties)):
            return True
        for name in required:
            # What one requires has in the other, required or not, a value that must fit both.
            mine, theirs = self.member(a, name), self.member(b, name)
            if self._impossible(mine) or self._impossible(theirs):
                return True
            if look and self._places_disjoint(mine, theirs, look - 1):
                return True
        return False

    def _impossible(self, places: Places) -> bool:
        return bool(places) and any(self.document.schema(place) is False for place in places)

    def _places_disjoint(self, mine: Places, theirs: Places, look: int) -> bool:
        if not (mine and theirs):
            return False
        if any(self._opposed(a, b) or self._opposed(b, a) for a in mine for b in theirs):
            return True
        return all(self._disjoint(a, b, look) for a in self.shapes(mine) for b in self.shapes(theirs))


    def _opposed(self, one: str, other: str) -> bool:
        """The other schema is `not` of a schema that reads like this one."""
        schema = self.document.schema(other)
        inside: object = schema.get("not") if isinstance(schema, dict) and len(schema) == 1 else None
        if not isinstance(inside, Link):
            return False
        return self._readings.number(inside.place) == self._readings.number(one)


def _within(count: int, least: int, most: int | None) -> bool:
    return count >= least and (most is None or count <= most)


def _apart(least_a: int, most_a: int | None, least_b: int, most_b: int | None) -> bool:
    return (most_a is not None and most_a < least_b) or (most_b is not None and most_b < least_a)


def _tags_differ(a: dict[str, frozenset[object]], b: dict[str, frozenset[object]]) -> bool:
    return any(name in b and not (values & b[name]) for name, values in a.items())
