"""Bodies by state (body_walk.py says what they are): found when first asked for, and shared by a whole vocabulary
(body_store.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ..binding.tables import CALLS, CALLS_END, COUNTER, DISTINCT, FINAL, HIGH, KIND, LOW, PLATEAU, RULE, Tables
from ..binding.trie import PLAIN_BYTES
from ..stepping.walk import STATE
from .body_beside import explore, settle
from .body_groups import grouped
from .body_places import join
from .body_roam import roam
from .body_rows import survey
from .body_steps import alphabet_of
from .body_store import WHOLE, BodyRows, BodyStore, rows_of
from .body_tails import tails_of
from .body_union import ANY, united
from .body_walk import ALONE, BIG, FROM, LIGHT, RETURNING, broad, looping, nodes_by_class, scout, spell, weigh

DEEPEST = 4  # frames that what follows a body may lie in, at most
_SPARSE = 4  # a body of fewer nodes than that part of them is left to the walk
_NOTHING = np.zeros(0, np.uint8)
_NO_DIFFERENCE = (np.zeros(0, np.int32), np.zeros((0, 3), np.int32))  # cut, found
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
        self._unspelled: set[int] = set()  # rules whose bodies have too many states

    @cached_property
    def _alphabet(self) -> Any:
        return alphabet_of(self._tables.classes, self._tables.go.shape[1], self._store.groups)

    def heavy(self, threads: Any, below: list[int]) -> bool:
        """Whether a walk of `threads`, over frames in the states `below`, may come to many nodes of the vocabulary."""
        states = {*threads[:, STATE].tolist()} - self._sparse
        under = {b for s, b in zip(threads[:, STATE].tolist(), below, strict=True) if self._tables.states[s, FINAL]}
        total = sum(int(weigh(self._context, self._nodes, s)) for s in states | under - self._sparse if s >= 0)
        return total >= self._store.worth

    def of(self, state: int, frames: Callable[[], tuple[int, ...]], exact: bool, *, whole: bool,
           register: int = 0) -> Body | None:
        """The body of a state; None when a plain walk is as good, or only a walk heeds what `exact` asks for.

        frames: the states in the frames to which it may return: those below, up to one that may not itself return.
        whole: it will be asked what its tokens cost; else all are allowed that the register allows.
        """
        kind = self._tables.states.item(state, KIND)
        if exact and kind >= DISTINCT:
            return None
        wanted = WHOLE if whole else ANY if kind != COUNTER else self._alike(state, register)
        body = self._remembered(state, wanted, partial(self._find, state))
        if state not in self._returning:
            return body
        below = frames()
        return self._remembered((state, below), wanted, partial(self._find_over, state, below))

    def _alike(self, state: int, register: int) -> int:
        """ANY where a register allows for the longest of tokens wherever that ends, else itself."""
        low, plateau, high = self._tables.rules[self._tables.states[state, RULE], [LOW, PLATEAU, HIGH]].tolist()
        return ANY if register >= low and (high < 0 or register + self._store.longest <= plateau) else register

    def _remembered(self, key: int | tuple[int, tuple[int, ...]], wanted: int,
                    find: Callable[[int], Body | None]) -> Body | None:
        known = self._known
        if key not in known:
            known[key] = find(wanted)
        elif not _serves(known[key], wanted):
            known[key] = find(ANY if wanted == ANY else WHOLE)
        return known[key]

    def looks_below(self, state: int) -> bool:
        """Whether the body of a state, once found, depends on the frames below."""
        return state in self._returning

    def _find(self, state: int, wanted: int) -> Body | None:
        store = self._store
        with store.room.lock:
            hub = scout(self._context, store.room.context.address, self._nodes, store.worth, _LIKELY, state)
            if hub == LIGHT:
                return None
            if hub == RETURNING:
                self._returning.add(state)
                return None
            if hub not in (ALONE, state):
                beside = self._beside(state, hub, wanted)
                if beside is not None:
                    return beside
            if hub == ALONE and self._may_return_behind(state):
                self._returning.add(state)
                return None
            found = self._body(state, wanted)
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

    def _find_over(self, state: int, frames: tuple[int, ...], wanted: int) -> Body | None:
        """The body of a state whose frame may return to these, or is the first."""
        states, after = self._tables.states, np.zeros(256, np.uint8)
        if len(frames) > DEEPEST:
            return None
        for below in frames:
            if states[below, CALLS] < states[below, CALLS_END]:
                return None
            after |= (self._tables.go[below] != -1)[self._tables.classes]
        with self._store.room.lock:
            return self._shared(state, after, wanted)

    def _body(self, start: int, wanted: int) -> Body | None:
        """The body of a state by itself."""
        if start not in self._direct or not _serves(self._direct[start], wanted):
            self._direct[start] = self._shared(start, _NOTHING, wanted)
        return self._direct[start]

    def _shared(self, start: int, after: Any, wanted: int) -> Body | None:
        store, returning = self._store, min(after.size, 1)
        loops = looping(self._context, self._nodes, start, returning)
        if loops < 0:
            return None
        if loops < store.worth and not broad(self._context, start, returning, store.worth // _SPARSE, store.room.stack):
            self._sparse.add(start)
            return None
        order, code, rule = store.room.order, store.room.code, self._tables.states.item(start, RULE)
        if rule in self._unspelled:
            return self._roamed(start, after, wanted)
        length = int(spell(self._context, start, returning, self._local, order, code))
        numbers = order[: order[-1]].copy()
        if length < 0:
            self._local[numbers] = 0
            self._unspelled.add(rule)
            return self._roamed(start, after, wanted)
        try:
            key = code[:length].tobytes() + after.tobytes()
            known, made = self._store.get(key)
            if not known or (made is not None and made.register not in (WHOLE, wanted)):
                made = self._make(after, numbers, wanted)
                if made is None or made.register < 0:  # else of no use to others
                    self._store.put(key, made)
        finally:
            self._local[numbers] = 0
        return None if made is None else _numbered(made, numbers)

    def _roamed(self, start: int, after: Any, wanted: int) -> Body | None:
        """The body of a state that has too many to be spelled, where counts bound nothing and no costs are asked."""
        store, room = self._store, self._store.room
        if wanted != ANY:
            return None
        row, known = np.zeros(store.words, np.uint32), np.zeros(len(self._local), np.uint8)
        fits = roam(self._context, start, after, self._local, room.order, known, room.stack, row, room.exits,
                    room.sizes)
        numbers = room.order[: room.sizes[0]].copy()
        self._local[numbers] = 0
        found = tails_of(self._context, room.exits[: room.sizes[2]], room.tails, store.listing.before, store.quotes)
        if not fits or found is None:
            return None
        groups = np.zeros((len(numbers), 5), np.int32)
        groups[:, 0], groups[:, BIG] = np.arange(len(numbers)), -1
        return _numbered(rows_of((groups, *store.no_groups, row), found, wanted), numbers)

    def _make(self, after: Any, numbers: Any, wanted: int) -> BodyRows | None:
        store, room = self._store, self._store.room
        counts = bool(self._tables.states[numbers[0], KIND] == COUNTER)
        width = store.longest + 2 if counts else 1
        steps = room.steps[: len(self._alphabet) * len(numbers)].reshape(len(numbers), -1)
        loops, line = room.loops[: len(numbers)], room.line[: len(numbers)]
        if survey(self._context, numbers, self._local, after, self._alphabet, store.nodes, room.stack, steps, loops,
                  line, width, room.ranges, room.exits, room.sizes, room.scratch.lines) < 0:
            return None
        found = tails_of(self._context, room.exits[: room.sizes[2]], room.tails, store.listing.before, store.quotes)
        if found is None:
            return None
        return rows_of(self._inside(room.ranges[: room.sizes[0]], numbers, loops, width, wanted), found, wanted)

    def _inside(self, found: Any, numbers: Any, loops: Any, width: int, wanted: int) -> tuple[Any, Any, Any, Any]:
        """(groups, tokens, rows, full) of a body, as BodyRows has them, of what a survey found."""
        store, scratch, crossing = self._store, self._store.room.scratch, self._store.room.sizes[3:].tolist()
        if wanted != WHOLE:
            groups, full = united(self._context, numbers, wanted, store.listing, scratch, found, loops, width,
                                  store.groups, crossing)
            return groups, *store.no_groups, full
        groups, tokens, rows = grouped(store.listing, scratch, found, loops, width, store.groups, crossing)
        full = np.zeros(store.words, np.uint32)
        join(rows, tokens, store.trie.twin, full)
        return groups, tokens, rows, full

    def _beside(self, state: int, hub: int, wanted: int) -> Body | None:
        """The body of a state by its difference from that of a hub; None when they differ too much, or it has none."""
        room = self._store.room
        total = int(explore(self._context, room.context.address, self._store.nodes, state, hub))
        if total < 0:
            return None  # then the hub's body, which takes a hundred times as long, is not wanted either
        base = self._body(hub, wanted)
        if base is None or not settle(room.context.address, base.exits):
            return None
        found, _, left, _, _ = room.found_sizes.tolist()
        return Body(base.rows, base.numbers, room.tokens[:total].copy(), room.found[:found].copy(),
                    room.apart[:left].copy())


def _numbered(made: BodyRows, numbers: Any) -> Body:
    """A body whose states have these numbers."""
    exits = made.exits
    if len(exits):
        exits = exits.copy()
        exits[:, FROM] = numbers[exits[:, FROM]]
    return Body(made, numbers, *_NO_DIFFERENCE, exits)


def _serves(body: Body | None, wanted: int) -> bool:
    return body is None or body.rows.register in (WHOLE, wanted)
