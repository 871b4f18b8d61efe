"""What one attempt of a compilation may cost before another way is taken; the meter bounds the whole."""

from __future__ import annotations

import gc

from .limits import Meter


class TooMuchWork(Exception):
    """The attempt came to more states, or more steps, than its caller wanted to spend."""


class Effort:
    """steps: moves and places to look at, None for what the meter allows. states: of the result."""

    def __init__(self, meter: Meter, states: int, steps: int | None) -> None:
        self.meter = meter
        self._states = states
        self._steps = steps

    def state(self) -> None:
        self.meter.states(1)
        self._states -= 1
        if self._states < 0:
            raise TooMuchWork

    def spend(self, steps: int) -> None:
        self.meter.states(0)
        if self._steps is not None:
            self._steps -= steps
            if self._steps < 0:
                raise TooMuchWork


class CollectorPaused:
    """Without the cyclic collector, which was on: the trees and networks of a large grammar hold no cycles, and walking
    a million nodes again and again is two fifths of the time."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_on:
            gc.enable()
