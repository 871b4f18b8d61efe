"""The negation of unevaluatedProperties and unevaluatedItems: a property or item that nothing evaluates does not fit.

What may evaluate it is told up front: the subschemas that apply in place, each with the conditions under which it does.
A condition that fails counts whether or not those of others hold, so that for each property one option is enough: what
would evaluate it does not hold. Only subschemas that go by pattern, or by the item (`contains`), are taken in all
combinations of those that hold and those that do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..errors import ConstraintTooLarge, InvalidConstraint
from .document import Derived, Document, Link, pointer_of
from .evaluated import ANNOTATING, PROPERTIES
from .json_text import JsonValue
from .keywords import SOME_ITEM, SOME_PROPERTY, check_form
from .strings import exactly

# Evaluating subschemas that apply in place, and of them those that are combined.
_MANY, _COMBINED = 1_000, 8


@dataclass(frozen=True, slots=True)
class _Evaluator:
    """keywords: of the schema at `place`, those that evaluate something. It applies where all conditions hold."""

    place: str
    keywords: dict[str, Any]
    conditions: tuple[Derived, ...]

    def fails(self) -> Derived:
        """It does not apply. It must have conditions."""
        nots: list[Derived] = [{"not": condition} for condition in self.conditions]
        return {"anyOf": nots}


class Unevaluated:
    """keyword: of the schema at `place`, which says what becomes of what nothing else there evaluates."""

    def __init__(self, document: Document, place: str, keyword: str) -> None:
        self._document = document
        self._where = f"{pointer_of(place)}/{keyword}"
        self._broken: Derived = {"not": Link(document.child(place, keyword))}
        self._keyword = keyword
        self._found: list[_Evaluator] = []
        self._find(place, (), ())

    def negation(self) -> list[Derived]:
        """Schemas of which one holds where the keyword does not, and all others of its schema do. Raises
        InvalidConstraint, ConstraintTooLarge."""
        return list(self._properties() if self._keyword == PROPERTIES else self._items())

    def _find(self, place: str, conditions: tuple[Derived, ...], chain: tuple[str, ...]) -> None:
        if place in chain:
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="$ref", where=pointer_of(place), fix="Break the loop.")
        schema = self._document.schema(place)
        if not isinstance(schema, dict):
            return
        self._limit(len(self._found), _MANY)
        for keyword, value in schema.items():
            check_form(keyword, value, place)
        keywords = {name: value for name, value in schema.items()
                    if name in ANNOTATING and (chain or name != self._keyword)}
        if keywords:
            self._found.append(_Evaluator(place, keywords, conditions))
        for below, more in self._applied(place, schema):
            self._find(below, (*conditions, *more), (*chain, place))

    def _applied(self, place: str, schema: dict[str, JsonValue]) -> Iterator[tuple[str, tuple[Derived, ...]]]:
        """The subschemas that apply in place, and when. What `not` holds evaluates nothing."""
        child = self._document.child
        for keyword, value in schema.items():
            if keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
                yield self._document.target(keyword, str(value), place), ()
            elif keyword in ("allOf", "anyOf", "oneOf") and isinstance(value, list):
                for index in range(len(value)):
                    below = child(place, keyword, str(index))
                    yield below, () if keyword == "allOf" else (Link(below),)
            elif keyword == "dependentSchemas" and isinstance(value, dict):
                for name in value:
                    yield child(place, keyword, name), ({"type": "object", "required": [name]},)
            elif keyword == "if":
                condition = Link(child(place, "if"))
                yield condition.place, (condition,)
                if "then" in schema:
                    yield child(place, "then"), (condition,)
                if "else" in schema:
                    yield child(place, "else"), ({"not": condition},)

    def _limit(self, count: int, most: int) -> None:
        if count > most:
            raise ConstraintTooLarge(f"{self._keyword} is negated (not, oneOf, if) beside more than {most} branches "
                                     "that evaluate something", keyword=self._keyword, where=self._where,
                                     fix="Use fewer branches, or additionalProperties and items.")

    def _failing(self, combined: Sequence[_Evaluator], everything: str) -> Iterator[list[_Evaluator]]:
        """Those that do not hold, in all combinations: what evaluates everything never does."""
        all_of_it = [one for one in self._found if not {everything, self._keyword}.isdisjoint(one.keywords)]
        free = [one for one in combined if one.conditions and one not in all_of_it]
        self._limit(len(free), _COMBINED)
        for count in range(len(free) + 1):
            for some in combinations(free, count):
                yield [*all_of_it, *some]

    @staticmethod
    def _option(option: dict[str, Derived], failing: Sequence[_Evaluator]) -> Iterator[Derived]:
        """The option where these do not hold; none where one of them always does."""
        if all(one.conditions for one in failing):
            yield {**option, **({"allOf": [one.fails() for one in failing]} if failing else {})}

    # Properties

    def _properties(self) -> Iterator[Derived]:
        names = list(dict.fromkeys(name for one in self._found for name in one.keywords.get("properties", ())))
        combined = [one for one in self._found if "patternProperties" in one.keywords]
        for failing in self._failing(combined, "additionalProperties"):
            patterns = [text for one in combined if one not in failing for text in one.keywords["patternProperties"]]
            some: dict[str, Derived] = {"patterns": patterns, "schema": self._broken}
            yield from self._option({"type": "object", SOME_PROPERTY: {**some, "except": names}}, failing)
            for name in names:
                naming = [one for one in self._found if name in one.keywords.get("properties", ())]
                option: dict[str, Derived] = {"type": "object", SOME_PROPERTY: {**some, "only": exactly([name])}}
                if not patterns:
                    option = {"type": "object", "required": [name], "properties": {name: self._broken}}
                yield from self._option(option, [*failing, *(one for one in naming if one not in failing)])

    # Items

    def _items(self) -> Iterator[Derived]:
        combined = [one for one in self._found if "contains" in one.keywords]
        lengths = {id(one): len(one.keywords.get("prefixItems", ())) for one in self._found}
        for failing in self._failing(combined, "items"):
            contained: list[Derived] = [{"not": Link(self._document.child(one.place, "contains"))}
                                        for one in combined if one not in failing]
            for start in sorted({0, *lengths.values()}):
                longer = [one for one in self._found if lengths[id(one)] > start and one not in failing]
                item: Derived = {"allOf": [self._broken, *contained]}
                yield from self._option({"type": "array", SOME_ITEM: {"from": start, "schema": item}},
                                        [*failing, *longer])
