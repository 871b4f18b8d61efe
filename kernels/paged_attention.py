"""Attention over a forest of rows in paged memory: decode, extend and shared prefixes are one op.

attend(q, k, v, step, work, score) -> out
    q: [tokens, q_heads, head_dim]; k, v: one layer of the pool, [pages, kv_heads, page, head_dim], page a power of two,
    the tokens' own keys and values already written. q_heads is a multiple of kv_heads; query head h reads KV head
    h // (q_heads / kv_heads). `step` says what is visible, `work` (made from `planner.plan`) how it is cut.
    Returns [tokens, q_heads, head_dim] in q's dtype; zeros for a token that sees nothing.

Visibility: token t sees slot j of its row iff lo <= j <= q_slot[t]; lo = max(0, q_slot[t] + 1 - window). In a draft
region (at most 64 slots) it must have its bit set too, and lo counts from pos[t] (a window is then at least 64). Slots
that nobody sees may hold anything, NaN included. Scores are q . k * scale, then cap * tanh(score / cap) if there is a
cap. A sink is one more score per query head, without a value. 8-bit k and v have a scale per slot and head.

Fast: one accumulator an item. Exact: chunks of cut.CHUNK absolute slots (FAR_CHUNK from FAR on), each from a fresh
accumulator, folded in ascending order by the same function that merges parts, in tiles of 64 slots, and the weights of
a tile are added by the matrix unit, so that no order depends on the shape of the tile: a token's bits depend on its
query and its visible keys alone.
"""

from __future__ import annotations

from functools import partial

import torch

from . import check_step, merge_parts
from .attention_tiles import EXACT, FAST, Tile, Tiles
from .base import FLOATS, Implementation, KernelError
from .cut import CHUNK
from .jit import Arg, constexpr, jit, tl
from .merge_parts import fold, normalized
from .paged import Score, Step, Work, visible
from .paged_tiles import empty, span

LOG2E = 1.4426950408889634


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
def _sight(
    item: Arg, tokens: Arg, real: Arg, first: Arg, last: Arg, flags: Arg, rows: Arg, segments: Arg, q_slot: Arg,
    pos: Arg, draft_bits: Arg, window: Arg, M: constexpr, WINDOW: constexpr, DRAFT: constexpr,
) -> Arg:
    """What each row of the tile sees; the slots that any may see, [floor, end), and that all do, [full_low, full_high).
    """
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
    return row, floor, end, full_low, full_high


@jit
def _packed(item: Arg, head: Arg, G: constexpr, HKV: constexpr, M: constexpr, CACHE: constexpr) -> Arg:
    """(token, whether it is there, query head among those of all tokens) of each row of the tile. CACHE: a way to load
    that was not taken before makes the compiler compute all of it again, rather than keep it in registers meanwhile."""
    tokens = tl.load(item + 2, cache_modifier=CACHE) + tl.arange(0, M) // G
    real = tokens < tl.load(item + 3, cache_modifier=CACHE)
    return tokens, real, tokens.to(tl.int64) * (HKV * G) + head * G + tl.arange(0, M) % G


@jit
def _queries(
    q: Arg, heads: Arg, real: Arg, DIM: constexpr, WIDTH: constexpr, SCALED: constexpr, PAIRED: constexpr
) -> Arg:
    """(queries, those of the odd dimensions)."""
    dims = tl.arange(0, WIDTH)
    inside = real[:, None] & (dims < DIM)[None, :]
    if PAIRED:
        at = heads[:, None] * (DIM * 2) + dims[None, :] * 2
        odd = tl.load(q + at + 1, mask=inside, other=0.0).to(tl.float16)
    else:
        at = heads[:, None] * DIM + dims[None, :]
        odd = 0
    query = tl.load(q + at, mask=inside, other=0.0)
    if PAIRED or (SCALED and query.dtype == tl.bfloat16):
        # Every 8-bit value is a float16, and the hardware converts to that alone.
        query = query.to(tl.float16)
    return query, odd


