"""What a schema comes to, one branching keyword after the other."""

from __future__ import annotations

from dataclasses import dataclass

from .keywords import TYPES
from .shape import Places

KINDS = frozenset(TYPES) - {"integer"}


@dataclass(frozen=True, slots=True)
class Base:
    """The schema's own keywords, without branches."""


@dataclass(frozen=True, slots=True)
class All:
    place: str


@dataclass(frozen=True, slots=True)
class Any:
    """exclusive: the places are known to exclude each other."""

    places: Places
    exclusive: bool = False


Part = Base | All | Any


@dataclass(frozen=True, slots=True)
class Chain:
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
