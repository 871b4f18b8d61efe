"""A step planned on the device: rows and segments become the items that paged attention works through.

plan_items(rows, segments, cut, work, error) -> None
    rows: [rows, 8], segments: [segments, 8] int32, the records of `items`, those in use first, zeros after them. cut:
    sizes and mode. work: made by `Work.room`, on the device of rows; there are no more parts and items than it has room
    for, nor than cut allows.
    Effect: writes work.items, work.n_items and work.part_begin (a token after those of the last row has no parts) as
    `planner.plan` makes them. Where that cannot be, no items are written, and error ([1] int32, untouched otherwise)
    gets a code of `checked`: ROOM, or, where the device is asked to look for it, FOREST.

One program, without a sort and without the host: a captured graph is replayed over other rows. A tree in pre-order is
laid flat by sums: the parts above a segment come from its ancestors by doubling, the order of segments by counting how
many there are of each rank, the segment of an item and the row of a token by search in the sums of their counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from .base import FLOATS, Implementation, KernelError
from .checked import FOREST, ROOM, require
from .cut import Cut, check_groups
from .items import Row, Segment
from .jit import Arg, constexpr, jit, next_power_of_2, tl
from .paged import Work
from .plan_cut import above_of, chunk, chunk_begin, longest_of, pieces_of, place, quotient, search
from .plan_segments import segments_of
from .planner import NoRoom, plan

# What a segment and a row leave in memory for the second half of the kernel, in words.
KEPT, ROW_KEPT = 14, 2
BLOCK, WARPS = 256, 8
# Where it checks: without a bound the assembler settles at 48 for few rows, and spills.
REGISTERS = 128


def reference(rows: torch.Tensor, segments: torch.Tensor, cut: Cut, work: Work, error: torch.Tensor) -> None:
    """Reads the tensors, plans in plain ints, writes them back."""
    check(rows, segments, cut)
    cut = _fitting(cut, work)
    forest = [Segment(*record[:6]) for record in segments.tolist() if record[3] > record[2]]
    count = max((segment.row_end for segment in forest), default=0)
    work.n_items.zero_()
    work.part_begin.zero_()
    try:
        made = plan([Row(*record[:7]) for record in rows[:count].tolist()], forest, cut)
    except KernelError as fault:
        error.clamp_(min=ROOM if isinstance(fault, NoRoom) else FOREST)
        return
    for bin_, found in enumerate((made.narrow, made.wide)):
        work.n_items[bin_] = len(found)
        for index, item in enumerate(found):
            work.items[bin_, index] = torch.tensor(item.packed(), dtype=torch.int32)
    begin = torch.tensor(made.part_begin, dtype=torch.int32)
    work.part_begin[: len(begin)] = begin
    work.part_begin[len(begin) :] = made.part_begin[-1]


@jit
def _joined(f0: Arg, f1: Arg, f2: Arg, f3: Arg, f4: Arg, f5: Arg, f6: Arg, f7: Arg, N: constexpr) -> Arg:
    even = tl.join(tl.join(f0, f4), tl.join(f2, f6))
    odd = tl.join(tl.join(f1, f5), tl.join(f3, f7))
    return tl.reshape(tl.join(even, odd), [N, 8])


@jit
def _keep(
    kept: Arg, place: Arg, n: Arg, representative: Arg, q_begin: Arg, q_end: Arg, begin: Arg, end: Arg, size: Arg,
    tiles: Arg, flags: Arg, above: Arg, sight: Arg, N: constexpr,
) -> None:
    """What `_write_items` reads of a segment, N words apart."""
    at = kept + place
    tl.store(at, n)
    tl.store(at + N, tl.arange(0, N))
    tl.store(at + N * 2, representative)
    tl.store(at + N * 3, q_begin)
    tl.store(at + N * 4, q_end)
    tl.store(at + N * 5, begin)
    tl.store(at + N * 6, end)
    tl.store(at + N * 7, size)
    tl.store(at + N * 8, tiles)
    tl.store(at + N * 9, flags)
    tl.store(at + N * 10, above)
    tl.store(at + N * 11, sight[0])
    tl.store(at + N * 12, sight[1])
    tl.store(at + N * 13, sight[2])


@jit
def _write_items(
    items: Arg, record: Arg, total: Arg, narrow: Arg, room: Arg,
    G: constexpr, NARROW: constexpr, WIDE: constexpr, EXACT: constexpr, N: constexpr, LOG_N: constexpr,
    BLOCK: constexpr,
) -> None:
    """Item i of all belongs to the first segment, in their order, whose items end after it."""
    at = total * 0
    while at < total:
        i = at + tl.arange(0, BLOCK)
        inside = i < total
        rank = search(record, i, N, 1, 0, LOG_N)
        k = i - tl.load(record + rank - 1, mask=rank > 0, other=0)
        f = record + N + rank
        q_begin, q_end = tl.load(f + N * 2, mask=inside, other=0), tl.load(f + N * 3, mask=inside, other=0)
        begin, end = tl.load(f + N * 4, mask=inside, other=0), tl.load(f + N * 5, mask=inside, other=0)
        size, tiles = tl.load(f + N * 6, mask=inside, other=64), tl.load(f + N * 7, mask=inside, other=1)
        flags, above = tl.load(f + N * 8, mask=inside, other=0), tl.load(f + N * 9, mask=inside, other=0)
        wide, tokens = flags >= 8, tl.where(flags >= 8, WIDE // G, NARROW // G)
        piece = quotient(k, tiles)
        first = q_begin + (tiles - 1 - (k - piece * tiles)) * tokens
        stop = tl.minimum(first + tokens, q_end)
        if EXACT:
            number = chunk(size) + piece
            slot, last = tl.where(piece > 0, chunk_begin(number - 1), begin), tl.where(
                piece > 0, tl.minimum(chunk_begin(number), end), size)
        else:
            slot = begin + piece * size
            last = tl.minimum(slot + size, end)
        last = tl.maximum(slot, last)
        drafted = (tl.load(f + N * 11, mask=inside, other=0) < last) & (
            tl.load(f + N * 12, mask=inside, other=0) > slot)
        kind = (flags & 4) | tl.where(above + piece == 0, 1, 0) | tl.where(drafted, 2, 0)
        seen = stop + tl.load(f + N * 10, mask=inside, other=0)
        block = _joined(
            tl.load(f, mask=inside, other=0), tl.load(f + N, mask=inside, other=0), first, stop, slot,
            tl.maximum(slot, tl.minimum(last, seen)), above + piece, kind, BLOCK,
        )
        place = tl.where(wide, room + i - narrow, i) * 8
        tl.store(items + place[:, None] + tl.arange(0, 8)[None, :], block, mask=inside[:, None])
        at += BLOCK


@jit
def _write_parts(
    part_begin: Arg, rows: Arg, row_record: Arg, tokens: Arg, count: Arg,
    ROWS: constexpr, LOG_ROWS: constexpr, BLOCK: constexpr,
) -> None:
    """A token's row is the last that begins at or before it."""
    at = tokens * 0
    while at < tokens:
        token = at + tl.arange(0, BLOCK)
        # Of the rows after the first: how many begin at or before the token.
        row = search(rows + 8, token, count - 1, 8, 1, LOG_ROWS)
        into = tl.minimum(token - tl.load(rows + row * 8 + 1), tl.load(rows + row * 8 + 2))
        value = tl.load(row_record + row) + into * tl.load(row_record + ROWS + row)
        tl.store(part_begin + token, value, mask=token < tokens)
        at += BLOCK


