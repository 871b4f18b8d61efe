"""Top-p without top-k: the threshold may lie anywhere among all tokens of a row.

Each round reads the whole row once and sums the mass above PIVOTS values inside an interval that holds the threshold;
the next round starts by choosing among those. The tokens in the last interval are listed, and the threshold is found in
the list. Between two launches a program of any row may run; within one, programs of a row only read what earlier
launches wrote, or add integers.

state: [n, rounds + 1, 4] int64: low, high, mass above high, goal: mass at or above `low` reaches the goal, mass above
`high` does not. part: [rounds, n, blocks, PIVOTS] int64.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import load_values, masses, middle
from .pieces import finite, fixed, goal_of, key_of, lowest_key, mass_of, read_tiles, value_of
from .settle import min_p_key


@jit
def read_block(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, i: Arg, block: Arg, vocabulary: Arg, words: Arg,
    BLOCK_TILES: constexpr,
) -> Arg:
    """[BLOCK_TILES, 64] logits, -inf where they are not allowed or NaN."""
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    tile = block * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    x, allowed = read_tiles(source, allow, tile, vocabulary, words, BLOCK_TILES)
    return tl.where(allowed & (x == x), x, float("-inf"))


@jit
def keep_interval(at: Arg, low: Arg, high: Arg, above: Arg, goal: Arg, here: Arg) -> None:
    tl.store(at, low.to(tl.int64), mask=here)
    tl.store(at + 1, high.to(tl.int64), mask=here)
    tl.store(at + 2, above, mask=here)
    tl.store(at + 3, goal, mask=here)


@jit
def start(
    flat: Arg, temperature: Arg, top_p: Arg, tile_best: Arg, tile_mass: Arg, best_out: Arg, state: Arg, listed: Arg,
    vocabulary: Arg, tiles: Arg, TILES: constexpr, ROUNDS: constexpr,
) -> None:
    """Bounds the threshold: what lies below `low` has at most the mass that top-p leaves out."""
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    t, p = tl.load(temperature + i), tl.load(top_p + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    tile = tl.arange(0, TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    best = tl.max(tile_top, 0)
    width = tl.load(tile_mass + i * tiles + tile, mask=tile < tiles, other=0.0) * mass_of(tile_top, finite(best), scale)
    total = tl.sum(tl.where(tile_top > float("-inf"), fixed(width), 0), 0)
    left_out = (1.0 - p) * total.to(tl.float32) / 1099511627776.0
    # A little lower than the bound, for what rounding took from the sums.
    bound = best + (tl.log2(tl.maximum(left_out / vocabulary, 1e-30)) - 0.01) / scale
    low = tl.maximum(key_of(bound), lowest_key())
    at = state + i * (ROUNDS + 1) * 4
    keep_interval(at, low, tl.maximum(key_of(best), low), total * 0, goal_of(p, total), True)
    tl.store(best_out + i, best)
    tl.store(listed + i, 0)


@jit
def pivot(low: Arg, high: Arg, j: Arg, PIVOTS: constexpr) -> Arg:
    """The key of the j-th of PIVOTS values between those of two keys, in (low, high]."""
    a, b = value_of(low), value_of(high)
    key = key_of(a + (b - a) * ((j + 1).to(tl.float32) / (PIVOTS + 1)))
    return tl.minimum(tl.maximum(key, tl.minimum(low, 2147483646) + 1), high)


@jit
def interval(
    state: Arg, part: Arg, i: Arg, n: Arg, blocks: Arg, ROUND: constexpr, ROUNDS: constexpr, BLOCKS: constexpr,
    PIVOTS: constexpr,
) -> Arg:
    """(low, high, above, goal) at the start of a round, from the sums of the round before it."""
    before = ROUND - 1 if ROUND > 0 else 0
    at = state + (i * (ROUNDS + 1) + before) * 4
    low, high = tl.load(at).to(tl.int32), tl.load(at + 1).to(tl.int32)
    above, goal = tl.load(at + 2), tl.load(at + 3)
    if ROUND > 0:
        b = tl.arange(0, BLOCKS)[:, None]
        j = tl.arange(0, PIVOTS)
        sums = tl.load(
            part + ((before * n + i) * blocks + b) * PIVOTS + j[None, :], mask=b < blocks, other=0,
        )
        reached = tl.sum(sums, 0)
        keys = pivot(low, high, j, PIVOTS)
        enough = reached >= goal
        new_low = tl.maximum(low, tl.max(tl.where(enough, keys, low), 0))
        over = tl.min(tl.where(enough, high, keys - 1), 0)
        above = tl.maximum(above, tl.max(tl.where(enough, above, reached), 0))
        low, high = new_low, tl.maximum(over, new_low)
    return low, high, above, goal


@jit
def narrow(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, best: Arg, state: Arg, part: Arg,
    n: Arg, vocabulary: Arg, words: Arg, blocks: Arg,
    BLOCK_TILES: constexpr, BLOCKS: constexpr, PIVOTS: constexpr, ROUND: constexpr, ROUNDS: constexpr,
) -> None:
    """One program a (draw, block)."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if tl.load(flat + i) == 0:
        return
    low, high, above, goal = interval(state, part, i, n, blocks, ROUND, ROUNDS, BLOCKS, PIVOTS)
    if ROUND > 0:
        keep_interval(state + (i * (ROUNDS + 1) + ROUND) * 4, low, high, above, goal, block == 0)
    x = read_block(logits, masks, row, mask, i, block, vocabulary, words, BLOCK_TILES)
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    mass = mass_of(x, finite(tl.load(best + i)), scale)
    key = key_of(x)
    for j in tl.static_range(PIVOTS):
        at = pivot(low, high, (low & 0) + j, PIVOTS)
        reached = fixed(tl.sum(tl.sum(tl.where(key >= at, mass, 0.0), 1), 0))
        tl.store(part + ((ROUND * n + i) * blocks + block) * PIVOTS + j, reached)


