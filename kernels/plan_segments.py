"""What is visible of a step's segments, on the device, and whether rows and segments keep the contract of `planner`."""

from __future__ import annotations

from .jit import Arg, constexpr, jit, tl
from .plan_cut import chunk, chunk_begin


@jit
def _record(pointer: Arg, at: Arg, inside: Arg, N: constexpr) -> Arg:
    """The eight fields of each record, by two loads of 16 bytes."""
    block = tl.load(pointer + at[:, None] * 8 + tl.arange(0, 8)[None, :], mask=inside[:, None], other=0)
    even, odd = tl.split(tl.reshape(block, [N, 2, 2, 2]))
    f04, f26 = tl.split(even)
    f15, f37 = tl.split(odd)
    f0, f4 = tl.split(f04)
    f1, f5 = tl.split(f15)
    f2, f6 = tl.split(f26)
    f3, f7 = tl.split(f37)
    return f0, f1, f2, f3, f4, f5, f6, f7


@jit
def _first_seen(rows: Arg, row_begin: Arg, row_end: Arg, n_rows: Arg, window: Arg, N: constexpr) -> Arg:
    """The first slot that any row below a segment sees."""
    low = tl.full([N], 1 << 30, tl.int32)
    at = n_rows * 0
    while at < n_rows:
        row = at + tl.arange(0, 8)
        record = rows + row * 8
        seen = tl.load(record + 3, mask=row < n_rows, other=0) + 1 - window
        seen -= tl.load(record + 2, mask=row < n_rows, other=0) + tl.load(record + 5, mask=row < n_rows, other=0)
        below = (row[None, :] >= row_begin[:, None]) & (row[None, :] < row_end[:, None])
        low = tl.minimum(low, tl.min(tl.where(below, seen[None, :], 1 << 30), 1))
        at += 8
    return tl.maximum(low, 0)


@jit
def _faults(
    rows: Arg, segments: Arg, slot_begin: Arg, slot_end: Arg, parent: Arg, count: Arg, page: Arg,
    ROWS: constexpr, SEGMENTS: constexpr,
) -> Arg:
    """How often rows and segments break the contract, as planner._check finds it."""
    s, r = tl.arange(0, SEGMENTS), tl.arange(0, ROWS)
    above = tl.gather(slot_end, tl.maximum(tl.minimum(parent, s), 0), 0)
    wrong = (parent < -1) | (parent >= s) | ((parent >= 0) & (above != slot_begin)) | (slot_begin % page != 0)
    _, q_begin, _, kv_len, _, draft_len, segment, _ = _record(rows, r, r < count, ROWS)
    earlier = rows + (r - 1) * 8
    behind = (r > 0) & (r < count)
    q_end = tl.load(earlier + 1, mask=behind, other=0) + tl.load(earlier + 2, mask=behind, other=0)
    inside = (r < count) & (segment >= 0) & (segment < SEGMENTS)
    leaf = segments + segment * 8
    unlike = (tl.load(leaf + 2, mask=inside, other=-1) != r) | (tl.load(leaf + 3, mask=inside, other=-1) != r + 1)
    unlike |= tl.load(leaf + 1, mask=inside, other=-1) != kv_len
    unlike |= (behind & (q_begin != q_end)) | (draft_len > 64)
    return tl.sum(wrong.to(tl.int32), 0) + tl.sum((unlike & (r < count)).to(tl.int32), 0)


@jit
def segments_of(
    rows: Arg, segments: Arg, n_rows: Arg, n_segments: Arg, window: Arg, page: Arg,
    N: constexpr, EXACT: constexpr, WINDOW: constexpr, CHECKED: constexpr, ROWS: constexpr,
) -> Arg:
    """Each segment with its tokens and what they can see of it, and the record of its first row."""
    s = tl.arange(0, N)
    slot_begin, slot_end, row_begin, row_end, parent, representative, _, _ = _record(segments, s, s < n_segments, N)
    there = row_end > row_begin
    parent = tl.where(there, parent, -1)
    faults = 0 * n_segments
    if CHECKED:
        faults = _faults(rows, segments, slot_begin, slot_end, parent, tl.max(row_end, 0), page, ROWS, N)
    # No way up ever turns back, whatever the tensor says.
    parent = tl.where(parent < s, parent, -1)
    row = _record(rows, row_begin, there, N)
    leaf = there & (row[6] == s)
    final = rows + (row_end - 1) * 8
    q_end = tl.load(final + 1, mask=there, other=0) + tl.load(final + 2, mask=there, other=0)
    begin, end = slot_begin, slot_end
    if EXACT:
        begin, end = chunk_begin(chunk(begin)), tl.where(leaf, end, chunk_begin(chunk(end)))
    if WINDOW:
        begin = tl.maximum(begin, _first_seen(rows, row_begin, row_end, n_rows, window, N))
        if EXACT:
            begin = chunk_begin(chunk(begin))
    return begin, end, q_end, row_begin, tl.max(row_end, 0), parent, representative, leaf, row, faults
