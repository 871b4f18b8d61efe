"""What trees of expressions and of grammars share. T is the kind of node that each has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .charset import Ranges

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence(Generic[T]):
    parts: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Alternatives(Generic[T]):
    options: tuple[T, ...]


@dataclass(frozen=True, slots=True)
class Repeat(Generic[T]):
    """maximum None: without end."""

    body: T
    minimum: int
    maximum: int | None
