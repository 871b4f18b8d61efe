"""The threshold of a flat draw, exactly: the tokens of its bracket are listed and cut.

collect: one program a (block, draw). Only tiles whose best reaches the bracket are read. Effect: token_list, value_list
= the tokens of [low, high], or of [low, best] where no pivot is above, in any order: only sums of integers follow.
Where the threshold is known (min-p alone): tile_kept and cut, and nothing is listed.
finish: one program a draw. Effect: cut[i] = the key of the threshold; tile_kept[i, t] = int64 mass of the tokens of
tile t at or above it.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import load_values, masses
from .pieces import finite, fixed, join_in, key_of, lowest_key, mass_of, sum_of, value_of


@jit
def marks_of(logits: Arg, tile: Arg, there: Arg, vocabulary: Arg, low: Arg, high: Arg, QUARTER: constexpr) -> Arg:
    """[tiles] int32: bit b for token b of the quarter, 16 of them."""
    lane = tl.arange(0, 16)[None, :]
    token = tile[:, None] * 64 + QUARTER * 16 + lane
    x = tl.load(logits + token, mask=there[:, None] & (token < vocabulary), other=float("-inf")).to(tl.float32)
    return tl.sum(tl.where((x >= low) & (x <= high), 1 << lane, 0), 1)


@jit
def bits_in(word: Arg) -> Arg:
    """How many bits of each int32 are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) >> 24) & 63


@jit
def list_marked(logits: Arg, word: Arg, first: Arg, at: Arg, tokens: Arg, values: Arg) -> None:
    """Effect: lists token first + b for every bit b of the words, from place `at` on."""
    left = tl.max(bits_in(word), 0)
    while left > 0:
        some = word != 0
        lowest = (word & -word).to(tl.uint32, bitcast=True).to(tl.float32)
        token = first + (lowest.to(tl.int32, bitcast=True) >> 23) - 127
        tl.store(tokens + at, token, mask=some)
        tl.store(values + at, tl.load(logits + token, mask=some, other=0.0).to(tl.float32), mask=some)
        at += 1
        word &= word - 1
        left -= 1


@jit
def kept_quarter(
    logits: Arg, allow: Arg, tile: Arg, there: Arg, vocabulary: Arg, words: Arg, low: Arg, top: Arg, scale: Arg,
    QUARTER: constexpr,
) -> Arg:
    """[tiles, 16]: masses of the allowed tokens at or above low, against the best of their tile."""
    lane = QUARTER * 16 + tl.arange(0, 16)[None, :]
    token, at = tile[:, None] * 64 + lane, tile * 2 + QUARTER // 2
    x = tl.load(logits + token, mask=there[:, None] & (token < vocabulary), other=float("-inf")).to(tl.float32)
    word = tl.load(allow + at, mask=there & (at < words), other=0)
    kept = ((word[:, None] << (31 - (lane & 31))) < 0) & (x >= low)
    return mass_of(tl.where(kept, x, float("-inf")), top[:, None], scale)


@jit
def kept_masses(
    logits: Arg, allow: Arg, tile: Arg, there: Arg, tile_top: Arg, vocabulary: Arg, words: Arg, low: Arg, best: Arg,
    scale: Arg,
) -> Arg:
    """[tiles] int64 masses of the allowed tokens at or above low."""
    top = finite(tile_top)
    a = kept_quarter(logits, allow, tile, there, vocabulary, words, low, top, scale, 0)
    b = kept_quarter(logits, allow, tile, there, vocabulary, words, low, top, scale, 1)
    c = kept_quarter(logits, allow, tile, there, vocabulary, words, low, top, scale, 2)
    d = kept_quarter(logits, allow, tile, there, vocabulary, words, low, top, scale, 3)
    return fixed(sum_of(a, b, c, d) * mass_of(tile_top, finite(best), scale))


@jit
def collect(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, tile_best: Arg, state: Arg, listed: Arg,
    token_list: Arg, value_list: Arg, tile_kept: Arg, cut: Arg, vocabulary: Arg, words: Arg, tiles: Arg, capacity: Arg,
    PIVOTS: constexpr, BLOCK_TILES: constexpr, OVERLAP: constexpr,
) -> None:
    join_in(OVERLAP)
    i = tl.program_id(1).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    low, high = value_of(tl.load(state + i * 5).to(tl.int32)), value_of(tl.load(state + i * 5 + 1).to(tl.int32))
    tile = tl.program_id(0) * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    there = tile_top >= low
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    if tl.load(flat + i) == 2:
        scale = 1.4426950408889634 / tl.load(temperature + i)
        mass = kept_masses(source, allow, tile, there, tile_top, vocabulary, words, low, high, scale)
        tl.store(tile_kept + i * tiles + tile, mass, mask=tile < tiles)
        tl.store(cut + i, tl.load(state + i * 5).to(tl.int32))
        return
    high = tl.where(tl.load(state + i * 5 + 2) == PIVOTS, float("inf"), high)
    first = marks_of(source, tile, there, vocabulary, low, high, 0)
    first |= marks_of(source, tile, there, vocabulary, low, high, 1) << 16
    second = marks_of(source, tile, there, vocabulary, low, high, 2)
    second |= marks_of(source, tile, there, vocabulary, low, high, 3) << 16
    first &= tl.load(allow + tile * 2, mask=tile * 2 < words, other=0)
    second &= tl.load(allow + tile * 2 + 1, mask=tile * 2 + 1 < words, other=0)
    each = bits_in(first) + bits_in(second)
    count = tl.sum(each, 0)
    if count > 0:
        at = tl.atomic_add(listed + i, count, sem="relaxed") + tl.cumsum(each, 0) - each
        tokens, values = token_list + i * capacity, value_list + i * capacity
        list_marked(source, first, tile * 64, at, tokens, values)
        list_marked(source, second, tile * 64 + 32, at + bits_in(first), tokens, values)


