"""Configurations, and the explorer that finds them: the lazily built, deterministic machine behind all matchers."""

from __future__ import annotations

import struct
import threading
from typing import Any

import msgspec
import numpy as np

from ..binding.arena import LONGEST, TEXT
from ..binding.tables import FAR, Tables
from ..jit import direct
from ..missing_bytes.gaps import GAP
from ..rows import Row
from ..stepping.advancing import exact_distance
from ..stepping.another import ANY
from ..stepping.nearest import distance
from ..stepping.settled import settle
from ..stepping.upcoming import next_bytes, only_text
from ..stepping.walk import ARENA_FULL, CROSSED, MARKED
from ..vocabulary import Vocabulary
from .accepting import DISTANCE, FILLED, LEFT_OUT, SAID, SETS_FULL, THREADS, Met, accept, intern
from .accepting import USED as HELD
from .doubts import doubtful
from .filling import Filling
from .finished import STRUCK, UNSURE, Finished
from .looking import ENDS, USED, keep, look, without
from .masking import NO_LIMIT, strike
from .space import Space
from .suspects import Suspects
from .walker import UNMARKED, Walker

_NO_TOKENS = np.zeros(0, np.int32)
_ONE = struct.Struct("5i")
_THREAD = _ONE.size
_accept, _look = direct(accept), direct(look)
_FORCED_BYTES = 4096  # the longest forced text found in one go


class Limits(msgspec.Struct, frozen=True):
    """Budgets of one compiled grammar; past one, the request that needed more fails with ConstraintTooLarge.

    states, distances: size of the tables. threads: readings of one text that are followed at once; past it the farthest
    from the end are left out, which narrows the answer. nodes: interned stack
    nodes and keys. configurations: interned at once; past it they are forgotten and found again, not refused.
    tested: tokens that are tested one by one for a mask near the end of a budget, in a list in which two items must be
    equal: there each asks for a search, and more are not allowed.
    """

    states: int = 1 << 19
    distances: int = 1 << 24
    threads: int = 256
    nodes: int = 1 << 20
    configurations: int = 1 << 16
    tested: int = 1 << 10


class Configuration(msgspec.Struct, eq=False):
    """An interned set of threads. Equal sets of one explorer are one object.

    number: its own in the explorer, 0 once forgotten. key: the threads, sorted, as bytes. distance: U, an upper bound
    of the tokens to acceptance; 0: the text may end. used: some frame holds free keys. answer: what arena.TEXT is here.
    unlike: some frame holds items that others must not equal; loose: distance leaves these aside. heavy: the arena may
    have no room for the values of the items that are open. The rest is cache:
    row is good for any budget of at least `safe`, and from `clear` on but for tokens after which unlike items may need
    more; limited: rows by budget; plans: by the ids before.
    """

    number: int
    key: bytes
    distance: int
    used: bool
    answer: int = 0
    unlike: bool = False
    loose: bool = False
    heavy: bool = False
    next: dict[int, Configuration | None] = {}
    row: Row | None = None
    safe: int = NO_LIMIT
    clear: int = NO_LIMIT
    limited: dict[int, Row] | None = None
    forced: Forced | None = None
    plans: dict[tuple[int, ...], Plan] | None = None

    @property
    def threads(self) -> Any:
        """int32 [n, 5], not to be written."""
        return np.frombuffer(self.key, np.int32).reshape(-1, 5)

    @property
    def flags(self) -> int:
        """As looking.look takes them."""
        return (ENDS if self.distance == 0 else 0) | (USED if self.used else 0)

    @property
    def count(self) -> int:
        """How many threads there are."""
        return len(self.key) // _THREAD


class Forced(msgspec.Struct, frozen=True):
    """The text that every continuation shares, and where it leads: threads, and what arena.TEXT is there (answer).
    open: something may follow it."""

    text: bytes
    threads: Any
    open: bool
    answer: int = 0


class Plan(msgspec.Struct, frozen=True):
    """Forced tokens, and the budget that they and the rest of the text need."""

    tokens: tuple[int, ...]
    need: int


UNFORCED = Plan((), 0)


