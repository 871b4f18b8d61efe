"""Automata joined one behind the other and side by side; made deterministic at the end."""

from __future__ import annotations

from collections.abc import Iterable

from ..limits import Meter
from .dfa import Dfa, Edge, explore, overlay, trim
from .minimise import minimise


class Joining:
    """States with edges, and with skips to others, which read nothing. State 0 is the start."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._rows: list[list[Edge]] = [[]]
        self._skips: list[list[int]] = [[]]

    def state(self) -> int:
        self._meter.states(1)
        self._rows.append([])
        self._skips.append([])
        return len(self._rows) - 1

    def skip(self, source: int, target: int) -> None:
        self._skips[source].append(target)

    def text(self, source: int, text: bytes) -> int:
        """Reads `text`; returns the state behind it."""
        state = self.state()
        self.skip(source, state)
        for byte in text:
            following = self.state()
            self._rows[state].append((byte, byte, following))
            state = following
        return state

    def put(self, source: int, dfa: Dfa) -> int:
        """Reads what an automaton accepts; returns the state behind it."""
        first, end = len(self._rows), len(self._rows) + len(dfa.edges)
        self._meter.states(len(dfa.edges))
        self._rows += [[(low, high, first + target) for low, high, target in row] for row in dfa.edges]
        self._skips += [[end] if state in dfa.finals else [] for state in range(len(dfa.edges))]
        self.skip(source, first)
        return self.state()

    def finish(self, end: int) -> Dfa:
        """The texts that lead to `end`, minimal."""
        rows = self._rows

        def step(states: frozenset[int]) -> Iterable[tuple[int, int, frozenset[int]]]:
            for low, high, targets in overlay([rows[state] for state in sorted(states)]):
                yield low, high, self._closed(target for target in targets if target >= 0)

        return minimise(trim(explore(self._closed([0]), step, lambda states: end in states, self._meter)))

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        """With all that skips lead to; only states that read something, or stand at an end, are kept."""
        queue = list(dict.fromkeys(states))
        seen = set(queue)
        for state in queue:
            for target in self._skips[state]:
                if target not in seen:
                    seen.add(target)
                    queue.append(target)
        return frozenset(state for state in seen if self._rows[state] or not self._skips[state])
