"""What a schema comes to, one branching keyword after the other."""

from __future__ import annotations

import msgspec

from .keywords import TYPES
from .shape import Places

KINDS = frozenset(TYPES) - {"integer"}


class Base(msgspec.Struct, frozen=True):
    """The schema's own keywords, without branches."""


class All(msgspec.Struct, frozen=True):
    place: str


class Any(msgspec.Struct, frozen=True):
    """exclusive: the places are known to exclude each other."""

    places: Places
    exclusive: bool = False


Part = Base | All | Any


class Chain(msgspec.Struct, frozen=True):
    """The places that led here without an instance in between; meeting one again is a loop."""

    place: str
    before: Chain | None

    def holds(self, place: str) -> bool:
        link: Chain | None = self
        while link is not None:
            if link.place == place:
                return True
            link = link.before
        return False
