"""A step planned in plain ints, which is the reference: `plan_items` does the same on the device.

The order of a bin is one that a single program finds without a sort: by segment, those of long pieces first (`rank`),
then piece by piece, the last tile first, which in a causal segment is the longest.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from .base import KernelError
from .cut import WHOLE, Cut, Visible, check_groups, longest_of, rank, visible_of
from .items import DIRECT, DRAFT, FIRST, Item, Plan, Row, Segment


class NoRoom(KernelError):
    """However coarsely it is cut, a step has more parts or items than there is room for."""


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
    work = visible_of(rows, segments, cut)
    longest = {wide: longest_of(work, cut, wide) for wide in (False, True)}
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
    rows: Sequence[Row], segments: Sequence[Segment], work: Sequence[Visible],
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
    w: Visible, cuts: Sequence[tuple[int, int]], row: Row, before: int, direct: bool, cut: Cut,
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