class Explorer:
    """Finds and interns the configurations of one grammar over one vocabulary. Safe to call from several threads.

    gaps: some places are only in the middle of a token (gaps.py). full: texts fill their share of the arena, and should
    go on elsewhere."""

    def __init__(self, tables: Tables, start: int, vocabulary: Vocabulary, limits: Limits, *,
                 gaps: bool = False) -> None:
        self._gaps = gaps
        self._vocabulary = vocabulary
        self._limits = limits
        self._lock = threading.RLock()
        self._space = Space(tables, vocabulary, nodes=limits.nodes, threads=limits.threads)
        self._address = self._space.address
        self._walker = Walker(tables, vocabulary, self._space)
        self._filling = Filling(tables, vocabulary, self._space.arena, limits.nodes)
        self.full = False
        self._met = Met(self._space.context, limits.threads)
        self._known: list[Configuration] = []  # the one of number n is known[n - 1]
        self._suspects = Suspects(tables, vocabulary)
        self.start = self._of(_ONE.pack(start, 0, 0, 0, 0), None)

    @property
    def crowded(self) -> bool:
        """Whether new matchers should begin with a fresh explorer."""
        return self._filling.half

    @property
    def nodes(self) -> Any:
        """int32 [n, 5]: the stack nodes (arena.py names the columns)."""
        return self._space.arena.arrays.nodes

    @property
    def left_out(self) -> int:
        """After how many tokens a text had more readings than are followed, so that the farthest were left out."""
        return int(self._met.told[LEFT_OUT])

    def longest_key(self) -> int:
        """Bytes of the longest free key written so far, at least."""
        return int(self._space.arena.arrays.counts.item(LONGEST))

    def look(self, configuration: Configuration, finished: Finished) -> int:
        """What looking.look does: the mask's number, 0 for none."""
        self._lock.acquire()  # `with` takes a tenth of a microsecond more
        try:
            while True:
                number = configuration.number or self._number(configuration)
                found = _look(self._address, finished.address, number, configuration.flags)
                if found >= 0:
                    return found
                finished.make_room(found)
        finally:
            self._lock.release()

    def find(self, configuration: Configuration, finished: Finished) -> int:
        """Walks the configuration and keeps its mask, whose number is returned. Its bits: `words`."""
        with self._lock:
            self._walker.walk(configuration)
            while True:
                found = keep(self._address, finished.address, self._number(configuration), configuration.flags)
                if found >= 0:
                    return int(found)
                finished.grow(int(self._space.room.report[MARKED]))

    @property
    def words(self) -> Any:
        """uint32 [words]: the bits of what was walked last. Good until the next walk."""
        return self._space.room.words

    def _number(self, configuration: Configuration) -> int:
        return configuration.number or self._of(configuration.key, configuration, configuration.answer).number

    def advance(self, configuration: Configuration, token: int) -> Configuration | None:
        """Where a text token leads, None when it cannot be read. Remembered.

        Raises ConstraintTooLarge when a budget is passed.
        """
        self._lock.acquire()  # `with` takes a tenth of a microsecond more
        try:
            number = configuration.number or self._number(configuration)
            found = _accept(self._address, number, token)
            while found < 0:
                self._make_room(found)
                found = _accept(self._address, number, token)
            known = self._known
            if found > len(known):
                known.append(self._met_first(found))
            successor = known[found - 1] if found else None
            if successor is not None and self._gaps and successor.distance >= GAP:
                successor = None  # in the middle of a token
            configuration.next[token] = successor
            if found > self._limits.configurations:
                self._forget()
            return successor
        finally:
            self._lock.release()

    def _met_first(self, number: int) -> Configuration:
        """The configuration that was accepted last, of a number that no other had."""
        told, space = self._met.told, self._space
        key = space.lone.tobytes() if told[THREADS] == 1 else bytes(space.view[: told[THREADS] * _THREAD])
        unlike, answer = told[HELD] & 2 > 0, told[SAID]
        new = Configuration(number, key, told[DISTANCE], told[HELD] & 1 > 0, answer, unlike, unlike)
        if answer:
            new.heavy = self._filling.lacks(new.threads, answer, new.distance)
        self.full = told[FILLED] > self._filling.share
        return new

    def _of(self, key: bytes, like: Configuration | None, answer: int = 0) -> Configuration:
        """The configuration of these threads behind an answer. like: one that differs in nothing else, None for the
        start."""
        with self._lock:
            count = self._space.load_key(key)
            number = int(intern(self._address, count, answer))
            if number == SETS_FULL:
                self._met.grow()
                return self._of(key, like, answer)
            if number > len(self._known):
                far = like.distance if like else int(distance(self._address, 0, count, 1))
                self._known.append(Configuration(number, key, far, bool(like and like.used), answer,
                                                 bool(like and like.unlike), bool(like and like.loose)))
            return self._known[number - 1]

    def _forget(self) -> None:
        """Forgets all configurations: those that a matcher still stands in are met anew when it moves on."""
        for configuration in self._known:
            configuration.number = 0
            configuration.next.clear()
        self._known.clear()
        self._met.clear()

    def _make_room(self, trouble: int) -> None:
        """Enlarges what was too small. Raises ConstraintTooLarge at a limit."""
        if trouble == SETS_FULL:
            self._met.grow()
        else:
            self._space.make_room(full=trouble == ARENA_FULL)

    def walk(self, configuration: Configuration, limit: int, *, exact: bool) -> Any:
        """What Walker.walk does; returns the tokens marked, int32 [n, 2]."""
        with self._lock:
            self._walker.walk(configuration, limit, exact=exact)
            room = self._space.room
            return room.marked[: room.report[MARKED]].copy()

    def any_token(self, threads: Any, begin: int, end: int) -> bool:
        """Whether some token in the trie nodes [begin, end) can be read from `threads`."""
        if begin >= end:
            return False
        with self._lock:
            return self._walker.any_token(threads, begin, end)

    def verdicts(self, configuration: Configuration, finished: Finished) -> tuple[Any, Any]:
        """Of the mask found or kept last: (ids of marked tokens that the free keys written forbid, marked tokens that
        only `strike` can judge)."""
        gone, unsure = finished.answer[STRUCK], finished.answer[UNSURE]
        if not gone and not unsure:
            return _NO_TOKENS, UNMARKED
        room = self._space.room
        if unsure and configuration.used and not configuration.answer:
            with self._lock:
                unsure = self._suspects.among(self._address, unsure, configuration.threads.copy(), self.longest_key())
        return room.struck[:gone].copy(), room.unsure[:unsure].copy()

    def without(self, row: Any, struck: Any) -> Any:
        """A row, uint32 [words], less the tokens `struck`; good until the next walk."""
        with self._lock:
            without(self._address, row, struck)
            return self.words

    def doubtful(self, configuration: Configuration, words: Any, marked: Any, *, near: bool = False,
                 exact: bool = True) -> Any:
        """What doubts.doubtful does."""
        with self._lock:
            return doubtful(self._space, configuration, words, marked, near=near, exact=exact)

    def strike(self, configuration: Configuration, words: Any, tokens: Any, limit: int = ANY) -> int:
        """Clears the bits of those of these tokens that the keys and items written forbid or that leave U > limit;
        returns how many."""
        if not len(tokens):
            return 0
        tokens = np.ascontiguousarray(tokens, np.int32)
        threads = configuration.threads.copy()
        with self._lock:
            return self._space.retried(self._space.arena.mark(), lambda: int(strike(
                self._address, threads, configuration.answer, tokens, limit, words)))

    def tighten(self, configuration: Configuration, spare: int = 0) -> None:
        """Makes the distance of a configuration heed the items that were written. spare: how much more that is at most,
        for a search that takes too long."""
        with self._lock:
            found, known = self._exact_distance(configuration, FAR), configuration.distance
            if found < FAR:
                count = self._space.load(configuration.threads, configuration.answer)
                least = int(distance(self._address, 0, count, 1))
                self._space.heedless()
                found = self._shortest(configuration, least, found)
            configuration.distance = found if found < FAR else known + spare
            configuration.loose = False

    def _shortest(self, configuration: Configuration, least: int, found: int) -> int:
        """The least limit, no less than distances say, within which a search finds an end, by halves; one was found.
        (The first may be far longer than a mask near the end of a budget knows.)"""
        while least < found:
            limit = (least + found) // 2
            nearer = self._exact_distance(configuration, limit)
            if nearer <= limit:
                found = nearer
            else:
                least = limit + 1
        return found

    def _exact_distance(self, configuration: Configuration, limit: int) -> int:
        mark = self._space.arena.mark()
        found = self._space.retried(mark, lambda: int(exact_distance(self._address, self._space.load(
            configuration.threads, configuration.answer), limit)))
        self._space.arena.undo_to(mark)
        self._space.heedless()
        return found

    def following(self, threads: Any, answer: int = 0) -> bytes:
        """The bytes that may come next, in order. answer: what arena.TEXT is there."""
        with self._lock:
            mark = self._space.arena.mark()
            found = np.zeros(256, np.uint8)
            self._space.retried(mark, lambda: int(next_bytes(self._address, self._space.load(threads, answer), found)))
            self._space.arena.undo_to(mark)
            self._space.heedless()
            return bytes(np.flatnonzero(found).tolist())

    def forced(self, configuration: Configuration) -> Forced:
        """The text that every continuation shares. Its threads stay in the arena: they are where the text leads."""
        if configuration.forced is None:
            with self._lock:
                configuration.forced = self._find_forced(configuration)
        return configuration.forced

    def _find_forced(self, configuration: Configuration) -> Forced:
        mark = self._space.arena.mark()
        text = np.zeros(_FORCED_BYTES, np.uint8)
        length = self._space.retried(mark, lambda: int(only_text(
            self._address, self._space.load(configuration.threads, configuration.answer), text)))
        if length == 0:
            self._space.arena.undo_to(mark)
            self._space.heedless()
            return Forced(b"", None, True)
        count, answer = int(self._space.room.report[CROSSED]), int(self._space.arena.arrays.counts[TEXT])
        settle(self._address, count)
        threads = self._space.room.threads[:count].copy()
        return Forced(text[:length].tobytes(), threads, bool(self.following(threads, answer)), answer)