@jit
def _tiles(tokens: Arg, EACH: constexpr) -> Arg:
    return (tokens + EACH - 1) // EACH


@jit
def _cut(
    begin: Arg, end: Arg, parent: Arg, leaf: Arg, wide: Arg, tiles: Arg, q_len: Arg, kv_len: Arg,
    least: Arg, most: Arg, parts: Arg, most_narrow: Arg, most_wide: Arg, N: constexpr, EXACT: constexpr,
) -> Arg:
    """Pieces, those above, the size of a piece, parts and items in all, and whether they fit: coarser until they do."""
    root = parent < 0
    narrow, broad = longest_of(begin, end, root, leaf, wide, tiles, least, most, EXACT)
    pieces, above, size = tl.zeros([N], tl.int32), tl.zeros([N], tl.int32), tl.zeros([N], tl.int32)
    longest_row = tl.max(tl.where(leaf, kv_len, 0), 0)
    total, again = longest_row.to(tl.int64), longest_row >= 0
    items, fits = total, again
    used_narrow, used_broad = narrow, broad
    while again:
        used_narrow, used_broad = narrow, broad
        pieces, size = pieces_of(begin, end, root, leaf, tl.where(wide, broad, narrow), EXACT)
        above = above_of(parent, pieces)
        total = tl.sum(tl.where(leaf & (above + pieces > 1), q_len.to(tl.int64) * (above + pieces), 0), 0)
        items = tl.sum((tiles * pieces).to(tl.int64) << tl.where(wide, 32, 0), 0)
        fits = (total <= parts) & ((items & 0xFFFFFFFF) <= most_narrow) & ((items >> 32) <= most_wide)
        again = (fits == 0) & (tl.minimum(narrow, broad) <= longest_row)
        # Twice, and never past cut.WHOLE, which twice would not be a number.
        narrow, broad = tl.minimum(narrow, 1 << 29) * 2, tl.minimum(broad, 1 << 29) * 2
    bounds = tl.minimum(used_narrow, longest_row), tl.minimum(used_broad, longest_row)
    return pieces, above, size, total, items, fits, bounds


