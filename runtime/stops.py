"""Stop strings in a stream of text: the earliest match in the text wins, however the text was cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StopMatch:
    """start: offset of the stop string in the whole text."""

    stop: str
    start: int


class StopFinder:
    """`push` gives back the text that can no longer be part of a stop string; the rest is held until it is decided.

    Of two stops that begin at the same place the shorter wins: it is complete first.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """stops: none of them empty."""
        self._stops = tuple(sorted(set(stops), key=len))
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""
        self._passed = 0  # characters given back so far
        self.found: StopMatch | None = None

    def push(self, text: str) -> str:
        """Text before the first stop that is safe to show now; "" after a stop was found."""
        return self._search(text, at_end=False)

    def finish(self) -> str:
        """No text follows: what is still held, up to a stop in it."""
        return self._search("", at_end=True)

    def _search(self, text: str, *, at_end: bool) -> str:
        if self.found is not None:
            return ""
        self._held += text
        match = self._first_match()
        undecided = len(self._held) if at_end else self._first_beginning()
        if match is not None and match.start <= undecided:
            self.found = StopMatch(match.stop, self._passed + match.start)
            return self._release(match.start, forget=True)
        return self._release(undecided)

    def _first_match(self) -> StopMatch | None:
        matches = [StopMatch(stop, self._held.find(stop)) for stop in self._stops]
        return min((match for match in matches if match.start >= 0), key=lambda match: match.start, default=None)

    def _first_beginning(self) -> int:
        """Where the text may be the beginning of a stop string; its length when it is nowhere."""
        size = len(self._held)
        for start in range(max(0, size - self._longest + 1), size):
            if any(stop.startswith(self._held[start:]) for stop in self._stops):
                return start
        return size

    def _release(self, count: int, *, forget: bool = False) -> str:
        safe, self._held = self._held[:count], "" if forget else self._held[count:]
        self._passed += count
        return safe
