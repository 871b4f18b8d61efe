"""Schemas that read alike: equal numbers for places whose schemas are equal texts, derived ones included.

Equal texts mean the same wherever they stand, as long as references do: in a document with several resources only a
place equals itself.
"""

from __future__ import annotations

from collections.abc import Hashable

from .document import Document, Link
from .json_text import depth_of, identity

# Schemas nested deeper than this equal only themselves: reading is recursive.
_DEEPEST = 100


class Readings:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[str, int] = {}

    def number(self, place: str) -> int:
        """Equal for places that mean the same."""
        found = self._known.get(place)
        if found is None:
            schema = self._document.schema(place)
            alone = self._document.split or depth_of(schema) > _DEEPEST
            reading: Hashable = ("place", place) if alone else self._read(schema)
            found = self._known[place] = self._numbers.setdefault(reading, len(self._numbers))
        return found

    def _read(self, schema: object) -> Hashable:
        if isinstance(schema, Link):
            return ("link", self.number(schema.place))
        if isinstance(schema, dict):
            return ("object", frozenset((key, self._read(value)) for key, value in schema.items()))
        if isinstance(schema, list):
            return ("list", tuple(self._read(item) for item in schema))
        return identity(schema)  # type: ignore[arg-type]
