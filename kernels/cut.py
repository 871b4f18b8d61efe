"""How the segments of a step are cut into pieces, as many as suit the device.

Exact: a segment that others follow ends at the boundary of a chunk, the rest belongs to those that follow; the first
piece of a path may hold many chunks, every later one holds one. So each part is either a left fold from slot 0 or one
chunk, and the parts of a token, folded in order, give the same bits however the work was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import KernelError
from .items import Row, Segment

CHUNK, FAR, FAR_CHUNK = 512, 16384, 2048
# A piece below SHORTEST costs more in parts than it wins in balance; above LONGEST the last ones run on a device that
# is almost idle. Swept on an H200, bench/results/kernels_attention_sweep.json.
SHORTEST, SHORTEST_WIDE, LONGEST = 128, 256, 1024
# Longer than any row: a piece of this length is a whole segment.
WHOLE = 1 << 30
RANKS = 5


@dataclass(frozen=True, slots=True)
class Cut:
    """How a step is cut. groups: query heads per KV head. narrow, wide: packed rows of a tile of each bin.

    Over all KV heads, narrow segments are cut until there are at least `least` programs, and no coarser than LONGEST;
    wide ones as finely as gives at most `most` programs, what the device holds at once. Exact: whole where that gives
    `least` or `most`, else chunk by chunk. window: 0 for none. parts: most in all. counts: most items of each bin.
    More query heads than a narrow tile holds, up to those of a wide one, are all wide. page: its slots, where segments
    are to be refused that start inside one; attention in checked mode looks for them whatever the cut says.
    """

    groups: int
    kv_heads: int
    least: int = 198
    most: int = 132
    narrow: int = 16
    wide: int = 128
    window: int = 0
    exact: bool = False
    parts: int = 1 << 16
    counts: tuple[int, int] = (1 << 20, 1 << 20)
    page: int = 1

    def tokens(self, wide: bool) -> int:
        return (self.wide if wide else self.narrow) // self.groups

    def is_wide(self, tokens: int) -> bool:
        return tokens * self.groups > self.narrow

    def tiles(self, work: Visible) -> int:
        tokens = work.q_end - work.q_begin
        return -(-tokens // self.tokens(self.is_wide(tokens)))


@dataclass(frozen=True, slots=True)
class Visible:
    """A segment with what its tokens can see of it."""

    index: int
    segment: Segment
    q_begin: int
    q_end: int
    slot_begin: int
    slot_end: int
    leaf: bool

    def pieces(self, longest: int, exact: bool) -> tuple[tuple[int, int], ...]:
        return _chunked(self, longest) if exact else _even(self, longest)


def chunk_start(slot: int) -> int:
    """The boundary of chunks at or below a slot."""
    return slot // CHUNK * CHUNK if slot < FAR else slot // FAR_CHUNK * FAR_CHUNK


def _even(work: Visible, longest: int) -> tuple[tuple[int, int], ...]:
    length = work.slot_end - work.slot_begin
    if length <= 0:
        return ((work.slot_begin, work.slot_begin),) if work.leaf else ()
    count = -(-length // longest)
    step = -(-length // count // 64) * 64
    return tuple((at, min(at + step, work.slot_end)) for at in range(work.slot_begin, work.slot_end, step))


def _chunked(work: Visible, longest: int) -> tuple[tuple[int, int], ...]:
    at, end = work.slot_begin, work.slot_end
    if at >= end:
        return ((at, at),) if work.leaf else ()
    pieces = []
    if work.segment.parent < 0:
        # The first part of every token below: it starts where nothing visible lies before, so it may be folded on.
        stop = end if at + longest >= end else min(max(chunk_start(at + longest), _chunk_end(at)), end)
        pieces, at = [(at, stop)], stop
    while at < end:
        pieces.append((at, min(_chunk_end(at), end)))
        at = _chunk_end(at)
    return tuple(pieces)


def _chunk_end(slot: int) -> int:
    return chunk_start(slot) + (CHUNK if slot < FAR else FAR_CHUNK)


def _first_visible(row: Row, window: int) -> int:
    """Of the row's first token. A draft token lies at most draft_len above its position."""
    return max(0, row.kv_len - row.q_len + 1 - window - row.draft_len) if window else 0


def visible_of(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> list[Visible]:
    followed = {segment.parent for segment in segments}
    found = []
    for index, segment in enumerate(segments):
        below = rows[segment.row_begin : segment.row_end]
        leaf = index not in followed
        begin, end = segment.slot_begin, segment.slot_end
        if cut.exact:
            begin, end = chunk_start(begin), end if leaf else chunk_start(end)
        begin = max(begin, min(_first_visible(row, cut.window) for row in below))
        if cut.exact:
            begin = chunk_start(begin)
        found.append(Visible(index, segment, below[0].q_begin, below[-1].q_end, begin, end, leaf))
    return found


def check_groups(cut: Cut) -> None:
    if not 1 <= cut.groups <= cut.wide:
        raise KernelError(f"{cut.groups} query heads share a KV head, a tile holds 1 to {cut.wide} of them")


def rank(length: int, longest: int) -> int:
    """How late work of this length starts among work of at most `longest`."""
    return min(max(longest - length, 0) * RANKS // max(longest, 1), RANKS - 1)


def _programs(work: Sequence[Visible], cut: Cut, longest: int) -> int:
    """In fast mode as many as there would be if pieces ended anywhere: a few more, perhaps."""
    def pieces(w: Visible) -> int:
        if cut.exact or w.slot_end <= w.slot_begin:
            return len(w.pieces(longest, cut.exact))
        return -(-(w.slot_end - w.slot_begin) // longest)

    return cut.kv_heads * sum(cut.tiles(w) * pieces(w) for w in work)


def longest_of(work: Sequence[Visible], cut: Cut, wide: bool) -> int:
    """The length of pieces that suits the device: programs become fewer as pieces become longer."""
    mine = [w for w in work if cut.is_wide(w.q_end - w.q_begin) == wide]
    if cut.exact:
        return WHOLE if _programs(mine, cut, WHOLE) >= (cut.most if wide else cut.least) else CHUNK
    if wide:
        return _shortest(mine, cut)
    low, high = SHORTEST // 64, LONGEST // 64 + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _programs(mine, cut, middle * 64) >= cut.least else (low, middle)
    return low * 64


def _shortest(mine: Sequence[Visible], cut: Cut) -> int:
    """Of wide pieces, those that give at most `most` programs; whole segments where these are more."""
    low, high = SHORTEST_WIDE // 64 - 1, max((-(-(w.slot_end - w.slot_begin) // 64) for w in mine), default=0)
    high = max(high, SHORTEST_WIDE // 64)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _programs(mine, cut, middle * 64) <= cut.most else (middle, high)
    return high * 64
