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

Here a step is planned in plain ints, which is the reference; `plan_items` does the same on the device. The order of a
bin is one that a single program finds without a sort: by segment, those of long pieces first (`rank`), then piece by
piece, the last tile first, which in a causal segment is the longest.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .base import KernelError

FIRST, DRAFT, DIRECT = 1, 2, 4
CHUNK, FAR, FAR_CHUNK = 512, 16384, 2048
# A piece below SHORTEST costs more in parts than it wins in balance; above LONGEST the last ones run on a device that
# is almost idle. Swept on an H200, bench/results/kernels_attention_sweep.json.
SHORTEST, SHORTEST_WIDE, LONGEST = 128, 256, 1024
# Longer than any row: a piece of this length is a whole segment.
WHOLE = 1 << 30
RANKS = 5


class NoRoom(KernelError):
    """However coarsely it is cut, a step has more parts or items than there is room for."""


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

    def tiles(self, work: _Work) -> int:
        tokens = work.q_end - work.q_begin
        return -(-tokens // self.tokens(self.is_wide(tokens)))


@dataclass(frozen=True, slots=True)
class Plan:
    """items of each bin, in the order in which they start. part_begin: [tokens + 1]."""

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


def rank(length: int, longest: int) -> int:
    """How late work of this length starts among work of at most `longest`."""
    return min(max(longest - length, 0) * RANKS // max(longest, 1), RANKS - 1)


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


def _work(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> list[_Work]:
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
        found.append(_Work(index, segment, below[0].q_begin, below[-1].q_end, begin, end, leaf))
    return found


def check_groups(cut: Cut) -> None:
    if not 1 <= cut.groups <= cut.wide:
        raise KernelError(f"{cut.groups} query heads share a KV head, a tile holds 1 to {cut.wide} of them")


def _check(rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> None:
    check_groups(cut)
    for index, row in enumerate(rows):
        leaf = segments[row.segment]
        if (leaf.row_begin, leaf.row_end) != (index, index + 1) or leaf.slot_end != row.kv_len:
            raise KernelError(f"row {index} does not end in a segment of its own")
        if index and row.q_begin != rows[index - 1].q_end:
            raise KernelError(f"the tokens of row {index} do not follow those of the row before")
        if row.draft_len > 64:
            raise KernelError(f"row {index}: a draft region has at most 64 slots, not {row.draft_len}")
    for index, segment in enumerate(segments):
        above = segments[segment.parent] if 0 <= segment.parent < index else None
        if segment.parent != -1 and (above is None or above.slot_end != segment.slot_begin):
            raise KernelError(f"segment {index} does not begin where its parent, which comes before it, ends")
        if segment.slot_begin % cut.page:
            raise KernelError(
                f"segment {index} starts at slot {segment.slot_begin}, inside a page of {cut.page}: let that above end"
                " where the page begins, and give each of those below a copy")


def _programs(work: Sequence[_Work], cut: Cut, longest: int) -> int:
    """In fast mode as many as there would be if pieces ended anywhere: a few more, perhaps."""
    def pieces(w: _Work) -> int:
        if cut.exact or w.slot_end <= w.slot_begin:
            return len(w.pieces(longest, cut.exact))
        return -(-(w.slot_end - w.slot_begin) // longest)

    return cut.kv_heads * sum(cut.tiles(w) * pieces(w) for w in work)


def _longest(work: Sequence[_Work], cut: Cut, wide: bool) -> int:
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


def _shortest(mine: Sequence[_Work], cut: Cut) -> int:
    """Of wide pieces, those that give at most `most` programs; whole segments where these are more."""
    low, high = SHORTEST_WIDE // 64 - 1, max((-(-(w.slot_end - w.slot_begin) // 64) for w in mine), default=0)
    high = max(high, SHORTEST_WIDE // 64)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _programs(mine, cut, middle * 64) <= cut.most else (middle, high)
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
        items = [sum(cut.tiles(w) * len(cuts) for w, cuts in zip(work, pieces, strict=True)
                     if cut.is_wide(w.q_end - w.q_begin) == wide) for wide in (False, True)]
        if total <= cut.parts and all(map(operator.le, items, cut.counts)):
            break
        if min(longest.values()) > max((row.kv_len for row in rows), default=0):
            raise NoRoom(f"{total} parts and {items} items are needed, there is room for {cut.parts} and "
                         f"{list(cut.counts)}: fewer tokens or fewer levels")
        longest = {wide: min(length * 2, WHOLE) for wide, length in longest.items()}
    begin = [0]
    for row, count in zip(rows, counts, strict=True):
        for _ in range(row.q_len):
            begin.append(begin[-1] + (count if count > 1 else 0))
    bins = _items(rows, segments, work, pieces, counts, cut, longest)
    return Plan(bins[False], bins[True], tuple(begin))


def _items(
    rows: Sequence[Row], segments: Sequence[Segment], work: Sequence[_Work],
    pieces: Sequence[Sequence[tuple[int, int]]], counts: Sequence[int], cut: Cut,
    longest: dict[bool, int],
) -> dict[bool, tuple[Item, ...]]:
    bins: dict[bool, list[Item]] = {False: [], True: []}
    wides = [cut.is_wide(w.q_end - w.q_begin) for w in work]
    before = [0] * len(segments)
    for w in work:
        parent = w.segment.parent
        before[w.index] = before[parent] + len(pieces[parent]) if parent >= 0 else 0
    bound = {wide: min(length, max(row.kv_len for row in rows)) for wide, length in longest.items()}
    first = [cuts[0][1] - cuts[0][0] if cuts else 0 for cuts in pieces]
    for w in sorted(work, key=lambda w: rank(first[w.index], bound[wides[w.index]])):
        row = rows[w.segment.row_begin]
        bins[wides[w.index]] += _items_of(
            w, pieces[w.index], row, before[w.index], counts[w.segment.row_begin] == 1, cut)
    return {wide: tuple(found) for wide, found in bins.items()}


def _items_of(
    w: _Work, cuts: Sequence[tuple[int, int]], row: Row, before: int, direct: bool, cut: Cut,
) -> Iterator[Item]:
    """before: the parts of the segments above. row: the first of those below."""
    tokens = cut.tokens(cut.is_wide(w.q_end - w.q_begin))
    for ordinal, (begin, end) in enumerate(cuts, before):
        draft = w.leaf and row.draft_begin < end and row.draft_begin + row.draft_len > begin
        flags = (DIRECT if direct else 0) | (FIRST if ordinal == 0 else 0) | (DRAFT if draft else 0)
        for at in reversed(range(w.q_begin, w.q_end, tokens)):
            stop = min(at + tokens, w.q_end)
            # A leaf is causal: its earlier tokens see less of it.
            seen = row.kv_len - (row.q_end - stop) if w.leaf else end
            yield Item(w.index, w.segment.representative, at, stop, begin, max(begin, min(end, seen)), ordinal, flags)
