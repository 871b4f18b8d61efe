"""Attention over a forest of rows in paged memory: decode, extend and shared prefixes are one op.

attend(q, k, v, step, work, score) -> out
    q: [tokens, q_heads, head_dim]; k, v: one layer of the pool, [pages, kv_heads, page, head_dim], page a power of two,
    the tokens' own keys and values already written. q_heads is a multiple of kv_heads; query head h reads KV head
    h // (q_heads / kv_heads). `step` says what is visible, `work` (made from `items.plan`) how it is cut.
    Returns [tokens, q_heads, head_dim] in q's dtype; zeros for a token that sees nothing.

Visibility: token t sees slot j of its row iff lo <= j <= q_slot[t]; lo = max(0, q_slot[t] + 1 - window). In a draft
region (at most 64 slots) it must have its bit set too, and lo counts from pos[t] (a window is then at least 64). Slots
that nobody sees may hold anything, NaN included. Scores are q . k * scale, then cap * tanh(score / cap) if there is a
cap. A sink is one more score per query head, without a value. 8-bit k and v have a scale per slot and head.

Fast: one accumulator an item. Exact: chunks of items.CHUNK absolute slots (FAR_CHUNK from FAR on), each from a fresh
accumulator, folded in ascending order by the same function that merges parts, and one tile shape for every item: a
token's bits depend on its query and its visible keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from . import merge_parts
from .base import KernelError
from .items import CHUNK
from .jit import INTERPRETED, Arg, constexpr, dot, jit, tl
from .merge_parts import fold, normalized
from .paged import Score, Step, Work, visible

LOG2E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Tile:
    """m: packed rows, n: slots of a tile. stages: tiles of keys and values on their way."""

    m: int
    n: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Tiles:
    """Of each bin. `Cut.narrow` and `Cut.wide` of the plan are their m."""

    narrow: Tile
    wide: Tile


# Swept on an H200, bench/results/kernels_attention.json. EXACT: in both bins each warpgroup computes 64 rows by the
# same instructions.
FAST = Tiles(Tile(16, 64, 2, 5), Tile(128, 128, 8, 5))
FP8 = Tiles(Tile(16, 32, 1, 5), Tile(128, 64, 8, 5))
EXACT = Tiles(Tile(64, 64, 4, 5), Tile(128, 64, 8, 5))


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step, score: Score) -> torch.Tensor:
    """float64, one token at a time."""
    page, groups, out = k.shape[2], q.shape[1] // k.shape[1], torch.zeros_like(q)
    slots_of = [row[0] for row in step.rows.tolist() for _ in range(row[2])]
    for token, (slot, seen) in enumerate(zip(slots_of, visible(step, score.window), strict=True)):
        at, inside = step.block_table[slot].cpu().long()[seen // page], seen % page
        keys, values = (x[at, :, inside].double() for x in (k, v))
        if score.k_scale is not None and score.v_scale is not None:
            keys, values = keys * score.k_scale[at, :, inside, None], values * score.v_scale[at, :, inside, None]
        keys, values = (x.transpose(0, 1).repeat_interleave(groups, 0) for x in (keys, values))
        scores = (keys @ q[token].double()[..., None])[..., 0] * score.scale
        if score.soft_cap:
            scores = score.soft_cap * (scores / score.soft_cap).tanh()
        if score.sinks is not None:
            scores = torch.cat((scores, score.sinks.double()[:, None]), 1)
            values = torch.cat((values, values.new_zeros((q.shape[1], 1, q.shape[2]))), 1)
        if scores.shape[1]:
            out[token] = (scores.softmax(1)[:, None] @ values)[:, 0].to(q.dtype)
    return out


@jit
def _values(pointer: Arg, at: Arg, inside: Arg, DIM: constexpr, WIDTH: constexpr, MASKED: constexpr) -> Arg:
    """Rows of keys or values. Masked: those outside are not read and count as zeros."""
    dims = tl.arange(0, WIDTH)
    places = at[:, None] * DIM + dims[None, :]
    if MASKED:
        return tl.load(pointer + places, mask=inside[:, None] & (dims < DIM)[None, :], other=0.0)
    if WIDTH == DIM:
        return tl.load(pointer + places)
    return tl.load(pointer + places, mask=(dims < DIM)[None, :] & (at >= 0)[:, None], other=0.0)


@jit
def _pairs(words: Arg) -> Arg:
    """Two e4m3 in each int16 -> even and odd ones as float16, times 2**-8: sign, exponent and mantissa keep their bits.

    No conversion, and a matrix instruction can take 16-bit words straight from shared memory, bytes it cannot.
    """
    if INTERPRETED:
        even = (((words << 8) & -32768) | ((words << 7) & 0x3F80)).to(tl.float16, bitcast=True)
        odd = ((words & -32768) | ((words >> 1) & 0x3F80)).to(tl.float16, bitcast=True)
    else:
        # The same on two words at once, which the compiler does not find.
        even = tl.inline_asm_elementwise(
            "{ .reg .b32 a, b; shl.b32 a, $1, 8; shl.b32 b, $1, 7; and.b32 a, a, 0x80008000; "
            "and.b32 b, b, 0x3f803f80; or.b32 $0, a, b; }",
            "=r,r", [words], dtype=tl.float16, is_pure=True, pack=2)
        odd = tl.inline_asm_elementwise(
            "{ .reg .b32 a, b; shr.u32 b, $1, 1; and.b32 a, $1, 0x80008000; and.b32 b, b, 0x3f803f80; "
            "or.b32 $0, a, b; }",
            "=r,r", [words], dtype=tl.float16, is_pure=True, pack=2)
    return even, odd


@jit
def _seen(slots: Arg, row: Arg, DRAFT: constexpr) -> Arg:
    """Which slot each row of the tile sees."""
    low, high, draft_begin, draft_len, bits_low, bits_high = row
    seen = (slots[None, :] >= low[:, None]) & (slots[None, :] <= high[:, None])
    if DRAFT:
        bit = slots - draft_begin
        words = tl.where((bit < 32)[None, :], bits_low[:, None], bits_high[:, None])
        hidden = ((bit >= 0) & (bit < draft_len))[None, :] & (((words >> (bit & 31)[None, :]) & 1) == 0)
        seen = seen & (hidden == 0)
    return seen


@jit
def _empty(M: constexpr, WIDTH: constexpr) -> Arg:
    return tl.zeros([M, WIDTH], tl.float32), tl.zeros([M], tl.float32), tl.full([M], float("-inf"), tl.float32)


@jit
def _tiles(
    acc: Arg, mass: Arg, top: Arg, total: Arg, query: Arg, odd: Arg, k: Arg, v: Arg, k_scale: Arg, v_scale: Arg,
    table: Arg, head: Arg,
    row: Arg, floor: Arg, end: Arg, scale: Arg, cap: Arg, first: Arg, last: Arg,
    HKV: constexpr, PAGE: constexpr, DIM: constexpr, WIDTH: constexpr, N: constexpr, CHUNK: constexpr, CAP: constexpr,
    DRAFT: constexpr, SCALED: constexpr, PAIRED: constexpr, MASKED: constexpr,
) -> Arg:
    """Tiles of N slots from `first` on, until `last`. Masked: slots outside [floor, end) are not read.

    CHUNK > 0: where a chunk starts, what was accumulated is folded into `total`. PAIRED: k and v hold pairs, query, odd
    and acc, total the even and the odd dimensions.
    """
    for start in tl.range(first, last, N):
        slots = start + tl.arange(0, N)
        inside = (slots >= floor) & (slots < end)
        pages = tl.load(table + slots // PAGE, mask=inside, other=0) if MASKED else tl.load(table + slots // PAGE)
        at = (pages.to(tl.int64) * HKV + head) * PAGE + slots % PAGE
        keys = _values(k, at, inside, DIM, WIDTH, MASKED)
        values = _values(v, at, inside, DIM, WIDTH, MASKED)
        if PAIRED:
            even_keys, odd_keys = _pairs(keys)
            scores = dot(query, tl.trans(even_keys)) + dot(odd, tl.trans(odd_keys))
        else:
            scores = dot(query, tl.trans(keys.to(query.dtype)))
        if SCALED:
            scores *= tl.load(k_scale + at, mask=inside, other=0.0)[None, :] * (256.0 if PAIRED else 1.0)
        if CAP:
            # cap * tanh(score / cap) = cap - 2 cap / (1 + e**(2 score / cap)); cap carries a factor of log2 e.
            scores = cap - 2.0 * cap / (1.0 + tl.exp2(scores * scale * (2.0 * 1.4426950408889634 / cap)))
        if MASKED:
            scores = tl.where(_seen(slots, row, DRAFT) & inside[None, :], scores, float("-inf"))
        if CHUNK:
            if _starts_chunk(start, CHUNK):
                total = fold(total[0], total[1], total[2], acc, mass, top)
                acc, mass, top = _empty(query.shape[0], WIDTH)
        factor = 1.0 if CAP else scale
        best = tl.maximum(top, tl.max(scores, 1) * factor)
        base = best
        if MASKED:
            base = tl.where(best == float("-inf"), 0.0, best)
        weights = tl.exp2(tl.fma(scores, factor, -base[:, None]))
        old = tl.exp2(top - base)
        mass = tl.fma(mass, old, tl.sum(weights, 1))
        if SCALED:
            weights *= tl.load(v_scale + at, mask=inside, other=0.0)[None, :] * (256.0 if PAIRED else 1.0)
        if PAIRED:
            even_values, odd_values = _pairs(values)
            acc = acc * old[:, None] + dot(weights.to(query.dtype), even_values)
            total = total * old[:, None] + dot(weights.to(query.dtype), odd_values)
        else:
            acc = acc * old[:, None] + dot(weights.to(query.dtype), values.to(query.dtype))
        top = best
    return acc, mass, top, total


@jit
def _starts_chunk(slot: Arg, CHUNK: constexpr) -> Arg:
    return (slot % CHUNK == 0) & ((slot <= 16384) | (slot % 2048 == 0))


@jit
def _span(
    acc: Arg, mass: Arg, top: Arg, total: Arg, query: Arg, odd: Arg, k: Arg, v: Arg, k_scale: Arg, v_scale: Arg,
    table: Arg, head: Arg,
    row: Arg, floor: Arg, end: Arg, full_low: Arg, full_high: Arg, scale: Arg, cap: Arg, first: Arg,
    HKV: constexpr, PAGE: constexpr, DIM: constexpr, WIDTH: constexpr, N: constexpr, CHUNK: constexpr, CAP: constexpr,
    DRAFT: constexpr, SCALED: constexpr, PAIRED: constexpr, WINDOW: constexpr,
) -> Arg:
    """Slots [first, end): tiles in [full_low, full_high) are seen by every row and need no mask."""
    begin = first
    if WINDOW:
        begin = tl.minimum(first + (tl.maximum(full_low - first, 0) + N - 1) // N * N, end)
        acc, mass, top, total = _tiles(
            acc, mass, top, total, query, odd, k, v, k_scale, v_scale, table, head, row, floor, end, scale, cap, first,
            begin, HKV, PAGE, DIM, WIDTH, N, CHUNK, CAP, DRAFT, SCALED, PAIRED, True,
        )
    stop = begin + tl.maximum(tl.minimum(full_high, end) - begin, 0) // N * N
    acc, mass, top, total = _tiles(
        acc, mass, top, total, query, odd, k, v, k_scale, v_scale, table, head, row, floor, end, scale, cap, begin,
        stop,
        HKV, PAGE, DIM, WIDTH, N, CHUNK, CAP, DRAFT, SCALED, PAIRED, False,
    )
    return _tiles(
        acc, mass, top, total, query, odd, k, v, k_scale, v_scale, table, head, row, floor, end, scale, cap, stop, end,
        HKV, PAGE, DIM, WIDTH, N, CHUNK, CAP, DRAFT, SCALED, PAIRED, True,
    )


@jit
def _attend(
    q: Arg, k: Arg, v: Arg, k_scale: Arg, v_scale: Arg, sinks: Arg, out: Arg, part_o: Arg, part_ml: Arg, items: Arg,
    n_items: Arg, part_begin: Arg, rows: Arg, segments: Arg, block_table: Arg, q_slot: Arg, pos: Arg, draft_bits: Arg,
    table_width: Arg, scale: Arg, cap: Arg, window: Arg,
    G: constexpr, HKV: constexpr, PAGE: constexpr, DIM: constexpr, WIDTH: constexpr, M: constexpr, N: constexpr,
    CHUNK: constexpr, WINDOW: constexpr, CAP: constexpr, SINKS: constexpr, DRAFT: constexpr, SCALED: constexpr,
    PAIRED: constexpr, OVERLAP: constexpr,
) -> None:
    """One item and one KV head. Row m of the tile is token q_begin + m // G, query head head * G + m % G."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
    index, head = tl.program_id(0) // HKV, tl.program_id(0) % HKV
    if index >= tl.load(n_items):
        return
    item = items + index * 8
    table = block_table + tl.load(item + 1).to(tl.int64) * table_width
    first, last, flags = tl.load(item + 4), tl.load(item + 5), tl.load(item + 7)
    tokens = tl.load(item + 2) + tl.arange(0, M) // G
    real = tokens < tl.load(item + 3)
    heads = tokens.to(tl.int64) * (HKV * G) + head * G + tl.arange(0, M) % G
    dims = tl.arange(0, WIDTH)
    inside = real[:, None] & (dims < DIM)[None, :]
    if PAIRED:
        at = heads[:, None] * (DIM * 2) + dims[None, :] * 2
        odd = tl.load(q + at + 1, mask=inside, other=0.0).to(tl.float16)
    else:
        at = heads[:, None] * DIM + dims[None, :]
        odd = 0
    query = tl.load(q + at, mask=inside, other=0.0)
    if SCALED and query.dtype == tl.bfloat16:
        # Every 8-bit value is a float16, and the hardware converts to that alone.
        query = query.to(tl.float16)

    high = tl.load(q_slot + tokens, mask=real, other=-1)
    seat = high
    draft_begin, draft_len = first, 0
    bits_low, bits_high = high, high
    if DRAFT:
        if flags & 2:
            record = rows + tl.load(segments + tl.load(item) * 8 + 2) * 8
            draft_begin, draft_len = tl.load(record + 4), tl.load(record + 5)
            bits_low = tl.load(draft_bits + tokens * 2, mask=real, other=0)
            bits_high = tl.load(draft_bits + tokens * 2 + 1, mask=real, other=0)
    full_high = tl.min(tl.where(real, high, 2147483646), 0) + 1
    if DRAFT:
        seat = tl.load(pos + tokens, mask=real, other=-1)
        if draft_len > 0:
            full_high = tl.minimum(full_high, draft_begin)
    low = tl.zeros([M], tl.int32)
    floor, full_low = first, first
    if WINDOW:
        low = tl.maximum(seat + 1 - window, 0)
        floor = tl.maximum(first, tl.min(tl.where(real, low, 2147483647), 0))
        full_low = tl.max(tl.where(real, low, 0), 0)
    end = tl.minimum(last, tl.max(high, 0) + 1)
    row = (low, high, draft_begin, draft_len, bits_low, bits_high)

    acc, mass, top = _empty(M, WIDTH)
    if SINKS:
        if flags & 1:
            top = tl.load(sinks + head * G + tl.arange(0, M) % G) * 1.4426950408889634
            mass += 1.0
    start = first
    if WINDOW:
        start = first + (floor - first) // N * N
        if CHUNK:
            start = tl.maximum(first, tl.where(floor < 16384, floor // CHUNK * CHUNK, floor // 2048 * 2048))
    total = tl.zeros([M, WIDTH], tl.float32)
    if CHUNK:
        total = _empty(M, WIDTH)
    # In exact mode the first tile starts a chunk: a sink is folded first, as is what lies there otherwise: nothing.
    acc, mass, top, total = _span(
        acc, mass, top, total, query, odd, k, v, k_scale, v_scale, table, head, row, floor, end,
        full_low, full_high, scale, cap, start, HKV, PAGE, DIM, WIDTH, N, CHUNK, CAP, DRAFT, SCALED, PAIRED, WINDOW,
    )
    if CHUNK:
        acc, mass, top = fold(total[0], total[1], total[2], acc, mass, top)

    if flags & 4:
        tl.store(out + at, normalized(acc, mass).to(out.dtype.element_ty), mask=inside)
        if PAIRED:
            tl.store(out + at + 1, normalized(total, mass).to(out.dtype.element_ty), mask=inside)
    else:
        part = tl.load(part_begin + tokens, mask=real, other=0) + tl.load(item + 6)
        places = part.to(tl.int64) * (HKV * G) + head * G + tl.arange(0, M) % G
        moved = (places - heads)[:, None] * (DIM * 2 if PAIRED else DIM)
        tl.store(part_o + at + moved, acc, mask=inside)
        if PAIRED:
            tl.store(part_o + at + moved + 1, total, mask=inside)
        tl.store(part_ml + places * 2, top, mask=real)
        tl.store(part_ml + places * 2 + 1, mass, mask=real)


def _width(dim: int) -> int:
    return max(16, 1 << (dim - 1).bit_length())


def _launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step, work: Work, score: Score, out: torch.Tensor,
    wide: bool, tile: Tile, exact: bool, overlap: bool = False,
) -> None:
    _, kv_heads, page, dim = k.shape
    programs = work.counts[wide] * kv_heads
    if not programs:
        return
    paired = k.dtype == torch.float8_e4m3fn and not exact
    if paired:
        k, v, dim = k.view(torch.int16), v.view(torch.int16), dim // 2
    _attend[(programs,)](
        q, k, v, score.k_scale, score.v_scale, score.sinks, out, work.part_o, work.part_ml, work.items[int(wide)],
        work.n_items[int(wide):], work.part_begin, step.rows, step.segments, step.block_table, step.q_slot, step.pos,
        step.draft_bits, step.block_table.stride(0), score.scale * LOG2E, score.soft_cap * LOG2E, score.window,
        G=q.shape[1] // kv_heads, HKV=kv_heads, PAGE=page, DIM=dim, WIDTH=_width(dim), M=tile.m, N=tile.n,
        CHUNK=CHUNK if exact else 0, WINDOW=score.window > 0, CAP=score.soft_cap > 0, SINKS=score.sinks is not None,
        DRAFT=step.drafts, SCALED=score.k_scale is not None,
        PAIRED=paired, OVERLAP=overlap,
        num_warps=tile.warps, num_stages=tile.stages,
    )


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step, work: Work, score: Score,
    *, out: torch.Tensor | None = None, exact: bool = False, side: torch.cuda.Stream | None = None,
    tiles: Tiles = FAST, overlap: bool = True,
) -> torch.Tensor:
    """side: a second stream, on which the wide bin runs beside the narrow one. overlap: where one bin runs alone, the
    merge is set up meanwhile (programmatic dependent launch). Raises KernelError for shapes that do not fit together.
    """
    _check(q, k, v, step, score)
    out = torch.empty_like(q) if out is None else out
    overlap = overlap and q.is_cuda and work.merges and 0 in work.counts
    if side is None or 0 in work.counts:
        _launch(q, k, v, step, work, score, out, True, tiles.wide, exact, overlap)
        _launch(q, k, v, step, work, score, out, False, tiles.narrow, exact, overlap)
    else:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            _launch(q, k, v, step, work, score, out, True, tiles.wide, exact)
        _launch(q, k, v, step, work, score, out, False, tiles.narrow, exact)
        main.wait_stream(side)
    if work.merges:
        merge_parts.launch(work.part_o, work.part_ml, work.part_begin, out, overlap=overlap)
    return out


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step, score: Score) -> None:
    _, kv_heads, page, dim = k.shape
    if k.shape != v.shape or q.shape[2] != dim or q.shape[1] % kv_heads:
        raise KernelError(f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not belong together")
    if page & (page - 1) or not all(x.is_contiguous() for x in (q, k, v)):
        raise KernelError("pages hold a power of two of slots, and q, k, v are contiguous")
    if (score.k_scale is None) != (score.v_scale is None) or score.scale <= 0:
        raise KernelError("scale is positive, and keys and values are scaled both or neither")
    if step.drafts and 0 < score.window < 64:
        raise KernelError(f"a window over a draft region has at least 64 slots, not {score.window}")