@jit
def _write(
    out: Arg, part_o: Arg, part_ml: Arg, acc: Arg, total: Arg, mass: Arg, top: Arg, item: Arg, head: Arg,
    part_begin: Arg, G: constexpr, HKV: constexpr, M: constexpr, DIM: constexpr, WIDTH: constexpr,
    PAIRED: constexpr,
) -> None:
    """The sums of an item, to `out` or to its parts."""
    tokens, real, heads = _packed(item, head, G, HKV, M, ".ca")
    dims, every = tl.arange(0, WIDTH), DIM
    inside = real[:, None] & (dims < DIM)[None, :]
    if PAIRED:
        dims, every = dims * 2, DIM * 2
    if tl.load(item + 7, cache_modifier=".ca") & 4:
        at = heads[:, None] * every + dims[None, :]
        tl.store(out + at, normalized(acc, mass).to(out.dtype.element_ty), mask=inside)
        if PAIRED:
            tl.store(out + at + 1, normalized(total, mass).to(out.dtype.element_ty), mask=inside)
    else:
        part = tl.load(part_begin + tokens, mask=real, other=0) + tl.load(item + 6)
        places = part.to(tl.int64) * (HKV * G) + head * G + tl.arange(0, M) % G
        at = places[:, None] * every + dims[None, :]
        tl.store(part_o + at, acc, mask=inside)
        if PAIRED:
            tl.store(part_o + at + 1, total, mask=inside)
        tl.store(part_ml + places * 2, top, mask=real)
        tl.store(part_ml + places * 2 + 1, mass, mask=real)


@partial(jit, unspecialized=("table_width", "window"))
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
    tokens, real, heads = _packed(item, head, G, HKV, M, "")
    query, odd = _queries(q, heads, real, DIM, WIDTH, SCALED, PAIRED)
    row, floor, end, full_low, full_high = _sight(
        item, tokens, real, first, last, flags, rows, segments, q_slot, pos, draft_bits, window, M, WINDOW, DRAFT,
    )
    acc, mass, top = empty(M, WIDTH)
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
        total = empty(M, WIDTH)
    # In exact mode the first tile starts a chunk: a sink is folded first, as is what lies there otherwise: nothing.
    acc, mass, top, total = span(
        acc, mass, top, total, query, odd, k, v, k_scale, v_scale, table, head, row, floor, end,
        full_low, full_high, scale, cap, start, HKV, PAGE, DIM, WIDTH, N, CHUNK, CAP, DRAFT, SCALED, PAIRED, WINDOW,
    )
    if CHUNK:
        acc, mass, top = fold(total[0], total[1], total[2], acc, mass, top)
    _write(out, part_o, part_ml, acc, total, mass, top, item, head, part_begin, G, HKV, M, DIM, WIDTH, PAIRED)


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
    tiles: Tiles = FAST, overlap: bool = True, error: torch.Tensor | None = None,
) -> torch.Tensor:
    """tiles: `tiles_for`. side: a second stream, on which the wide bin runs beside the narrow one, of another priority
    than the current one: those of one priority are given out in turn, and may be the same. overlap: where one bin runs
    alone, the merge is set up meanwhile (programmatic dependent launch). error: checked mode; where it holds a code,
    left by check_step or before, nothing is read, `work` is emptied and the answer is zeros. Raises KernelError for
    what does not fit together.
    """
    _check(q, k, v, step, score)
    out = torch.empty_like(q) if out is None else out
    if error is not None:
        check_step.on_device(step, k.shape[0], k.shape[2], error)
        out.zero_()
        work.n_items.mul_(error == 0)
        work.part_begin.mul_(error == 0)
    overlap = overlap and q.is_cuda and work.merges and 0 in work.counts
    narrow = tiles.narrow_for(work.counts[0] * k.shape[1], work.merges)
    if side is None or 0 in work.counts:
        _launch(q, k, v, step, work, score, out, True, tiles.wide, exact, overlap)
        _launch(q, k, v, step, work, score, out, False, narrow, exact, overlap)
    else:
        main = torch.cuda.current_stream()
        if side == main:
            raise KernelError("side is the current stream: give it another priority")
        side.wait_stream(main)
        with torch.cuda.stream(side):
            _launch(q, k, v, step, work, score, out, True, tiles.wide, exact)
        _launch(q, k, v, step, work, score, out, False, narrow, exact)
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


def on_cpu(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, step: Step, work: Work, score: Score,
    *, out: torch.Tensor | None = None, error: torch.Tensor | None = None, **_options: object,
) -> torch.Tensor:
    """The reference, which needs no plan; `work` and the other options of `attend` change nothing."""
    if error is not None:
        check_step.reference(step, k.shape[0], k.shape[2], error)
    found = reference(q, k, v, step, score) if error is None or not error else torch.zeros_like(q)
    return found if out is None else out.copy_(found)


IMPLEMENTATIONS = (
    Implementation("paged_attention", ("cpu",), FLOATS, ("fast", "exact"), on_cpu),
    Implementation("paged_attention", ("cuda",), FLOATS, ("fast",), attend),
    Implementation("paged_attention", ("cuda",), FLOATS, ("exact",), partial(attend, exact=True, tiles=EXACT)),
)
