"""The threshold of a flat draw, exactly: the tokens of its bracket are marked, listed, and cut.

collect: one program a (block, draw). Only tiles whose best reaches the bracket are read. Effect: marks[i, w] has a bit
for each token of [low, high], or of [low, best] where no pivot is above; laid out as a mask row.
finish: one program a draw. Effect: cut[i] = the key of the threshold; tile_kept[i, t] = int64 mass of the tokens of
tile t at or above it.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import load_values, masses
from .pieces import finite, fixed, join_in, key_of, lowest_key, mass_of, value_of


@jit
def marks_of(logits: Arg, tile: Arg, there: Arg, vocabulary: Arg, low: Arg, high: Arg, QUARTER: constexpr) -> Arg:
    """[tiles] int32: bit b for token b of the quarter, 16 of them."""
    lane = tl.arange(0, 16)[None, :]
    token = tile[:, None] * 64 + QUARTER * 16 + lane
    x = tl.load(logits + token, mask=there[:, None] & (token < vocabulary), other=float("-inf")).to(tl.float32)
    return tl.sum(tl.where((x >= low) & (x <= high), 1 << lane, 0), 1)


@jit
def collect(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, tile_best: Arg, state: Arg, marks: Arg, vocabulary: Arg,
    words: Arg, tiles: Arg, PIVOTS: constexpr, BLOCK_TILES: constexpr, OVERLAP: constexpr,
) -> None:
    join_in(OVERLAP)
    i = tl.program_id(1).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    low, high = value_of(tl.load(state + i * 5).to(tl.int32)), value_of(tl.load(state + i * 5 + 1).to(tl.int32))
    high = tl.where(tl.load(state + i * 5 + 2) == PIVOTS, float("inf"), high)
    tile = tl.program_id(0) * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    inside = tile < tiles
    there = tl.load(tile_best + i * tiles + tile, mask=inside, other=float("-inf")) >= low
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    first = marks_of(source, tile, there, vocabulary, low, high, 0)
    first |= marks_of(source, tile, there, vocabulary, low, high, 1) << 16
    second = marks_of(source, tile, there, vocabulary, low, high, 2)
    second |= marks_of(source, tile, there, vocabulary, low, high, 3) << 16
    first &= tl.load(allow + tile * 2, mask=tile * 2 < words, other=0)
    second &= tl.load(allow + tile * 2 + 1, mask=tile * 2 + 1 < words, other=0)
    tl.store(marks + (i * tiles + tile) * 2, first, mask=inside)
    tl.store(marks + (i * tiles + tile) * 2 + 1, second, mask=inside)


@jit
def bits_in(word: Arg) -> Arg:
    """How many bits of each int32 are set."""
    word = word - ((word >> 1) & 0x55555555)
    word = (word & 0x33333333) + ((word >> 2) & 0x33333333)
    word = (word + (word >> 4)) & 0x0F0F0F0F
    return ((word * 0x01010101) >> 24) & 63


@jit
def list_marked(logits: Arg, marks: Arg, tiles: Arg, tokens: Arg, values: Arg, TILES: constexpr) -> Arg:
    """Effect: lists the marked tokens, ascending, and their logits. Returns how many."""
    w = tl.arange(0, 2 * TILES)
    word = tl.load(marks + w, mask=w < tiles * 2, other=0)
    each = bits_in(word)
    at = tl.cumsum(each, 0) - each
    left = tl.max(each, 0)
    while left > 0:
        some = word != 0
        lowest = (word & -word).to(tl.uint32, bitcast=True).to(tl.float32)
        token = w * 32 + (lowest.to(tl.int32, bitcast=True) >> 23) - 127
        tl.store(tokens + at, token, mask=some)
        tl.store(values + at, tl.load(logits + token, mask=some, other=0.0).to(tl.float32), mask=some)
        at += 1
        word &= word - 1
        left -= 1
    return tl.sum(each, 0)


@jit
def cut_of(
    values: Arg, count: Arg, low: Arg, high: Arg, passed: Arg, goal: Arg, best: Arg, scale: Arg, CHUNK: constexpr,
    WAYS: constexpr,
) -> Arg:
    """The largest key in [low, high] at or above which the list has goal - passed; low when there is none. Each round
    divides the interval by WAYS; the first chunk stays in registers."""
    x = load_values(values, count & 0, count, CHUNK)
    first, first_mass = key_of(x)[:, None], masses(x, low, best, scale)[:, None]
    j = tl.arange(0, WAYS)
    while low < high:
        width = high.to(tl.int64) - low.to(tl.int64)
        at = (low.to(tl.int64) + (width * (j + 1)) // WAYS).to(tl.int32)
        reached = passed + tl.sum(tl.where(first >= at[None, :], first_mass, 0), 0)
        base = (count & 0) + CHUNK
        while base < count:
            x = load_values(values, base, count, CHUNK)
            mass = masses(x, low, best, scale)[:, None]
            reached += tl.sum(tl.where(key_of(x)[:, None] >= at[None, :], mass, 0), 0)
            base += CHUNK
        enough = reached >= goal
        over = tl.min(tl.where(enough, high, at - 1), 0)
        low = tl.maximum(low, tl.max(tl.where(enough, at, low), 0))
        high = tl.maximum(over, low)
    return low


@jit
def finish(
    logits: Arg, row: Arg, flat: Arg, temperature: Arg, tile_best: Arg, above: Arg, state: Arg, marks: Arg,
    token_list: Arg, value_list: Arg, tile_kept: Arg, cut: Arg, vocabulary: Arg, tiles: Arg, capacity: Arg,
    TILES: constexpr, PIVOTS: constexpr, CHUNK: constexpr, WAYS: constexpr, OVERLAP: constexpr,
) -> None:
    join_in(OVERLAP)
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    low, high = tl.load(state + i * 5).to(tl.int32), tl.load(state + i * 5 + 1).to(tl.int32)
    pivot, passed, goal = tl.load(state + i * 5 + 2), tl.load(state + i * 5 + 3), tl.load(state + i * 5 + 4)
    tile = tl.arange(0, TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    best = finite(tl.max(tile_top, 0))
    kept = tl.load(above + (i * PIVOTS + pivot) * tiles + tile, mask=(pivot < PIVOTS) & (tile < tiles), other=0.0)
    tl.store(tile_kept + i * tiles + tile, fixed(kept * mass_of(tile_top, best, scale)), mask=tile < tiles)
    tokens, values = token_list + i * capacity, value_list + i * capacity
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    count = list_marked(source, marks + i * tiles * 2, tiles, tokens, values, TILES)
    # The list and the masses were written by other threads of this program.
    tl.debug_barrier()
    low = cut_of(values, count, low, high, passed, goal, best, scale, CHUNK, WAYS)
    tl.store(cut + i, tl.maximum(low, lowest_key()))
    base = count & 0
    while base < count:
        j = base + tl.arange(0, CHUNK)
        token = tl.load(tokens + j, mask=j < count, other=0)
        mass = masses(load_values(values, base, count, CHUNK), low, best, scale)
        tl.atomic_add(tile_kept + i * tiles + token // 64, mass, mask=(j < count) & (mass > 0), sem="relaxed")
        base += CHUNK
