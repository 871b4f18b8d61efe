"""The subset construction over bytes and calls: places of a nondeterministic automaton become one deterministic one."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from ..effort import Effort
from .dfa import Dfa, Edge

Row = tuple[tuple[Edge, ...], bool]
# Sets up to this size are not thinned: comparing places would cost more than it saves.
_SMALL = 8


class Subsets:
    """row: the moves of a place (they may overlap) and whether the text may end there."""

    def __init__(self, row: Callable[[int], Row], effort: Effort) -> None:
        self._row = row
        self._effort = effort
        self._covers: dict[tuple[int, int], bool] = {}

    def automaton(self, start: int) -> Dfa:
        """The deterministic automaton. Raises TooMuchWork."""
        first: tuple[int, ...] = (start,)
        numbers = {first: 0}
        order = [first]
        edges: list[tuple[Edge, ...]] = []
        for places in order:  # grows while it runs
            self._effort.state()
            out: list[Edge] = []
            for low, high, targets in self._cut(places):
                follower = self._thinned(targets)
                number = numbers.setdefault(follower, len(order))
                if number == len(order):
                    order.append(follower)
                if out and out[-1][2] == number and out[-1][1] + 1 == low:
                    out[-1] = (out[-1][0], high, number)
                else:
                    out.append((low, high, number))
            edges.append(tuple(out))
        finals = frozenset(i for i, places in enumerate(order) if any(self._row(place)[1] for place in places))
        return Dfa(tuple(edges), finals)

    def _cut(self, places: tuple[int, ...]) -> list[tuple[int, int, set[int]]]:
        """The moves of a set, cut where any of them begins or ends."""
        moves = [move for place in places for move in self._row(place)[0]]
        self._effort.spend(len(moves))
        if len(moves) == 1:
            return [(low, high, {target}) for low, high, target in moves]
        cuts = sorted({edge for low, high, _ in moves for edge in (low, high + 1)})
        cells: list[set[int]] = [set() for _ in cuts]
        for low, high, target in moves:
            for cell in range(bisect_left(cuts, low), bisect_left(cuts, high + 1)):
                cells[cell].add(target)
        return [(cuts[i], cuts[i + 1] - 1, cell) for i, cell in enumerate(cells) if cell]

    def _thinned(self, targets: set[int]) -> tuple[int, ...]:
        """The set in order, without places that a neighbour in that order covers: a grammar of all the parts of a
        text would else carry thousands of places."""
        ordered = sorted(targets)
        if len(ordered) <= _SMALL:
            return tuple(ordered)
        self._effort.spend(2 * len(ordered))
        kept = [True] * len(ordered)
        for i in range(len(ordered) - 1):
            if self._covered(ordered[i], ordered[i + 1]):
                kept[i + 1] = False
            elif self._covered(ordered[i + 1], ordered[i]):
                kept[i] = False
        return tuple(place for place, stays in zip(ordered, kept, strict=True) if stays)

    def _covered(self, big: int, small: int) -> bool:
        """Whether `big` simulates `small`: each move of the one is a move of the other, to a place that covers again.

        Takes one move of `big` for each of `small`, so it may say no too often, never yes.
        """
        known = self._covers
        if (big, small) in known:
            return known[big, small]
        parents: dict[tuple[int, int], tuple[int, int] | None] = {(big, small): None}
        queue = list(parents)
        for pair in queue:  # grows while it runs
            self._effort.spend(1)
            followers = self._matched(*pair)
            if followers is None or any(known.get(follower) is False for follower in followers):
                failed: tuple[int, int] | None = pair
                while failed is not None:
                    known[failed] = False
                    failed = parents[failed]
                return False
            for follower in followers:
                if follower not in parents and follower[0] != follower[1] and follower not in known:
                    parents[follower] = pair
                    queue.append(follower)
        known.update((pair, True) for pair in queue)
        return True

    def _matched(self, big: int, small: int) -> list[tuple[int, int]] | None:
        """The pairs that must cover each other next; None when a move or the end is missing."""
        (wide, may_end), (narrow, must_end) = self._row(big), self._row(small)
        if must_end and not may_end:
            return None
        pairs: list[tuple[int, int]] = []
        for low, high, target in narrow:
            match = next((t for a, b, t in wide if a <= low and high <= b), None)
            if match is None:
                return None
            pairs.append((match, target))
        return pairs