@jit
def part_of(low: Arg, high: Arg, WAYS: constexpr) -> Arg:
    """[WAYS] keys that divide (low, high] evenly; the last is high."""
    width = high.to(tl.int64) - low.to(tl.int64)
    return (low.to(tl.int64) + (width * (tl.arange(0, WAYS) + 1)) // WAYS).to(tl.int32)


@jit
def closer(low: Arg, high: Arg, at: Arg, enough: Arg) -> Arg:
    """The interval after it was found which of the keys `at` have enough mass at or above them."""
    over = tl.min(tl.where(enough, high, at - 1), 0)
    low = tl.maximum(low, tl.max(tl.where(enough, at, low), 0))
    return low, tl.maximum(over, low)


@jit
def search(
    values: Arg, count: Arg, low: Arg, high: Arg, wanted: Arg, best: Arg, scale: Arg, LIST: constexpr, WAYS: constexpr
) -> Arg:
    """The largest key in [low, high] at or above which a list of at most LIST has the mass `wanted`; low when there is
    none."""
    x = load_values(values, count & 0, count, LIST)
    key, mass = key_of(x)[:, None], masses(x, low, best, scale)[:, None]
    while low < high:
        at = part_of(low, high, WAYS)
        low, high = closer(low, high, at, tl.sum(tl.where(key >= at[None, :], mass, 0), 0) >= wanted)
    return low


@jit
def divide(
    values: Arg, count: Arg, low: Arg, high: Arg, wanted: Arg, best: Arg, scale: Arg, CHUNK: constexpr, WAYS: constexpr
) -> Arg:
    """A closer interval, from one reading of a list of any length."""
    at, reached, base = part_of(low, high, WAYS), tl.zeros((WAYS,), tl.int64), count & 0
    while base < count:
        x = load_values(values, base, count, CHUNK)
        mass = masses(x, low, best, scale)[:, None]
        reached += tl.sum(tl.where(key_of(x)[:, None] >= at[None, :], mass, 0), 0)
        base += CHUNK
    return closer(low, high, at, reached >= wanted)


@jit
def keep(
    tokens: Arg, values: Arg, count: Arg, low: Arg, high: Arg, best: Arg, scale: Arg, kept: Arg, CHUNK: constexpr
) -> Arg:
    """Effect: what is above high joins the masses `kept` of the tiles, what is below low goes, the rest moves to the
    front of the list. Returns (how many, the mass that joined)."""
    base, out, joined = count & 0, count & 0, tl.zeros((), tl.int64)
    while base < count:
        j = base + tl.arange(0, CHUNK)
        token = tl.load(tokens + j, mask=j < count, other=0)
        x = load_values(values, base, count, CHUNK)
        key = key_of(x)
        mass = tl.where(key > high, masses(x, low, best, scale), 0)
        tl.atomic_add(kept + token // 64, mask=(j < count) & (mass > 0), val=mass, sem="relaxed")
        joined += tl.sum(mass, 0)
        within = (key >= low) & (key <= high) & (j < count)
        flags = within.to(tl.int32)
        at = out + tl.cumsum(flags, 0) - flags
        # All have read this chunk before one of them writes over it.
        tl.debug_barrier()
        tl.store(tokens + at, token, mask=within)
        tl.store(values + at, x, mask=within)
        out += tl.sum(flags, 0)
        base += CHUNK
    tl.debug_barrier()
    return out, joined


@jit
def finish(
    flat: Arg, temperature: Arg, tile_best: Arg, above: Arg, state: Arg, listed: Arg, token_list: Arg,
    value_list: Arg, tile_kept: Arg, cut: Arg, tiles: Arg, capacity: Arg, TILES: constexpr, PIVOTS: constexpr,
    CHUNK: constexpr, LIST: constexpr, WAYS: constexpr, OVERLAP: constexpr,
) -> None:
    """LIST: tokens that are searched in registers; a longer list is made shorter first."""
    join_in(OVERLAP)
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) != 1:
        return
    t, count = tl.load(temperature + i), tl.load(listed + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    low, high = tl.load(state + i * 5).to(tl.int32), tl.load(state + i * 5 + 1).to(tl.int32)
    pivot, passed, goal = tl.load(state + i * 5 + 2), tl.load(state + i * 5 + 3), tl.load(state + i * 5 + 4)
    tile = tl.arange(0, TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    best = finite(tl.max(tile_top, 0))
    sums = tl.load(above + (i * PIVOTS + pivot) * tiles + tile, mask=(pivot < PIVOTS) & (tile < tiles), other=0.0)
    kept = tile_kept + i * tiles
    tl.store(kept + tile, fixed(sums * mass_of(tile_top, best, scale)), mask=tile < tiles)
    # They were written by other threads of this program.
    tl.debug_barrier()
    tokens, values = token_list + i * capacity, value_list + i * capacity
    while (count > LIST) & (low < high):
        low, high = divide(values, count, low, high, goal - passed, best, scale, CHUNK, WAYS)
        count, joined = keep(tokens, values, count, low, high, best, scale, kept, CHUNK)
        passed += joined
    low = search(values, count, low, high, goal - passed, best, scale, LIST, WAYS)
    tl.store(cut + i, tl.maximum(low, lowest_key()))
    base = count & 0
    while base < count:
        j = base + tl.arange(0, CHUNK)
        token = tl.load(tokens + j, mask=j < count, other=0)
        mass = masses(load_values(values, base, count, CHUNK), low, best, scale)
        tl.atomic_add(kept + token // 64, mass, mask=(j < count) & (mass > 0), sem="relaxed")
        base += CHUNK
