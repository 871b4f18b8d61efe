"""Where an explorer's compiled code works, and how that grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..binding.arena import FULL, TEXT, Arena
from ..binding.context import ROOM, TABLES, TRIE, Context
from ..binding.tables import Tables, has_unlike
from ..errors import ConstraintTooLarge
from ..stepping.walk import ARENA_FULL
from ..vocabulary import Vocabulary
from .room import Room, room_for, widened

_FIRST_BUFFER = 1 << 11
_THREAD = 20  # bytes of a thread


class Space:
    """address: the context of one grammar over one vocabulary; arena, room: its parts that are written to. Not for two
    threads at once.

    nodes: the most of the arena. threads: readings of a text that are alive at once.
    """

    def __init__(self, tables: Tables, vocabulary: Vocabulary, *, nodes: int, threads: int) -> None:
        self._threads = threads
        self._longest = vocabulary.longest
        self.context = Context()
        self.address = self.context.address
        self.context.put(TABLES, tables)
        self.context.put(TRIE, vocabulary.trie)
        self.arena = Arena(self.context, nodes)
        self._set_room(room_for(vocabulary, _FIRST_BUFFER, unlike=has_unlike(tables)))

    def load(self, threads: Any, answer: int = 0) -> int:
        """Puts threads, int32 [n, 5], into the room; returns how many. answer: what arena.TEXT is there, for steps that
        must heed it."""
        self.arena.arrays.counts[TEXT] = answer
        self.room.threads[: len(threads)] = threads
        return len(threads)

    def heedless(self) -> None:
        """Ends steps that heed the answer: walks must not."""
        self.arena.arrays.counts[TEXT] = 0

    def load_key(self, key: bytes) -> int:
        """The same for threads as bytes."""
        self.view[: len(key)] = key
        return len(key) // _THREAD

    def settled(self, work: Callable[[], int]) -> int:
        """Runs work, which leaves the arena as it was, until there is room for it; then its result."""
        while True:
            found = work()
            if found >= 0:
                return found
            self.make_room(full=found == ARENA_FULL)

    def retried(self, mark: tuple[int, int, int], work: Callable[[], int]) -> int:
        """Runs `work` until neither the arena nor the buffer is too small; then its result, not negative."""
        while True:
            result = work()
            full = bool(self.arena.arrays.counts[FULL])
            if result >= 0 and not full:
                return result
            self.arena.undo_to(mark)
            self.make_room(full=full)

    def make_room(self, *, full: bool) -> None:
        """Enlarges the arena when it is full, else the buffer of threads. Raises ConstraintTooLarge at a limit."""
        if full:
            self.arena.grow()
            return
        size = 4 * len(self.room.threads)
        if size > self._threads * (self._longest + 3) + 4 * _FIRST_BUFFER:
            raise ConstraintTooLarge(f"the text so far can be read in more than {self._threads} ways at once",
                                     keyword="ambiguity", fix="Make the alternatives differ earlier.")
        self._set_room(widened(self.room, size))

    def _set_room(self, room: Room) -> None:
        self.room = room
        self.view = room.threads.data.cast("B")  # the bytes of its threads
        self.lone = self.view[:_THREAD]  # and of the first of them
        self.context.put(ROOM, room)
