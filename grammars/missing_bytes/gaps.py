"""Bytes that are no token of their own: ways over them by the tokens of several bytes that hold them.

Where an edge has no byte that is a token, and some longer token holds one of its bytes, the edge costs GAP: a token may
lead over it, but none may end before it and hope for the next. A distance of GAP or more is that of a place in the
middle of such a token. So masks treat GAP as a budget that no answer has.

shortening.py finds the tokens along the shortest ways. Here the places that are left are looked at with all of these
tokens, also where they cross into called rules. Where nothing closes without tokens that end in a rule further out,
crossing.py finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..binding.columns import next_column
from ..binding.flat import (
    ACTION,
    BYTE_HIGH,
    BYTE_LOW,
    CALL_ACTION,
    CALL_TARGET,
    CALLED,
    DISTINCT,
    MEMBERS,
    OWNER,
    SOURCE,
    TARGET,
)
from ..binding.tables import BASE, FAR, FINAL, HAS_FREE, KIND, LEAST, LISTED, LOW, NEXT, RULE, Layout, Tables
from ..ir import CLOSE_KEY

GAP = 1 << 22  # more than the distances of any table that is allowed, without gaps
_FRAMES = 8  # calls inside one another on the way of one token
_STEPS = 1 << 20  # of tokens, byte by byte; past them the places that are left stay as they are

# A state, its column, and the (state, column) of each frame to return to.
_Place = tuple[int, int, tuple[tuple[int, int], ...]]


def has_gaps(tables: Tables) -> bool:
    """Whether some place is, as far as is known, only in the middle of a token."""
    return bool(((tables.distance >= GAP) & (tables.distance < FAR)).any())


def bridge(tables: Tables, layout: Layout, single: Any, wide: Sequence[bytes], rules: Any) -> None:
    """Makes distances of at least GAP those of the fewest tokens that were found, in place. single: uint8 [256], bytes
    that are tokens. wide: tokens that hold other bytes too. rules: those whose distances may count tokens: others are
    of unlike items, of which another is searched over single bytes."""
    _Bridge(tables, layout, single, wide, rules).run()


class _Bridge:
    def __init__(self, tables: Tables, layout: Layout, single: Any, wide: Sequence[bytes], rules: Any) -> None:
        self._tables, self._rules = tables, frozenset(rules.tolist())
        self._single = np.concatenate([[0], np.cumsum(single)])
        self._wide = wide
        self._left = _STEPS
        flat, starts = layout.flat, layout.starts
        edges, calls = flat.edges, flat.calls
        self._edges = np.stack([starts[edges[:, OWNER]] + edges[:, SOURCE], edges[:, BYTE_LOW], edges[:, BYTE_HIGH],
                                starts[edges[:, OWNER]] + edges[:, TARGET], edges[:, ACTION]], axis=1)
        self._edges = self._edges[np.argsort(self._edges[:, 0], kind="stable")]
        self._calls = np.stack([starts[calls[:, OWNER]] + calls[:, SOURCE], starts[calls[:, CALLED]],
                                starts[calls[:, OWNER]] + calls[:, CALL_TARGET], calls[:, CALL_ACTION]], axis=1)
        self._calls = self._calls[np.argsort(self._calls[:, 0], kind="stable")]

    def run(self) -> None:
        self._lower(self._places(GAP), lambda state, column: min(self._by_bytes(state, column),
                                                                 self._by_tokens(state, column)))
        # Of free keys no byte may bring the end nearer by more than one (shortening.py).
        self._lower(self._places(0, kind=DISTINCT), self._by_bytes)

    def _lower(self, places: list[tuple[int, int]], fewest: Callable[[int, int], int]) -> None:
        changed = True
        while changed and self._left > 0:
            changed = False
            for state, column in places:
                best = fewest(state, column)
                if best < self._distance(state, column):
                    self._tables.distance[self._tables.states[state, BASE] + column] = best
                    changed = True

    def _places(self, least: int, kind: int | None = None) -> list[tuple[int, int]]:
        """The places whose distance is at least that, of rules (of one kind) that are understood here; the last states
        first."""
        tables, found = self._tables, []
        bases = tables.states[:, BASE].tolist()
        for state, (base, end) in enumerate(pairwise([*bases, len(tables.distance)])):
            rule = tables.rules[tables.states[state, RULE]]
            here = tables.states[state, KIND]
            if here == MEMBERS or self._by_bytes_only(state) or kind not in (None, here):
                continue
            columns = rule[LOW] + 1 if here == DISTINCT else end - base
            distances = tables.distance[base: base + columns]
            found += [(state, int(column)) for column in np.flatnonzero((distances >= least) & (distances < FAR))]
        return found[::-1]

    def _by_bytes_only(self, state: int) -> bool:
        """Whether only single bytes count behind a state: more than one free key, or item, may be, and after the first
        only they make another (new_keys.py, another.py)."""
        if int(self._tables.states[state, RULE]) not in self._rules:
            return True
        kind, rule = self._tables.states[state, KIND], self._tables.rules[self._tables.states[state, RULE]]
        return bool(rule[HAS_FREE] if kind == MEMBERS else kind == DISTINCT and (rule[LISTED] or rule[LEAST] > 1))

    def _distance(self, state: int, column: int) -> int:
        return int(self._tables.distance[self._tables.states[state, BASE] + column])

    def _after(self, state: int, column: int, action: int, target: int) -> int:
        """The column in the target, -1 when the action is blocked."""
        tables = self._tables
        rule = tables.rules[tables.states[state, RULE]]
        kind, low = int(tables.states[state, KIND]), int(rule[LOW])
        if kind == DISTINCT and action == CLOSE_KEY and column == low and self._distance(target, low + 1) < FAR:
            return low + 1
        following = tables.next_required[rule[NEXT]: rule[NEXT] + low + 1]
        return int(next_column.py_func(kind, action, column, rule, following))

    def _rows(self, rows: Any, state: int) -> list[list[int]]:
        first, last = np.searchsorted(rows[:, 0], (state, state + 1))
        found: list[list[int]] = rows[first:last].tolist()
        return found

    def _by_bytes(self, state: int, column: int) -> int:
        """The fewest tokens over one byte, or over a call."""
        best = FAR
        for _, low, high, target, action in self._rows(self._edges, state):
            after = self._after(state, column, action, target)
            if after >= 0 and self._single[high + 1] > self._single[low]:
                best = min(best, 1 + self._distance(target, after))
        for _, callee, target, action in self._rows(self._calls, state):
            after = self._after(state, column, action, target)
            if after >= 0:
                best = min(best, self._distance(callee, 0) + self._distance(target, after))
        return best

    def _by_tokens(self, state: int, column: int) -> int:
        """The fewest tokens that begin with one that holds a byte which is no token."""
        best = FAR
        for token in self._wide:
            places: set[_Place] = {(state, column, ())}
            for byte in token:
                places = self._step(places, byte)
                if not places:
                    break
            for here, at, frames in places:
                best = min(best, 1 + self._distance(here, at) + sum(self._distance(*frame) for frame in frames))
        return best

    def _step(self, places: set[_Place], byte: int) -> set[_Place]:
        found: set[_Place] = set()
        queue, seen = list(places), set(places)
        for state, column, frames in queue:  # grows while it runs
            self._left -= 1
            for _, low, high, target, action in self._rows(self._edges, state):
                after = self._after(state, column, action, target) if low <= byte <= high else -1
                if after >= 0 and self._distance(target, after) < FAR:
                    found.add((target, after, frames))
            for place in self._crossed(state, column, frames):
                if place not in seen:
                    seen.add(place)
                    queue.append(place)
        return found

    def _crossed(self, state: int, column: int, frames: tuple[tuple[int, int], ...]) -> list[_Place]:
        """Into each rule that is called, and out of one that was entered."""
        found: list[_Place] = []
        for _, callee, target, action in self._rows(self._calls, state):
            after = self._after(state, column, action, target)
            if (after >= 0 and len(frames) < _FRAMES and self._distance(target, after) < FAR
                    and not self._by_bytes_only(callee)):
                found.append((callee, 0, (*frames, (target, after))))
        if frames and self._tables.states[state, FINAL] and self._distance(state, column) == 0:
            found.append((*frames[-1], frames[:-1]))
        return found
