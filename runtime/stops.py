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

    Of two stops that begin at the same place the shorter wins: it is complete first. Stops are looked for in the text
    before the first `until` only, where that is not empty.
    """

    def __init__(self, stops: Sequence[str], until: str = "") -> None:
        """stops: none of them empty."""
        self._stops = tuple(sorted(set(stops), key=len))
        self._until = until if stops else ""
        self._over = False  # `until` was met
        self._held = ""
        self._passed = 0  # characters given back so far
        self.found: StopMatch | None = None

    def push(self, text: str) -> str:
        """Text before the first stop that is safe to show now; "" after a stop was found."""
        return self._search(text, at_end=False)

    def skip(self, text: str) -> str:
        """Text in which no stop is looked for. What was held before it is decided by that."""
        if self.found is not None:
            return ""
        safe = self.finish()
        return safe if self.found is not None else safe + self._pass(text)

    def finish(self) -> str:
        """No text follows: what is still held, up to a stop in it."""
        return self._search("", at_end=True)

    def _search(self, text: str, *, at_end: bool) -> str:
        if self.found is not None:
            return ""
        if self._over:
            return self._pass(text)
        self._held += text
        end = self._held.find(self._until) if self._until else -1
        self._over = end >= 0
        searched = self._held if end < 0 else self._held[:end]
        match = self._first_match(searched)
        undecided = len(searched)
        if not at_end and not self._over:
            until = self._first_beginning((self._until,))
            undecided = self._first_beginning(self._stops)
            if match is not None and match.start + len(match.stop) > until:  # it counts if `until` does not follow
                until, match = min(until, match.start), None
            undecided = min(undecided, until)
        if match is not None and match.start <= undecided:
            self.found = StopMatch(match.stop, self._passed + match.start)
            return self._release(match.start, forget=True)
        return self._release(len(self._held) if self._over else undecided)

    def _first_match(self, text: str) -> StopMatch | None:
        matches = [StopMatch(stop, text.find(stop)) for stop in self._stops]
        return min((match for match in matches if match.start >= 0), key=lambda match: match.start, default=None)

    def _first_beginning(self, wanted: Sequence[str]) -> int:
        """Where the end of the text may be the beginning of a wanted one; its length when it is nowhere."""
        size = len(self._held)
        for start in range(max(0, size - max(map(len, wanted), default=0) + 1), size):
            if any(text.startswith(self._held[start:]) for text in wanted):
                return start
        return size

    def _pass(self, text: str) -> str:
        self._passed += len(text)
        return text

    def _release(self, count: int, *, forget: bool = False) -> str:
        safe, self._held = self._held[:count], "" if forget else self._held[count:]
        self._passed += count
        return safe
