"""unevaluatedProperties and unevaluatedItems: in one alternative of a schema it is known which subschemas apply, so
what they evaluate is known, and the rest is an ordinary `additionalProperties` or `items`.

An alternative may apply more subschemas than it was chosen for; it then only asks for more than it must. What it must
ask for is asked by the alternative that lists them all, which is why unions are taken apart into sets of options here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .document import Derived, Document, Link, pointer_of
from .keywords import BRANCHES, is_idle, refuse
from .shape import Places

PROPERTIES = "unevaluatedProperties"
ITEMS = "unevaluatedItems"
_EVALUATING = {"object": ("properties", "patternProperties", "additionalProperties", PROPERTIES),
               "array": ("prefixItems", "items", "contains", ITEMS)}
ANNOTATING = frozenset(keyword for keywords in _EVALUATING.values() for keyword in keywords)
# Whether two schemas exclude each other, their branches left out, where a third holds too; False when in doubt.
Apart = Callable[[str, str, str], bool]
_MAX_COMBINED = 256  # combinations of options of a union
# (above, below): a subschema that applies in place, and the schema that it belongs to. Negations lead nowhere: they
# evaluate nothing.
Links = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Held:
    """bases: the schemas without branches that hold where some others do. alone: no union does."""

    bases: Places
    alone: bool


def may_evaluate(document: Document, place: str) -> bool:
    """Whether the schema could evaluate a property or an item."""
    schema = document.schema(place)
    return isinstance(schema, dict) and bool(schema.keys() & (ANNOTATING | BRANCHES))


class Rests:
    """Makes the derived schemas; equal ones have one place. coarse: places whose unions were not taken apart."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._made: dict[tuple[object, ...], str] = {}
        self._types: dict[str, str] = {}
        self.coarse: set[str] = set()

    def combined(self, options: dict[str, Held], apart: Apart) -> list[Places] | None:
        """The combinations of two or more options of a union that some object or list may fit, and where each evaluates
        of it what the others do not; None: there are too many."""
        found: dict[Places, None] = {}
        for kind in _EVALUATING:
            if kind not in self._types:
                self._types[kind] = self._document.derive("#", {"type": kind})
            for combination in self._of_kind(kind, options, apart):
                found.setdefault(combination)
                if len(found) > _MAX_COMBINED:
                    return None
        return list(found)

    def _of_kind(self, kind: str, options: dict[str, Held], apart: Apart) -> Iterator[Places]:
        marks = {place: self._evaluated(held, _EVALUATING[kind]) for place, held in options.items()}
        order = list(options)
        grown: list[Places] = [(place,) for place in order]
        for combination in grown:  # grows while it runs
            for place in order[order.index(combination[-1]) + 1:]:
                both = (*combination, place)
                if self._all_add(both, options, marks) and not self._excluded(both, options, self._types[kind], apart):
                    grown.append(both)
                    yield both

    @staticmethod
    def _excluded(places: Places, options: dict[str, Held], kind: str, apart: Apart) -> bool:
        """Whether the last excludes one before it."""
        *before, last = (options[place] for place in places)
        return any(apart(one, other, kind) for held in before for one in held.bases for other in last.bases)

    @staticmethod
    def _all_add(places: Places, options: dict[str, Held], marks: dict[str, frozenset[object]]) -> bool:
        """Whether each may evaluate what the others do not."""
        return not any(options[place].alone and marks[place] <= frozenset().union(
            *(marks[other] for other in places if other != place)) for place in places)

    def _evaluated(self, held: Held, keywords: tuple[str, ...]) -> frozenset[object]:
        """What the schemas evaluate by these keywords that hold for certain: names, patterns, numbers of items."""
        marks: set[object] = set()
        for place in held.bases:
            schema: Any = self._document.schema(place)
            for keyword in keywords:
                if keyword in ("properties", "patternProperties"):
                    marks.update((keyword, name) for name in schema.get(keyword, ()))
                elif keyword == "prefixItems":
                    marks.update((keyword, index) for index in range(len(schema.get(keyword, ()))))
                elif keyword in schema:
                    marks.add((keyword, place if keyword == "contains" else ""))
        return frozenset(marks)

    def of(self, bases: Places, links: Links) -> Places:
        """The places that say what these schemas' unevaluated* keywords ask for. Raises UnsupportedKeyword."""
        found: list[str] = []
        for place in bases:
            schema = self._document.schema(place)
            for keyword in (PROPERTIES, ITEMS):
                if isinstance(schema, dict) and keyword in schema and not is_idle(keyword, schema):
                    found.extend(self._rest(place, keyword, _below(place, links)))
        return tuple(found)

    def _rest(self, place: str, keyword: str, below: list[str]) -> Iterable[str]:
        if self.coarse & set(below):
            raise refuse(keyword, f"{pointer_of(place)}/{keyword}", "beside a union is not enforced where "
                         f"its branches come to more than {_MAX_COMBINED} combinations, each of which evaluates more")
        schemas = [self._document.schema(inner) for inner in below]
        applied = [(inner, schema) for inner, schema in zip(below, schemas, strict=True) if isinstance(schema, dict)]
        everything = ("additionalProperties", PROPERTIES) if keyword == PROPERTIES else ("items", ITEMS)
        if any(name in schema for inner, schema in applied for name in everything
               if (inner, name) != (place, keyword)):
            return ()
        asked = Link(self._document.child(place, keyword))
        make = self._properties if keyword == PROPERTIES else self._items
        key, derived = make(applied, asked)
        if (place, keyword, key) not in self._made:
            self._made[place, keyword, key] = self._document.derive(place, derived)
        return (self._made[place, keyword, key],)

    @staticmethod
    def _properties(applied: list[tuple[str, dict[str, Any]]], asked: Link) -> tuple[object, Derived]:
        names = {name: None for _, schema in applied for name in schema.get("properties", ())}
        patterns = {text: None for _, schema in applied for text in schema.get("patternProperties", ())}
        derived: Derived = {"properties": dict.fromkeys(names, True), "additionalProperties": asked,
                            "patternProperties": dict.fromkeys(patterns, True)}
        return (tuple(names), tuple(patterns)), derived

    def _items(self, applied: list[tuple[str, dict[str, Any]]], asked: Link) -> tuple[object, Derived]:
        prefix = max((len(schema.get("prefixItems", ())) for _, schema in applied), default=0)
        contained = [self._document.child(place, "contains") for place, schema in applied if "contains" in schema]
        items: Derived = {"anyOf": [*map(Link, contained), asked]} if contained else asked
        derived: Derived = {"items": items, **({"prefixItems": [True] * prefix} if prefix else {})}
        return (prefix, tuple(contained)), derived


def _below(place: str, links: Links) -> list[str]:
    """The place and all that applies in place below it."""
    followers: dict[str, list[str]] = {}
    for above, inner in sorted(links):
        followers.setdefault(above, []).append(inner)
    seen = {place: None}
    queue = [place]
    for at in queue:
        for inner in followers.get(at, ()):
            if inner not in seen:
                seen[inner] = None
                queue.append(inner)
    return queue
