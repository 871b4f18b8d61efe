"""Bodies by state (body_walk.py says what they are): found when first asked for, and shared by a whole vocabulary
(body_store.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ..binding.context import BODY, TRIE, Context
from ..binding.tables import CALLS, CALLS_END, COUNTER, DISTINCT, FINAL, KIND, Tables
from ..binding.trie import PLAIN_BYTES
from ..stepping.walk import STATE
from .body_beside import explore, settle
from .body_groups import grouped
from .body_places import join
from .body_rows import survey
from .body_steps import alphabet_of
from .body_store import BodyRows, BodyStore
from .body_tails import tails_of
from .body_union import united
from .body_walk import ALONE, AT, FROM, LIGHT, RETURNING, broad, looping, nodes_by_class, scout, spell, weigh

DEEPEST = 4  # frames that what follows a body may lie in, at most
_SPARSE = 4  # a body of fewer nodes than that part of them is left to the walk
_NOTHING = np.zeros(0, np.uint8)
_NO_DIFFERENCE = (np.zeros(0, np.int32), np.zeros((0, 3), np.int32))  # cut, found
_LARGE = 256  # nodes behind an exit from which on it is no part of a tail
_LIKELY = np.frombuffer(PLAIN_BYTES, np.uint8).copy()


class Body(NamedTuple):
    """A body in the states of one grammar: numbers[local]; what differs from it (cut, found, exits) as `read_body`
    wants it."""

    rows: BodyRows
    numbers: Any
    cut: Any
    found: Any
    exits: Any


class Bodies:
    """The bodies of one grammar's states."""

    def __init__(self, tables: Tables, context: int, store: BodyStore) -> None:
        """context: the address of one that holds the tables and the trie."""
        self._tables = tables
        self._context = context
        self._store = store
        self._local = np.zeros(len(tables.states), np.int32)
        self._nodes = np.empty(tables.go.shape[1], np.int64)
        nodes_by_class(tables.classes, store.first, self._nodes)
        self._known: dict[int | tuple[int, tuple[int, ...]], Body | None] = {}
        self._returning: set[int] = set()
        self._direct: dict[int, Body | None] = {}
        self._sparse: set[int] = set()

    @cached_property
    def _alphabet(self) -> Any:
        return alphabet_of(self._tables.classes, self._tables.go.shape[1], self._store.groups)

    def heavy(self, threads: Any, below: list[int]) -> bool:
        """Whether a walk of `threads`, over frames in the states `below`, may come to many nodes of the vocabulary."""
        states = {*threads[:, STATE].tolist()} - self._sparse
        under = {b for s, b in zip(threads[:, STATE].tolist(), below, strict=True) if self._tables.states[s, FINAL]}
        total = sum(int(weigh(self._context, self._nodes, s)) for s in states | under - self._sparse if s >= 0)
        return total >= self._store.worth

    def of(self, state: int, frames: Callable[[], tuple[int, ...]], exact: bool, *, whole: bool) -> Body | None:
        """The body of a state; None when a plain walk is as good, or only a walk heeds what `exact` asks for.

        frames: the states in the frames to which it may return: those below, up to one that may not itself return.
        whole: it will be asked what its tokens cost; else all are allowed.
        """
        if exact and self._tables.states[state, KIND] >= DISTINCT:
            return None
        body = self._remembered(state, whole, partial(self._find, state))
        if state not in self._returning:
            return body
        below = frames()
        return self._remembered((state, below), whole, partial(self._find_over, state, below))

    def _remembered(self, key: int | tuple[int, tuple[int, ...]], whole: bool,
                    find: Callable[[bool], Body | None]) -> Body | None:
        known = self._known
        if key not in known or (whole and _lacks_groups(known[key])):
            known[key] = find(whole)
        return known[key]

    def looks_below(self, state: int) -> bool:
        """Whether the body of a state, once found, depends on the frames below."""
        return state in self._returning

    def _find(self, state: int, whole: bool) -> Body | None:
        store = self._store
        with store.room.lock:
            hub = scout(self._context, store.room.context.address, self._nodes, store.worth, _LIKELY, state)
            if hub == LIGHT:
                return None
            if hub == RETURNING:
                self._returning.add(state)
                return None
            if hub not in (ALONE, state):
                beside = self._beside(state, hub, whole)
                if beside is not None:
                    return beside
            if hub == ALONE and self._may_return_behind(state):
                self._returning.add(state)
                return None
            found = self._body(state, whole)
            if state in self._sparse and broad(self._context, state, 1, store.worth // _SPARSE, store.room.stack):
                self._sparse.discard(state)  # what it leads to may return
                self._returning.add(state)
            return found

    def _may_return_behind(self, state: int) -> bool:
        """Whether much of the vocabulary begins with a byte behind which the frame may return."""
        tables = self._tables
        targets = tables.go[state].copy()
        reads, acts = targets != -1, targets <= -2
        targets[acts] = tables.edges[-2 - targets[acts], 1]
        return bool(self._nodes[reads & (tables.states[targets, FINAL] == 1)].sum() >= self._store.worth)

    def _find_over(self, state: int, frames: tuple[int, ...], whole: bool) -> Body | None:
        """The body of a state whose frame may return to these, or is the first."""
        states, after = self._tables.states, np.zeros(256, np.uint8)
        if len(frames) > DEEPEST:
            return None
        for below in frames:
            if states[below, CALLS] < states[below, CALLS_END]:
                return None
            after |= (self._tables.go[below] != -1)[self._tables.classes]
        with self._store.room.lock:
            return self._shared(state, after, whole)

    def _body(self, start: int, whole: bool) -> Body | None:
        """The body of a state by itself."""
        if start not in self._direct or (whole and _lacks_groups(self._direct[start])):
            self._direct[start] = self._shared(start, _NOTHING, whole)
        return self._direct[start]

    def _shared(self, start: int, after: Any, whole: bool) -> Body | None:
        store, returning = self._store, min(after.size, 1)
        loops = looping(self._context, self._nodes, start, returning)
        if loops < 0:
            return None
        if loops < store.worth and not broad(self._context, start, returning, store.worth // _SPARSE, store.room.stack):
            self._sparse.add(start)
            return None
        order = store.room.order
        code = store.room.code
        length = int(spell(self._context, start, returning, self._local, order, code))
        numbers = order[: order[-1]].copy()
        try:
            if length < 0:
                return None
            key = code[:length].tobytes() + after.tobytes()
            known, made = self._store.get(key)
            if not known or (whole and made is not None and not made.whole):
                made = self._make(after, numbers, whole)
                self._store.put(key, made)
        finally:
            self._local[numbers] = 0
        if made is None:
            return None
        exits = made.exits
        if len(exits):
            exits = exits.copy()
            exits[:, FROM] = numbers[exits[:, FROM]]
        return Body(made, numbers, *_NO_DIFFERENCE, exits)

    def _make(self, after: Any, numbers: Any, whole: bool) -> BodyRows | None:
        store, room = self._store, self._store.room
        counts = bool(self._tables.states[numbers[0], KIND] == COUNTER)
        width = store.longest + 2 if counts else 1
        steps = room.steps[: len(self._alphabet) * len(numbers)].reshape(len(numbers), -1)
        loops, line = room.loops[: len(numbers)], room.line[: len(numbers)]
        if survey(self._context, numbers, self._local, after, self._alphabet, store.nodes, room.stack, steps, loops,
                  line, width, room.ranges, room.exits, room.sizes, room.scratch.lines) < 0:
            return None
        exits = room.exits[: room.sizes[2]]
        large = store.trie.size[exits[:, AT]] > _LARGE
        direct, exits = exits[large], exits[~large]
        if store.trie.size[exits[:, AT]].sum() > len(store.trie.byte):
            return None
        tails, ids, tries = tails_of(self._context, exits, store.trie, store.listing.before, room.stack, store.quotes)
        arrays = (*self._inside(room.ranges[: room.sizes[0]], loops, width, whole or counts), tails, ids)
        context = Context(BODY.end + len(tries) * TRIE.end)
        context.put(BODY, arrays)
        for k, trie in enumerate(tries):
            context.put(TRIE, trie, BODY.end + k * TRIE.end)
        return BodyRows(*arrays, tries, direct, context, whole or counts)

    def _inside(self, found: Any, loops: Any, width: int, whole: bool) -> tuple[Any, Any, Any, Any]:
        """(groups, tokens, rows, full) of a body, as BodyRows has them, of what a survey found."""
        store, scratch, crossing = self._store, self._store.room.scratch, self._store.room.sizes[3:].tolist()
        if not whole:
            groups, full = united(store.listing, scratch, found, loops, store.groups, crossing)
            return groups, np.zeros(0, np.int32), np.zeros((0, store.words), np.uint32), full
        groups, tokens, rows = grouped(store.listing, scratch, found, loops, width, store.groups, crossing)
        full = np.zeros(store.words, np.uint32)
        join(rows, tokens, store.trie.twin, full)
        return groups, tokens, rows, full

    def _beside(self, state: int, hub: int, whole: bool) -> Body | None:
        """The body of a state by its difference from that of a hub; None when they differ too much, or it has none."""
        room = self._store.room
        total = int(explore(self._context, room.context.address, self._store.nodes, state, hub))
        if total < 0:
            return None  # then the hub's body, which takes a hundred times as long, is not wanted either
        base = self._body(hub, whole)
        if base is None or not settle(room.context.address, base.exits):
            return None
        found, _, left, _, _ = room.found_sizes.tolist()
        return Body(base.rows, base.numbers, room.tokens[:total].copy(), room.found[:found].copy(),
                    room.apart[:left].copy())


def _lacks_groups(body: Body | None) -> bool:
    return body is not None and not body.rows.whole
