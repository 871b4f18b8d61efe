"""The work of one attention step: what is visible, cut into items.

A step is a forest. Its rows stand in depth-first order, so that the rows below a segment are a range, and so are their
tokens. A segment is a run of slots that all of them read; the pages are the same, the block table of any one of them
(the representative) names them. Every row ends in a segment of its own.

    segment 0   slots [0, 8192)      rows [0, 3)      read once for three rows
    segment 1   slots [8192, 8450)   row 0
    segment 2   slots [8192, 9000)   rows [1, 3)
    segment 3   slots [9000, 9017)   row 1
    segment 4   slots [9000, 9300)   row 2

An item is a tile of tokens x a range of slots; each KV head makes it a program of its own. Segments of few packed rows
(tokens * query heads per KV head) fill the narrow bin, the others the wide one. A segment is cut into the same pieces
for all its tokens, so a token has as many parts as its path has pieces, numbered in the order of their slots. A token
of one part is written at once; parts of the others go to [part_begin[t], part_begin[t + 1]) and are merged.

Exact: a segment that others follow ends at the boundary of a chunk, the rest belongs to those that follow; the first
piece of a path may hold many chunks, every later one holds one. So each part is either a left fold from slot 0 or one
chunk, and the parts of a token, folded in order, give the same bits however the work was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import KernelError

FIRST, DRAFT, DIRECT = 1, 2, 4
CHUNK, FAR, FAR_CHUNK = 512, 16384, 2048
# A piece below SHORTEST costs more in parts than it wins in balance; above LONGEST the last ones run on a device that
# is almost idle. Swept on an H200, bench/results/kernels_attention.json.
SHORTEST, SHORTEST_WIDE, LONGEST = 128, 256, 1024


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence: tokens [q_begin, q_begin + q_len) are its last q_len slots of kv_len; `slot` is its block table.

    At most 64 consecutive slots [draft_begin, draft_begin + draft_len) are seen by the bits of each token.
    """

    slot: int
    q_begin: int
    q_len: int
    kv_len: int
    draft_begin: int
    draft_len: int
    segment: int

    @property
    def q_end(self) -> int:
        return self.q_begin + self.q_len

    def packed(self) -> tuple[int, ...]:
        return (self.slot, self.q_begin, self.q_len, self.kv_len, self.draft_begin, self.draft_len, self.segment, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """Slots [slot_begin, slot_end), read by rows [row_begin, row_end). parent: -1 at a root."""

    slot_begin: int
    slot_end: int
    row_begin: int
    row_end: int
    parent: int
    representative: int

    def packed(self) -> tuple[int, ...]:
        return (self.slot_begin, self.slot_end, self.row_begin, self.row_end, self.parent, self.representative, 0, 0)


@dataclass(frozen=True, slots=True)
class Item:
    """Tokens [q_begin, q_end) over slots [slot_begin, slot_end). flags: FIRST, DRAFT, DIRECT."""

    segment: int
    representative: int
    q_begin: int
    q_end: int
    slot_begin: int
    slot_end: int
    part_ord: int
    flags: int

    def packed(self) -> tuple[int, ...]:
        return (self.segment, self.representative, self.q_begin, self.q_end, self.slot_begin, self.slot_end,
                self.part_ord, self.flags)


@dataclass(frozen=True, slots=True)
class Cut:
    """How a step is cut. groups: query heads per KV head. narrow, wide: packed rows of a tile of each bin.

    Over all KV heads, narrow segments are cut until there are at least `least` programs, and no coarser than LONGEST;
    wide ones as finely as gives at most `most` programs, what the device holds at once. Exact: whole where that gives
    `least` or `most`, else chunk by chunk. window: 0 for none. parts: most in all.
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

    def tokens(self, wide: bool) -> int:
        return (self.wide if wide else self.narrow) // self.groups

    def is_wide(self, tokens: int) -> bool:
        return tokens * self.groups > self.narrow


@dataclass(frozen=True, slots=True)
class Plan:
    """items of each bin, longest first. part_begin: [tokens + 1]."""

    narrow: tuple[Item, ...]
    wide: tuple[Item, ...]
    part_begin: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Work:
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


def _even(work: _Work, longest: int) -> tuple[tuple[int, int], ...]:
    length = work.slot_end - work.slot_begin
    if length <= 0:
        return ((work.slot_begin, work.slot_begin),) if work.leaf else ()
    count = -(-length // longest)
    step = -(-length // count // 64) * 64
    return tuple((at, min(at + step, work.slot_end)) for at in range(work.slot_begin, work.slot_end, step))


def _chunked(work: _Work, longest: int) -> tuple[tuple[int, int], ...]:
    at, end = work.slot_begin, work.slot_end
    if at >= end:
        return ((at, at),) if work.leaf else ()
    pieces = []
    if work.segment.parent < 0:
        # The first part of every token below: it starts where nothing visible lies before, so it may be folded on.
        stop = end if at + longest >= end else max(chunk_start(at + longest), _chunk_end(at))
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


def _work(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> list[_Work]:
    followed = {segment.parent for segment in segments}
    found = []
    for index, segment in enumerate(segments):
        below = rows[segment.row_begin : segment.row_end]
        leaf = index not in followed
        begin, end = segment.slot_begin, min(segment.slot_end, max(row.kv_len for row in below))
        if cut.exact:
            begin, end = chunk_start(begin), end if leaf else chunk_start(end)
        begin = max(begin, min(_first_visible(row, cut.window) for row in below))
        if cut.exact:
            begin = chunk_start(begin)
        found.append(_Work(index, segment, below[0].q_begin, below[-1].q_end, begin, end, leaf))
    return found


def _check(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> None:
    if not 1 <= cut.groups <= cut.wide:
        raise KernelError(f"{cut.groups} query heads per KV head, a tile holds {cut.wide}")
    for index, row in enumerate(rows):
        leaf = segments[row.segment]
        if (leaf.row_begin, leaf.row_end) != (index, index + 1) or leaf.slot_end != row.kv_len:
            raise KernelError(f"row {index} does not end in a segment of its own")
        if index and row.q_begin != rows[index - 1].q_end:
            raise KernelError(f"the tokens of row {index} do not follow those of the row before")
        if row.draft_len > 64:
            raise KernelError(f"row {index}: a draft region has at most 64 slots, not {row.draft_len}")


def _programs(work: Sequence[_Work], cut: Cut, wide: bool, longest: int) -> int:
    tiles = (-(-(w.q_end - w.q_begin) // cut.tokens(wide)) * len(w.pieces(longest, cut.exact)) for w in work)
    return cut.kv_heads * sum(tiles)


def _longest(work: Sequence[_Work], cut: Cut, wide: bool) -> int:
    """The length of pieces that suits the device: programs become fewer as pieces become longer."""
    mine = [w for w in work if cut.is_wide(w.q_end - w.q_begin) == wide]
    whole = max((-(-(w.slot_end - w.slot_begin) // 64) for w in mine), default=1) * 64
    if cut.exact:
        return whole if _programs(mine, cut, wide, whole) >= (cut.most if wide else cut.least) else CHUNK
    if wide:
        return _shortest(mine, cut, whole)
    low, high = SHORTEST // 64, max(whole, SHORTEST) // 64 + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _programs(mine, cut, wide, middle * 64) >= cut.least else (low, middle)
    return min(low * 64, LONGEST)


def _shortest(mine: Sequence[_Work], cut: Cut, whole: int) -> int:
    """Of wide pieces, those that give at most `most` programs; whole segments where these are more."""
    low, high = SHORTEST_WIDE // 64 - 1, max(whole, SHORTEST_WIDE) // 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _programs(mine, cut, True, middle * 64) <= cut.most else (middle, high)
    return high * 64


def _parts(rows: Sequence[Row], segments: Sequence[Segment], pieces: Sequence[Sequence[object]]) -> list[int]:
    """Per row, how many parts its tokens have."""
    counts = []
    for row in rows:
        count, at = 0, row.segment
        while at >= 0:
            count, at = count + len(pieces[at]), segments[at].parent
        counts.append(count)
    return counts


def plan(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> Plan:
    """Every (token, visible slot) in exactly one item. Raises KernelError when rows or segments break the contract."""
    _check(rows, segments, cut)
    work = _work(rows, segments, cut)
    longest = {wide: _longest(work, cut, wide) for wide in (False, True)}
    while True:
        pieces = [w.pieces(longest[cut.is_wide(w.q_end - w.q_begin)], cut.exact) for w in work]
        counts = _parts(rows, segments, pieces)
        total = sum(row.q_len * count for row, count in zip(rows, counts, strict=True) if count > 1)
        if total <= cut.parts:
            break
        if max(longest.values()) > max((row.kv_len for row in rows), default=0):
            raise KernelError(f"{total} parts are needed, there is room for {cut.parts}: fewer tokens or fewer levels")
        longest = {wide: length * 2 for wide, length in longest.items()}
    begin = [0]
    for row, count in zip(rows, counts, strict=True):
        for _ in range(row.q_len):
            begin.append(begin[-1] + (count if count > 1 else 0))
    bins = _items(rows, segments, work, pieces, counts, cut)
    return Plan(bins[False], bins[True], tuple(begin))


def _items(
    rows: Sequence[Row], segments: Sequence[Segment], work: Sequence[_Work],
    pieces: Sequence[Sequence[tuple[int, int]]], counts: Sequence[int], cut: Cut,
) -> dict[bool, tuple[Item, ...]]:
    bins: dict[bool, list[Item]] = {False: [], True: []}
    before = [0] * len(segments)
    for w, cuts in zip(work, pieces, strict=True):
        parent = w.segment.parent
        before[w.index] = before[parent] + len(pieces[parent]) if parent >= 0 else 0
        wide = cut.is_wide(w.q_end - w.q_begin)
        flags = DIRECT if counts[w.segment.row_begin] == 1 else 0
        row = rows[w.segment.row_begin]
        for ordinal, (begin, end) in enumerate(cuts, before[w.index]):
            draft = w.leaf and row.draft_begin < end and row.draft_begin + row.draft_len > begin
            kind = flags | (FIRST if ordinal == 0 else 0) | (DRAFT if draft else 0)
            for at in range(w.q_begin, w.q_end, cut.tokens(wide)):
                stop = min(at + cut.tokens(wide), w.q_end)
                # A leaf is causal: its earlier tokens see less of it.
                seen = row.kv_len - (row.q_end - stop) if w.leaf else end
                bins[wide].append(Item(
                    w.index, w.segment.representative, at, stop, begin, max(begin, min(end, seen)), ordinal, kind,
                ))
    return {wide: tuple(sorted(found, key=lambda item: item.slot_begin - item.slot_end))
            for wide, found in bins.items()}