@partial(jit, unspecialized=(
    "n_rows", "n_segments", "tokens", "room", "parts", "most_narrow", "most_wide", "least", "most", "window", "page"))
def _plan(
    rows: Arg, segments: Arg, items: Arg, n_items: Arg, part_begin: Arg, error: Arg, kept: Arg,
    n_rows: Arg, n_segments: Arg, tokens: Arg, room: Arg, parts: Arg, most_narrow: Arg, most_wide: Arg, least: Arg,
    most: Arg, window: Arg, page: Arg,
    G: constexpr, NARROW: constexpr, WIDE: constexpr, EXACT: constexpr, WINDOW: constexpr, CHECKED: constexpr,
    ROWS: constexpr, LOG_ROWS: constexpr, N: constexpr, LOG_N: constexpr, BLOCK: constexpr,
) -> None:
    begin, end, q_end, row_begin, count, parent, representative, leaf, row, faults = segments_of(
        rows, segments, n_rows, n_segments, window, page, N, EXACT, WINDOW, CHECKED, ROWS)
    q_begin, q_len, kv_len = row[1], row[2], row[3]
    wide = (q_end - q_begin) * G > NARROW
    tiles = _tiles(q_end - q_begin, WIDE // G)
    if G <= NARROW:
        tiles = tl.where(wide, tiles, _tiles(q_end - q_begin, NARROW // G))
    pieces, above, size, total, both, fits, bounds = _cut(
        begin, end, parent, leaf, wide, tiles, q_len, kv_len, least, most, parts, most_narrow, most_wide, N, EXACT)
    require(fits, error, 6)
    require(faults == 0, error, 7)
    fits = fits & (faults == 0)
    both = tl.where(fits, both, 0)
    n = tl.where(fits, tiles * pieces, 0)
    narrow, made = (both & 0xFFFFFFFF).to(tl.int32), ((both & 0xFFFFFFFF) + (both >> 32)).to(tl.int32)
    tl.store(part_begin + tokens, tl.where(fits, total, 0).to(tl.int32))
    tl.store(n_items, narrow)
    tl.store(n_items + 1, made - narrow)

    first_length = size - begin if EXACT else tl.minimum(size, end - begin)
    flags = tl.where(wide, 8, 0) | tl.where(leaf & (above + pieces == 1), 4, 0)
    sight = tl.where(leaf, kv_len - q_end, 1 << 29), tl.where(leaf, row[4], 1 << 30), row[4] + row[5]
    of_row = kept + 14 * N
    parts_each = tl.where(fits & (above + pieces > 1), above + pieces, 0)
    tl.store(of_row + ROWS + row_begin, parts_each, mask=leaf)
    _keep(kept, place(wide, first_length, bounds[0], bounds[1]), n, representative, q_begin, q_end, begin, end, size,
          tiles, flags, above, sight, N)
    tl.debug_barrier()
    s, r = tl.arange(0, N), tl.arange(0, ROWS)
    tl.store(kept + s, tl.cumsum(tl.load(kept + s), 0))
    lengths = tl.load(rows + r * 8 + 2, mask=r < count, other=0)
    each = lengths * tl.load(of_row + ROWS + r, mask=r < count, other=0)
    tl.store(of_row + r, tl.cumsum(each, 0) - each)
    tl.debug_barrier()
    _write_items(items, kept, made, narrow, room, G, NARROW, WIDE, EXACT, N, LOG_N, BLOCK)
    _write_parts(part_begin, rows, of_row, tokens, count, ROWS, LOG_ROWS, BLOCK)


def _power(n: int) -> int:
    return max(next_power_of_2(n), 16)


def on_device(
    rows: torch.Tensor, segments: torch.Tensor, cut: Cut, work: Work, error: torch.Tensor, *, checked: bool = False,
) -> None:
    """checked: look for FOREST too. Raises KernelError where sizes do not fit together."""
    check(rows, segments, cut)
    cut = _fitting(cut, work)
    # In items: whole segments are enough at `most` programs in exact mode, and too many above it in fast mode.
    most = -(-cut.most // cut.kv_heads) if cut.exact else cut.most // cut.kv_heads
    # The counts of segments are kept in twelve bits.
    if segments.shape[0] >= 4096:
        raise KernelError(f"{segments.shape[0]} segments in a step, 4,095 can be planned")
    n, n_rows = _power(segments.shape[0]), _power(rows.shape[0])
    kept = torch.empty(KEPT * n + ROW_KEPT * n_rows, dtype=torch.int32, device=rows.device)
    _plan[(1,)](
        rows, segments, work.items, work.n_items, work.part_begin, error, kept, rows.shape[0], segments.shape[0],
        work.part_begin.shape[0] - 1, work.items.shape[1], cut.parts, *cut.counts, -(-cut.least // cut.kv_heads), most,
        cut.window, cut.page, G=cut.groups, NARROW=cut.narrow, WIDE=cut.wide, EXACT=cut.exact,
        WINDOW=cut.window > 0, CHECKED=checked, ROWS=n_rows, LOG_ROWS=n_rows.bit_length() - 1, N=n,
        LOG_N=n.bit_length() - 1, BLOCK=BLOCK, num_warps=WARPS, **({"maxnreg": REGISTERS} if checked else {}),
    )


def _fitting(cut: Cut, work: Work) -> Cut:
    counts = min(cut.counts[0], work.counts[0]), min(cut.counts[1], work.counts[1])
    return replace(cut, parts=min(cut.parts, work.part_o.shape[0]), counts=counts)


def check(rows: torch.Tensor, segments: torch.Tensor, cut: Cut) -> None:
    check_groups(cut)
    if rows.shape[1:] != (8,) or segments.shape[1:] != (8,) or not rows.is_contiguous() or not segments.is_contiguous():
        raise KernelError(f"rows {tuple(rows.shape)} and segments {tuple(segments.shape)} are not lists of 8 words")


IMPLEMENTATIONS = (
    Implementation("plan_items", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("plan_items", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
