"""The inner loop of paged attention: tiles of slots, for queries that sit in registers."""

from __future__ import annotations

from .jit import INTERPRETED, Arg, constexpr, dot, jit, tl
from .merge_parts import fold


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
def empty(M: constexpr, WIDTH: constexpr) -> Arg:
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
                acc, mass, top = empty(query.shape[0], WIDTH)
        factor = 1.0 if CAP else scale
        best = tl.maximum(top, tl.max(scores, 1) * factor)
        base = best
        if MASKED:
            base = tl.where(best == float("-inf"), 0.0, best)
        weights = tl.exp2(tl.fma(scores, factor, -base[:, None]))
        old = tl.exp2(top - base)
        if CHUNK:
            # By the matrix unit, which adds in the same order whatever the tile's rows; all 16 columns are equal.
            ones = tl.full([N, 16], 1.0, tl.float32).to(query.dtype)
            mass = tl.fma(mass, old, tl.max(dot(weights.to(query.dtype), ones), 1))
        else:
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
def span(
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
