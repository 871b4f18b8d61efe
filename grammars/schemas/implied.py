"""Which schemas without branches say nothing more of an object than another one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shape import Places, Shape

if TYPE_CHECKING:
    from .meaning import Meaning


class Implied:
    """Provable from what the one says of each property alone; False when in doubt, and while it is being found out."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._known: dict[tuple[str, str], bool] = {}

    def __call__(self, one: str, other: str) -> bool:
        """Every object that fits the schema at `one`, and has what `other` requires, fits that at `other`; the branches
        of both left out."""
        found = self._known.get((one, other))
        if found is None:
            self._known[one, other] = False
            found = self._known[one, other] = self._object(self._meaning.shape((one,)), self._meaning.shape((other,)))
        return found

    def _object(self, a: Shape, b: Shape) -> bool:
        if b.values is not None or "object" not in b.kinds:
            return False
        if b.least_properties > max(a.least_properties, len(a.required)) or not set(b.names) <= set(a.names):
            return False
        if b.most_properties is not None and (a.most_properties is None or a.most_properties > b.most_properties):
            return False
        if any(part.patterns or not self._all(part.additional) for part in b.objects):
            return False
        if not all(self._value(a, name, place) for part in b.objects for name, place in part.properties.items()):
            return False
        return all(any(self._meaning.witness(some, name) and (some.value is None or self._value(a, name, some.value))
                       for name in a.required) for some in b.some_properties)

    def _all(self, place: str | None) -> bool:
        return place is None or self._meaning.document.schema(place) in (True, {})

    def _value(self, a: Shape, name: str, place: str) -> bool:
        """Where an object of that shape has the property, it fits the schema at `place`."""
        mine, document = self._meaning.member(a, name), self._meaning.document
        if place in mine or self._all(place) or any(document.schema(one) is False for one in mine):
            return True
        schema = document.schema(place)
        if not isinstance(schema, dict) or schema.keys() != {"not"}:
            return False
        inside: Places = (document.child(place, "not"),)
        return self._meaning.disjoint(mine, inside)
