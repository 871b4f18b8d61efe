"""Which rows of a step read the same pages, as the forest that attention on a GPU walks. Plain ints.

A page that two rows have at the same place holds the same tokens, and so do all pages before it: the tree is the only
owner of pages that rows share. So the forest is in the block tables: rows sorted by their pages stand in depth-first
order, and what neighbours have in common is the depth at which they part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..kernels import items
from .plan import Row

# Swept on an H200 in steps of Llama-3-8B's shape, bench/results/engine_gpu_sweep.json.
LEAST, LEAST_WIDE = 512, 20_000


@dataclass(frozen=True, slots=True)
class Worth:
    """When a prefix is read once. tile: tokens that read together; those of one row do so anyway, so that long rows
    gain nothing. few: more tokens than that are wide work, which a step of few tokens else has none of, and which costs
    it 0.4 ms. least: slots a segment must save, times the tiles that need not read them; wide: all wide ones together.
    """

    tile: int
    few: int
    least: int = LEAST
    wide: int = LEAST_WIDE

    def saved(self, tokens: Sequence[int]) -> int:
        """Tiles that need not read what these rows share."""
        return sum(-(-count // self.tile) for count in tokens) - -(-sum(tokens) // self.tile)


@dataclass(frozen=True, slots=True)
class Forest:
    """order: the rows of the plan, depth first. rows, segments: as `kernels.items` wants them, in that order."""

    order: tuple[int, ...]
    rows: tuple[items.Row, ...]
    segments: tuple[items.Segment, ...]


def forest(rows: Sequence[Row], slots: Sequence[int], page: int, worth: Worth) -> Forest:
    """slots: the block table of each row."""
    order = sorted(range(len(rows)), key=lambda index: rows[index].pages)
    shared = [_common(rows[one], rows[other], page) for one, other in pairwise(order)]
    tokens = [len(rows[index].tokens) for index in order]
    segments, leaf, wide = _segments(shared, tokens, page, worth, True)
    if wide < worth.wide and max(tokens) <= worth.few:
        segments, leaf, _ = _segments(shared, tokens, page, worth, False)
    return _ended(order, rows, slots, segments, leaf)


def apart(rows: Sequence[Row], slots: Sequence[int]) -> Forest:
    """Every row a tree of its own."""
    count = len(rows)
    segments = [items.Segment(0, 0, index, index + 1, -1, 0) for index in range(count)]
    return _ended(range(count), rows, slots, segments, range(count))


def grown(before: Forest, rows: Sequence[Row], slots: Sequence[int]) -> Forest:
    """The forest of the same rows, of which each only got longer, in pages of its own."""
    leaf = [row.segment for row in before.rows]
    return _ended(before.order, rows, slots, before.segments, leaf)


def _ended(
    order: Sequence[int], rows: Sequence[Row], slots: Sequence[int], segments: Sequence[items.Segment],
    leaf: Sequence[int],
) -> Forest:
    """Rows with their tokens; segments that end where their row does, and name the block tables they read."""
    found, ends, begin = [], [segment.slot_end for segment in segments], 0
    for place, index in enumerate(order):
        row = rows[index]
        count = len(row.tokens)
        ends[leaf[place]] = row.start + count
        found.append(items.Row(slots[index], begin, count, row.start + count, 0, 0, leaf[place]))
        begin += count
    done = tuple(
        items.Segment(segment.slot_begin, end, segment.row_begin, segment.row_end, segment.parent,
                      found[segment.row_begin].slot)
        for segment, end in zip(segments, ends, strict=True))
    return Forest(tuple(order), tuple(found), done)


def _common(one: Row, other: Row, page: int) -> int:
    """Full pages that both rows have, and neither writes."""
    high = min(one.start, other.start) // page
    low = 0
    while low < high:  # the longest common beginning, by slices
        middle = (low + high + 1) // 2
        if one.pages[low:middle] == other.pages[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _segments(
    shared: Sequence[int], tokens: Sequence[int], page: int, worth: Worth, wide: bool
) -> tuple[list[items.Segment], list[int], int]:
    """In pre-order, the segment in which each row ends, and what wide segments save. shared: pages that a row has in
    common with the next. wide: whether there may be wide ones."""
    segments: list[items.Segment] = []
    leaf, spared = [0] * (len(shared) + 1), 0
    waiting = [(0, len(leaf), 0, -1)]  # rows [first, last) below `parent`, which ends at page `begin`
    while waiting:
        first, last, begin, parent = waiting.pop()
        if last - first == 1:
            leaf[first] = len(segments)
            segments.append(items.Segment(begin * page, begin * page, first, last, parent, 0))
            continue
        depth = min(shared[first:last - 1])
        cuts = [first, *(at + 1 for at in range(first, last - 1) if shared[at] == depth), last]
        is_wide = sum(tokens[first:last]) > worth.few
        saved = (depth - begin) * page * worth.saved(tokens[first:last])
        if saved >= worth.least and (wide or not is_wide):
            spared += saved if is_wide else 0
            segments.append(items.Segment(begin * page, depth * page, first, last, parent, 0))
            begin, parent = depth, len(segments) - 1
        waiting += [(a, b, begin, parent) for a, b in reversed(list(pairwise(cuts)))]
    return segments, leaf, spared
