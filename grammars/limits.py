"""What one compilation may cost, and the meter that holds it to that."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TypeVar

import msgspec

from .errors import ConstraintTooLarge
from .library import Kept, Library

_Made = TypeVar("_Made")


class Limits(msgspec.Struct, frozen=True):
    """source_bytes: UTF-8 bytes of the constraint. depth: nesting of the schema's JSON text (two for each level of
    subschema, so 256 levels fit) and of groups in a regex. states: automaton states made on the way. repetitions:
    counted repetition in one regex, copies summed. alternatives: branches of one union, multiplied out. readings:
    objects, or lists, that one value may be; text tells them apart late, and an answer that has more readings at
    once ends (configuration.Limits.threads). rules: rules of the result. seconds: processor time of the compiling
    thread, so that a busy machine refuses nothing that a quiet one takes.
    """

    source_bytes: int = 8 << 20
    depth: int = 1024
    states: int = 400_000
    repetitions: int = 10_000
    alternatives: int = 4_000
    readings: int = 256
    rules: int = 50_000
    seconds: float = 10.0


class Meter:
    """Counts what one compilation spends; every loop that a caller can make long reports here."""

    def __init__(self, limits: Limits, place: str = "#", library: Library | None = None) -> None:
        """place: where to point when nothing nearer is known. library: what earlier compilations made."""
        self.limits = limits
        self._library = Library() if library is None else library
        self._place = place
        self._states = 0
        self._ticks = 0
        self._deadline = time.thread_time() + limits.seconds

    def states(self, count: int, where: str = "") -> None:
        """Charge `count` new automaton states; raises ConstraintTooLarge past a limit."""
        self._states += count
        if self._states > self.limits.states:
            raise ConstraintTooLarge(
                f"the constraint needs more than {self.limits.states} automaton states", keyword="states",
                where=where or self._place,
                fix="Use smaller counted repetitions, lengths or enumerations.",
            )
        self._ticks += 1
        if self._ticks % 8 == 0:  # one step of an automaton may take tenths of a second
            self.time(where)

    def shared(self, key: Hashable, make: Callable[[], _Made], size: Callable[[_Made], int]) -> _Made:
        """What `make` makes, or an earlier compilation made under this key, charged either way. size: bytes of it,
        roughly. Equal keys must mean equal results."""
        fresh = False

        def kept() -> Kept:
            nonlocal fresh
            fresh, before = True, self._states
            value = make()
            return Kept(value, self._states - before, size(value))

        found = self._library.get(key, kept)
        if not fresh:
            self.states(found.states)
        value: _Made = found.value
        return value

    def time(self, where: str = "") -> None:
        """Raises ConstraintTooLarge when the compilation ran longer than it may."""
        if time.thread_time() > self._deadline:
            raise ConstraintTooLarge(
                f"compiling took longer than {self.limits.seconds:g} seconds of a processor", keyword="seconds",
                where=where or self._place, fix="Simplify the constraint.",
            )
