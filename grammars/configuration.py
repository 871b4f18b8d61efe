"""Configurations, and the explorer that finds them: the lazily built, deterministic machine behind all matchers."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from .accepting import DISTANCE, SETS_FULL, THREADS, TOO_MANY, USED, Met, accept, intern
from .arena import FULL, KEYS, RETURN, Arena
from .bodies import Bodies, Body
from .composing import read_body, read_threads
from .context import ROOM, TABLES, TRIE, Context
from .errors import ConstraintTooLarge
from .gaps import GAP
from .masking import strike
from .members import class_of
from .room import Room, room_for, widened
from .rows import Row
from .slicing import SlicedWalk
from .suspects import Suspects
from .tables import DISTINCT, FAR, KIND, Tables
from .vocabulary import Vocabulary
from .walk import (
    ARENA_FULL,
    CROSSED,
    CROWDED,
    LOOKED,
    MARKED,
    NODE,
    OPEN,
    STATE,
    WORST,
    distance,
    next_bytes,
    only_text,
    settle,
)

NO_LIMIT = FAR << 10
_UNMARKED = np.zeros((0, 2), np.int32)
_FIRST_BUFFER = 1 << 11
_ONE = struct.Struct("5i")
_THREAD = _ONE.size
_FORCED_BYTES = 4096  # the longest forced text found in one go


class Limits(msgspec.Struct, frozen=True):
    """Budgets of one compiled grammar; past one, the request that needed more fails with ConstraintTooLarge.

    states, distances: size of the tables. threads: readings of one text that are alive at once. nodes: interned stack
    nodes and keys. configurations: interned at once; past it they are forgotten and found again, not refused.
    """

    states: int = 1 << 18
    distances: int = 1 << 24
    threads: int = 256
    nodes: int = 1 << 20
    configurations: int = 1 << 16


class Configuration(msgspec.Struct, eq=False):
    """An interned set of threads. Equal sets of one explorer are one object.

    number: its own in the explorer, 0 once forgotten. key: the threads, sorted, as bytes. distance: U, an upper bound
    of the tokens to acceptance; 0: the text may end. used: some frame holds free keys. The rest is cache: row is good
    for any budget of at least `safe`; limited: rows by budget; plans: by the ids before.
    """

    number: int
    key: bytes
    distance: int
    used: bool
    next: dict[int, Configuration | None] = {}
    row: Row | None = None
    safe: int = NO_LIMIT
    limited: dict[int, Row] | None = None
    forced: Forced | None = None
    plans: dict[tuple[int, ...], Plan] | None = None

    @property
    def threads(self) -> Any:
        """int32 [n, 5], not to be written."""
        return np.frombuffer(self.key, np.int32).reshape(-1, 5)

    @property
    def first_state(self) -> int:
        return int.from_bytes(self.key[:4], sys.byteorder)

    @property
    def first(self) -> tuple[int, int]:
        """State and register of the first thread."""
        return int.from_bytes(self.key[:4], sys.byteorder), int.from_bytes(self.key[4:8], sys.byteorder)

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self.key) // _THREAD


class Forced(msgspec.Struct, frozen=True):
    """The text that every continuation shares, and where it leads. open: something may follow it."""

    text: bytes
    threads: Any
    open: bool


class Plan(msgspec.Struct, frozen=True):
    """Forced tokens, and the budget that they and the rest of the text need."""

    tokens: tuple[int, ...]
    need: int


UNFORCED = Plan((), 0)


class Walked(msgspec.Struct, frozen=True):
    """What a walk found. words: uint32 [words]; worst: the largest U of a successor; looked: frames of the stack it
    looked into; marked: int32 [n, 2], tokens and how many of their moves depend on the free keys written."""

    words: Any
    worst: int
    looked: int
    marked: Any
    visited: int


class Explorer:
    """Finds and interns the configurations of one grammar over one vocabulary. Safe to call from several threads.

    gaps: some places are only in the middle of a token (gaps.py)."""

    def __init__(self, tables: Tables, start: int, vocabulary: Vocabulary, limits: Limits, *,
                 gaps: bool = False) -> None:
        self._gaps = gaps
        self._vocabulary = vocabulary
        self._limits = limits
        self._lock = threading.RLock()
        self._context = Context()
        self._address = self._context.address
        self._context.put(TABLES, tables)
        self._context.put(TRIE, vocabulary.trie)
        self._arena = Arena(self._context, limits.nodes)
        self._set_room(room_for(vocabulary, _FIRST_BUFFER))
        self._met = Met(self._context, limits.threads)
        self._known: list[Configuration] = []  # the one of number n is known[n - 1]
        self._bodies = Bodies(tables, self._address, vocabulary.bodies)
        self._suspects = Suspects(tables, vocabulary)
        self._keys = self._longest = 0  # free keys looked at, bytes of the longest
        self._nodes = len(vocabulary.trie.byte)
        distinct = bool((tables.states[:, KIND] >= DISTINCT).any())
        self._sliced = None if distinct else SlicedWalk(self._context, vocabulary)
        self.start = self._of(_ONE.pack(start, 0, 0, 0, 0), None)

    @property
    def crowded(self) -> bool:
        """Whether half of the arena is in use, so that new matchers should begin with a fresh explorer."""
        return max(self._arena.mark()) > self._limits.nodes // 2

    @property
    def nodes(self) -> Any:
        """int32 [n, 5]: the stack nodes (arena.py names the columns)."""
        return self._arena.arrays.nodes

    def costs(self, configuration: Configuration) -> list[int]:
        """U of each thread, as if no free key had been written."""
        if configuration.count == 1 and not configuration.used and not _ONE.unpack(configuration.key)[OPEN]:
            return [configuration.distance]
        with self._lock:
            count = self._load(configuration.threads)
            return [int(distance(self._address, k, k + 1, 0)) for k in range(count)]

    def class_of(self, state: int, register: int) -> int:
        """What a mask depends on of the register of an object in any order, the written keys themselves aside."""
        with self._lock:
            return int(class_of(self._address, state, register))

    def longest_key(self) -> int:
        """Bytes of the longest free key written so far, at least."""
        arena = self._arena.arrays
        count = int(arena.counts[KEYS])
        if count > self._keys:
            self._longest = max(self._longest, int(arena.pairs[self._keys: count, 2].max()))
            self._keys = count
        return self._longest

    def advance(self, configuration: Configuration, token: int) -> Configuration | None:
        """Where a text token leads, None when it cannot be read. Remembered.

        Raises ConstraintTooLarge when a budget is passed.
        """
        with self._lock:
            number = configuration.number or self._of(configuration.key, configuration).number
            found = accept(self._address, number, token)
            while found < 0:
                self._make_room(found)
                found = accept(self._address, number, token)
            known = self._known
            if found > len(known):
                told = self._met.told
                key = self._lone.tobytes() if told[THREADS] == 1 else bytes(self._view[: told[THREADS] * _THREAD])
                known.append(Configuration(found, key, told[DISTANCE], told[USED] == 1))
            successor = known[found - 1] if found else None
            if successor is not None and self._gaps and successor.distance >= GAP:
                successor = None  # in the middle of a token
            configuration.next[token] = successor
            if found > self._limits.configurations:
                self._forget()
            return successor

    def _of(self, key: bytes, like: Configuration | None) -> Configuration:
        """The configuration of these threads. like: one that differs in nothing else, None for the start."""
        with self._lock:
            self._view[: len(key)] = key
            count = len(key) // _THREAD
            number = int(intern(self._address, count))
            if number == SETS_FULL:
                self._met.grow()
                return self._of(key, like)
            if number > len(self._known):
                far = like.distance if like else int(distance(self._address, 0, count, 1))
                self._known.append(Configuration(number, key, far, bool(like and like.used)))
            return self._known[number - 1]

    def _forget(self) -> None:
        """Forgets all configurations: those that a matcher still stands in are met anew when it moves on."""
        for configuration in self._known:
            configuration.number = 0
        self._known.clear()
        self._met.clear()

    def _load(self, threads: Any) -> int:
        self._room.threads[: len(threads)] = threads
        return len(threads)

    def _make_room(self, trouble: int) -> None:
        """Enlarges what was too small. Raises ConstraintTooLarge at a limit."""
        if trouble == ARENA_FULL:
            self._arena.grow()
        elif trouble == SETS_FULL:
            self._met.grow()
        elif trouble == TOO_MANY:
            ways = self._met.told[THREADS]
            raise ConstraintTooLarge(f"the text so far can be read in {ways} ways at once; the limit is "
                                     f"{self._limits.threads}", keyword="ambiguity",
                                     fix="Make the alternatives differ earlier.")
        else:
            self._widen()

    def _retried(self, mark: tuple[int, int, int], work: Callable[[], int]) -> int:
        """Runs `work` until neither the arena nor the buffer is too small; then its result, not negative."""
        while True:
            result = work()
            full = bool(self._arena.arrays.counts[FULL])
            if result >= 0 and not full:
                return result
            self._arena.undo_to(mark)
            self._make_room(ARENA_FULL if full else CROWDED)

    def _widen(self) -> None:
        size = 4 * len(self._room.threads)
        if size > self._limits.threads * (self._vocabulary.longest + 3) + 4 * _FIRST_BUFFER:
            raise ConstraintTooLarge(f"the text so far can be read in more than {self._limits.threads} ways at once",
                                     keyword="ambiguity", fix="Make the alternatives differ earlier.")
        self._set_room(widened(self._room, size))

    def _set_room(self, room: Room) -> None:
        self._room = room
        self._view = room.threads.data.cast("B")  # its bytes
        self._lone = self._view[:_THREAD]
        self._context.put(ROOM, room)

    def stand_in(self, configuration: Configuration, register: int) -> Configuration:
        """The configuration of one thread with a register of equal distances in place of its own."""
        state, _, *rest = _ONE.unpack(configuration.key)
        return self._of(_ONE.pack(state, register, *rest), configuration)

    def walk(self, configuration: Configuration, limit: int = NO_LIMIT, *, exact: bool = False) -> Walked:
        """The mask of a configuration over successors with U <= limit. exact: free keys written are heeded; without it
        the walk is of the configuration as if there were none, and the tokens that need a test are marked.

        worst: for several threads, of the tokens of each by itself. The words are room: good until the next walk.
        """
        with self._lock:
            if configuration.count == 1:
                state, _, node, _, _ = _ONE.unpack(configuration.key)
                threads, below = None, [self._below(node)]
                bodies = [self._bodies.of(state, below[0], exact)]
            else:
                threads = self._plain_threads(configuration, exact)
                below = [self._below(node) for node in threads[:, NODE].tolist()]
                bodies = [self._bodies.of(state, under, exact)
                          for state, under in zip(threads[:, STATE].tolist(), below, strict=True)]
            if self._sliced is not None and not any(bodies):
                plain = self._plain_threads(configuration, exact)
                if self._bodies.heavy(plain, below):
                    return self._walk_slices(self._sliced, plain, limit, exact)
            if threads is None:
                visited = self._settled(lambda: self._read_one(configuration.key, bodies[0], limit, int(exact)))
            else:
                visited = self._settled(lambda: self._read(threads, bodies, limit, int(exact)))
            room, report = self._room, self._room.report
            marked = room.marked[: report[MARKED]].copy() if report[MARKED] else _UNMARKED
            return Walked(room.words, int(report[WORST]), int(report[LOOKED]), marked, visited)

    def _plain_threads(self, configuration: Configuration, exact: bool) -> Any:
        threads = configuration.threads.copy()
        if not exact:
            threads[:, OPEN] = 0
        return threads

    def _read_one(self, key: bytes, body: Body | None, limit: int, exact: int) -> int:
        """What _read does, for one thread."""
        self._view[:_THREAD] = key
        if not exact:
            self._room.threads[0, OPEN] = 0
        if body is None:
            return int(read_threads(self._address, 1, 0, self._nodes, limit, exact, 0, 1))
        return int(read_body(self._address, body.rows.context.address, body.numbers, *body[2:], limit, exact, 1))

    def _below(self, node: int) -> int:
        """The state of the frame that a stack node returns to, -1 for the bottom."""
        return int(self._arena.arrays.nodes[node, RETURN]) if node else -1

    def _settled(self, work: Callable[[], int]) -> int:
        """Runs work, which leaves the arena as it was, until there is room for it; then its result."""
        while True:
            found = work()
            if found >= 0:
                return found
            self._make_room(found)

    def _read(self, threads: Any, bodies: list[Body | None], limit: int, exact: int) -> int:
        """The bodies of the threads that have one, then one walk of all others. Returns what read_body does."""
        visited, fresh = 0, 1
        for k, body in enumerate(bodies):
            if body is not None:
                self._room.threads[0] = threads[k]
                found = int(read_body(self._address, body.rows.context.address, body.numbers, *body[2:], limit, exact,
                                      fresh))
                if found < 0:
                    return found
                visited, fresh = visited + found, 0
        rest = [k for k, body in enumerate(bodies) if body is None]
        if not rest:
            return visited
        count = self._load(threads if len(rest) == len(threads) else threads[np.array(rest)])
        found = int(read_threads(self._address, count, 0, self._nodes, limit, exact, 0, fresh))
        return visited + found if found >= 0 else found

    def _walk_slices(self, sliced: SlicedWalk, threads: Any, limit: int, exact: bool) -> Walked:
        with self._lock:
            mark = self._arena.mark()
            self._retried(mark, lambda: sliced.run(self._room, threads, limit, int(exact)))
            self._arena.undo_to(mark)
            room = self._room
            return Walked(room.words, int(room.report[WORST]), int(room.report[LOOKED]), _UNMARKED, self._nodes)

    def any_token(self, threads: Any, begin: int, end: int) -> bool:
        """Whether some token in the trie nodes [begin, end) can be read from `threads`."""
        if begin >= end:
            return False
        with self._lock:
            self._settled(lambda: int(read_threads(
                self._address, self._load(threads), begin, end, NO_LIMIT, 1, 1, 1)))
            return bool(self._room.words.any())

    def doubtful(self, configuration: Configuration, marked: Any) -> Any:
        """Of the marked tokens those that the free keys written may forbid: not one that ends the first key of its
        object."""
        if not len(marked):
            return marked
        if configuration.used:
            return self._suspects.among(marked, configuration.threads, self._arena.arrays)
        return marked[marked[:, 1] >= 2]

    def strike(self, configuration: Configuration, words: Any, marked: Any, limit: int = NO_LIMIT) -> int:
        """Clears the bits of marked tokens that the keys written forbid or that leave U > limit; returns how many."""
        if not len(marked):
            return 0
        tokens = [self._vocabulary.spelled[t] for t in marked[:, 0].tolist()]
        text = np.frombuffer(b"".join(tokens), np.uint8).copy()
        ends = np.cumsum(np.array([len(t) for t in tokens], np.int64))
        marked = np.ascontiguousarray(marked)
        threads = configuration.threads.copy()
        with self._lock:
            return self._retried(self._arena.mark(), lambda: int(strike(
                self._address, threads, text, ends, marked, limit, words)))

    def following(self, threads: Any) -> bytes:
        """The bytes that may come next, in order."""
        with self._lock:
            mark = self._arena.mark()
            found = np.zeros(256, np.uint8)
            self._retried(mark, lambda: int(next_bytes(self._address, self._load(threads), found)))
            self._arena.undo_to(mark)
            return bytes(np.flatnonzero(found).tolist())

    def forced(self, configuration: Configuration) -> Forced:
        """The text that every continuation shares. Its threads stay in the arena: they are where the text leads."""
        if configuration.forced is None:
            with self._lock:
                configuration.forced = self._find_forced(configuration)
        return configuration.forced

    def _find_forced(self, configuration: Configuration) -> Forced:
        mark = self._arena.mark()
        text = np.zeros(_FORCED_BYTES, np.uint8)
        length = self._retried(mark, lambda: int(only_text(
            self._address, self._load(configuration.threads), text)))
        if length == 0:
            self._arena.undo_to(mark)
            return Forced(b"", None, True)
        count = int(self._room.report[CROSSED])
        settle(self._address, count)
        threads = self._room.threads[:count].copy()
        return Forced(text[:length].tobytes(), threads, bool(self.following(threads)))