@jit
def collect(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, state: Arg, part: Arg, listed: Arg, value_list: Arg,
    n: Arg, vocabulary: Arg, words: Arg, blocks: Arg, capacity: Arg,
    BLOCK_TILES: constexpr, BLOCKS: constexpr, PIVOTS: constexpr, ROUNDS: constexpr,
) -> None:
    """Lists the values in the last interval, in no order: only integer sums over the list follow."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if tl.load(flat + i) == 0:
        return
    low, high, above, goal = interval(state, part, i, n, blocks, ROUNDS, ROUNDS, BLOCKS, PIVOTS)
    keep_interval(state + (i * (ROUNDS + 1) + ROUNDS) * 4, low, high, above, goal, block == 0)
    if low < high:
        x = read_block(logits, masks, row, mask, i, block, vocabulary, words, BLOCK_TILES)
        x = tl.reshape(x, (BLOCK_TILES * 64,))
        key = key_of(x)
        keep = (key >= low) & (key <= high)
        flags = keep.to(tl.int32)
        first = tl.atomic_add(listed + i, tl.sum(flags, 0))
        tl.store(value_list + i * capacity + first + tl.cumsum(flags, 0) - flags, x, mask=keep)


@jit
def finish(
    flat: Arg, temperature: Arg, min_p: Arg, best_of: Arg, state: Arg, listed: Arg, value_list: Arg, cut: Arg,
    capacity: Arg, CHUNK: constexpr, ROUNDS: constexpr,
) -> None:
    """Effect: cut[i] = the key of the threshold, min-p included."""
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    at = state + (i * (ROUNDS + 1) + ROUNDS) * 4
    low, high = tl.load(at).to(tl.int32), tl.load(at + 1).to(tl.int32)
    above, goal = tl.load(at + 2), tl.load(at + 3)
    best, t = tl.load(best_of + i), tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    count = tl.load(listed + i)
    values = value_list + i * capacity
    first = load_values(values, count & 0, count, CHUNK)
    while low < high:
        middle_key = middle(low, high)
        reached = above + tl.sum(masses(first, middle_key, best, scale), 0)
        base = (count & 0) + CHUNK
        while base < count:
            reached += tl.sum(masses(load_values(values, base, count, CHUNK), middle_key, best, scale), 0)
            base += CHUNK
        low = tl.where(reached >= goal, middle_key, low)
        high = tl.where(reached >= goal, high, middle_key - 1)
    floor = tl.minimum(min_p_key(best, t, tl.load(min_p + i)), key_of(best))
    tl.store(cut + i, tl.maximum(low, floor))
