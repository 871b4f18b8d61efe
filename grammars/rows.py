"""The table of mask rows that all matchers share, and its one law: a pinned row is never given to another mask."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .binding.digest import Digest
from .errors import ConstraintTooLarge

_FEWEST_ROWS = 4
_AHEAD = 8 << 20  # bytes of rows that have their memory before they are needed
_VIEWS = 512  # rows that have their view before they are needed
_PAGE = 1 << 10  # words of a page of memory, at most


class Row:
    """A mask in the table. index: its row id, -1 once evicted. pins: matchers that may hand the id to a sampler.
    used: the table's clock when it was last let go."""

    __slots__ = ("digest", "index", "pins", "used")

    def __init__(self, index: int, digest: bytes) -> None:
        self.index = index
        self.digest = digest
        self.pins = 0
        self.used = 0


class MaskTable:
    """array: int32 [capacity, ceil(vocabulary_size / 32)]; token t is bit t % 32 of word t // 32; padding bits are 0.
    views[row]: its words as a memoryview, of the row ids that exist, and of some to come; copying one is three times as
    fast as a row of `array`.

    Row 0 is all ones (no constraint) and never leaves. Rows are interned by content. `array` has room for `byte_budget`
    from the start, and takes memory as rows are written; then the rows let go longest ago that nobody pins are evicted.
    `version[row]` counts how often a row id got new content, so that a copy on a device can follow.
    """

    def __init__(self, vocabulary_size: int, byte_budget: int = 256 << 20) -> None:
        self.words = (vocabulary_size + 31) // 32
        capacity = max(_FEWEST_ROWS, byte_budget // (4 * self.words))
        self._lock = threading.Lock()
        self._rows: dict[bytes, Row] = {}
        self._digest = Digest(self.words)
        self._words: npt.NDArray[np.uint32] = np.zeros(0, np.uint32)  # added last, and the same as a row takes it
        self._read = self._words.view(np.int32).data
        self._free: list[int] = []
        self.clock = 0  # how often a row was let go
        self.array: npt.NDArray[np.int32] = np.zeros((capacity, self.words), np.int32)
        self.version: npt.NDArray[np.int64] = np.zeros(capacity, np.int64)
        self._versions = self.version.data
        self.array[0] = _all_ones(vocabulary_size, self.words)
        self._made = self._ready = 1  # rows that exist, and that have their memory
        self.views = [self.array[0].data]
        self.everything = Row(0, b"")
        self.everything.pins = 1
        self.reach_ahead()

    def reach_ahead(self) -> None:
        """Takes memory for the rows to come, and views of the next. Two megabytes of it, got for the first time, take
        milliseconds where memory is virtual, as long as many masks: so not while one is made."""
        with self._lock:
            end = min(self._made + _AHEAD // (4 * self.words), len(self.array))
            if end > self._ready:
                self.array[self._ready: end, :: _PAGE] = 0
                self._ready = end
            self._look_at(min(self._made + _VIEWS, len(self.array)))

    def add(self, words: npt.NDArray[np.uint32]) -> Row:
        """The row with this content, written if it is new, pinned once: `unpin` it when done.

        Raises ConstraintTooLarge when every row of the budget is pinned.
        """
        with self._lock:
            digest = self._digest.of(words)
            row = self._rows.get(digest)
            if row is None:
                row = Row(self._free_index(), digest)
                self.views[row.index][:] = self._read_of(words)
                self._versions[row.index] += 1
                self._rows[digest] = row
            row.pins += 1
            return row

    def _read_of(self, words: npt.NDArray[np.uint32]) -> memoryview:
        """The words as a row takes them; those of one explorer come again and again."""
        if words is not self._words:
            self._words, self._read = words, words.view(np.int32).data
        return self._read

    def pin(self, row: Row) -> None:
        """Keeps the row's id valid until the matching `unpin`. The row must not be evicted."""
        row.pins += 1

    def unpin(self, row: Row) -> None:
        row.pins -= 1
        row.used = self.clock = self.clock + 1

    def gather(self, rows: Sequence[int], out: npt.NDArray[np.int32]) -> None:
        """Copies the rows of a batch, by their ids, into out [len(rows), words]."""
        np.take(self.array, rows, axis=0, out=out, mode="clip")

    @property
    def pinned(self) -> int:
        """Rows that someone pins, row 0 aside."""
        return sum(row.pins > 0 for row in self._rows.values())

    def _free_index(self) -> int:
        if not self._free:
            if self._made < len(self.array):
                self._made += 1
                self._look_at(self._made)
                return self._made - 1
            self._evict()
        return self._free.pop()

    def _look_at(self, end: int) -> None:
        """Has views of the rows before `end`."""
        for index in range(len(self.views), end):
            self.views.append(self.array[index].data)

    def _evict(self) -> None:
        """Frees an eighth of the table at once, so that sorting is paid for by many rows."""
        idle = sorted((row for row in self._rows.values() if row.pins <= 0), key=lambda row: row.used)
        if not idle:
            raise ConstraintTooLarge(
                f"all {len(self.array)} rows of the mask table are in use", keyword="mask table",
                fix="Raise the byte budget of the mask table, or run fewer constrained requests at once.")
        for row in idle[: max(1, len(self.array) // 8)]:
            del self._rows[row.digest]
            self._free.append(row.index)
            row.index = -1


def _all_ones(vocabulary_size: int, words: int) -> npt.NDArray[np.int32]:
    bits = np.arange(32 * words) < vocabulary_size
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
