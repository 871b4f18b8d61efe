"""Top-p or min-p without top-k: the threshold may lie anywhere among all tokens of a row.

Each round reads the whole row once and sums the mass above PIVOTS values inside an interval that holds the threshold;
the next round starts by choosing among those. The last pass sums for each tile what is kept for certain and lists the
tokens in the last interval; the threshold is found in the list, and what it keeps joins the sums. Within a launch,
programs of a row only read what earlier launches wrote, or add integers.

state: [n, rounds + 1, 4] int64: low, high, mass above high, goal: mass at or above `low` reaches the goal, mass above
`high` does not. part: [rounds, n, blocks, PIVOTS] int64. tile_kept: [n, tiles] int64.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import load_values, masses, middle
from .pieces import allowed_quarter, finite, fixed, goal_of, key_of, lowest_key, mass_of, value_of
from .settle import min_p_key


@jit
def keep_interval(at: Arg, low: Arg, high: Arg, above: Arg, goal: Arg, here: Arg) -> None:
    tl.store(at, low.to(tl.int64), mask=here)
    tl.store(at + 1, high.to(tl.int64), mask=here)
    tl.store(at + 2, above, mask=here)
    tl.store(at + 3, goal, mask=here)


@jit
def start(
    flat: Arg, temperature: Arg, top_p: Arg, min_p: Arg, tile_best: Arg, tile_mass: Arg, best_out: Arg,
    state: Arg, listed: Arg, vocabulary: Arg, tiles: Arg, TILES: constexpr, ROUNDS: constexpr,
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
    high = tl.maximum(key_of(best), low)
    if p >= 1.0:
        low = tl.maximum(tl.minimum(min_p_key(best, t, tl.load(min_p + i)), high), lowest_key())
        high = low
    at = state + i * (ROUNDS + 1) * 4
    keep_interval(at, low, high, total * 0, goal_of(p, total), True)
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
    if low == high:
        return
    tile = block * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    x0 = allowed_quarter(source, allow, tile, vocabulary, words, 0)
    x1 = allowed_quarter(source, allow, tile, vocabulary, words, 1)
    x2 = allowed_quarter(source, allow, tile, vocabulary, words, 2)
    x3 = allowed_quarter(source, allow, tile, vocabulary, words, 3)
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    top = finite(tl.load(best + i))
    m0, m1, m2, m3 = mass_of(x0, top, scale), mass_of(x1, top, scale), mass_of(x2, top, scale), mass_of(x3, top, scale)
    for j in tl.static_range(PIVOTS):
        at = value_of(pivot(low, high, (low & 0) + j, PIVOTS))
        first = tl.where(x0 >= at, m0, 0.0) + tl.where(x1 >= at, m1, 0.0)
        second = tl.where(x2 >= at, m2, 0.0) + tl.where(x3 >= at, m3, 0.0)
        reached = fixed(tl.sum(tl.sum(first + second, 1), 0))
        tl.store(part + ((ROUND * n + i) * blocks + block) * PIVOTS + j, reached)


@jit
def list_quarter(
    x: Arg, tile: Arg, low: Arg, high: Arg, listed: Arg, tokens: Arg, values: Arg, QUARTER: constexpr
) -> None:
    """Lists the tokens whose value is in [low, high]."""
    within = (x >= low) & (x <= high)
    at = tl.atomic_add(listed + tl.zeros_like(x).to(tl.int32), 1, mask=within)
    tl.store(values + at, x, mask=within)
    tl.store(tokens + at, tile[:, None] * 64 + QUARTER * 16 + tl.arange(0, 16)[None, :], mask=within)


@jit
def certain(x: Arg, low: Arg, high: Arg, single: Arg, top: Arg, scale: Arg) -> Arg:
    """Masses above the interval, and in it where it is a single value."""
    return tl.where((x > high) | (single & (x >= low)), mass_of(x, top, scale), 0.0)


@jit
def collect(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, min_p: Arg, best_of: Arg, state: Arg,
    part: Arg, listed: Arg, token_list: Arg, value_list: Arg, tile_kept: Arg, n: Arg, vocabulary: Arg, words: Arg,
    tiles: Arg, blocks: Arg, capacity: Arg,
    BLOCK_TILES: constexpr, BLOCKS: constexpr, PIVOTS: constexpr, ROUNDS: constexpr,
) -> None:
    """Effect: tile_kept = the mass above the last interval; lists the tokens in it, in no order: only integer sums over
    the list follow."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if tl.load(flat + i) == 0:
        return
    low, high, above, goal = interval(state, part, i, n, blocks, ROUNDS, ROUNDS, BLOCKS, PIVOTS)
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    best = tl.load(best_of + i)
    low = tl.maximum(low, tl.minimum(min_p_key(best, t, tl.load(min_p + i)), key_of(best)))
    high = tl.maximum(high, low)
    keep_interval(state + (i * (ROUNDS + 1) + ROUNDS) * 4, low, high, above, goal, block == 0)
    tile = block * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    x0 = allowed_quarter(source, allow, tile, vocabulary, words, 0)
    x1 = allowed_quarter(source, allow, tile, vocabulary, words, 1)
    x2 = allowed_quarter(source, allow, tile, vocabulary, words, 2)
    x3 = allowed_quarter(source, allow, tile, vocabulary, words, 3)
    a, b, single, top = value_of(low), value_of(high), low == high, finite(best)
    first = certain(x0, a, b, single, top, scale) + certain(x1, a, b, single, top, scale)
    mass = first + certain(x2, a, b, single, top, scale) + certain(x3, a, b, single, top, scale)
    tl.store(tile_kept + i * tiles + tile, fixed(tl.sum(mass, 1)), mask=tile < tiles)
    if single == 0:
        count, tokens, values = listed + i, token_list + i * capacity, value_list + i * capacity
        list_quarter(x0, tile, a, b, count, tokens, values, 0)
        list_quarter(x1, tile, a, b, count, tokens, values, 1)
        list_quarter(x2, tile, a, b, count, tokens, values, 2)
        list_quarter(x3, tile, a, b, count, tokens, values, 3)


@jit
def finish(
    flat: Arg, temperature: Arg, best_of: Arg, state: Arg, listed: Arg, token_list: Arg, value_list: Arg,
    tile_kept: Arg, cut: Arg, tiles: Arg, capacity: Arg, CHUNK: constexpr, ROUNDS: constexpr,
) -> None:
    """Effect: cut[i] = the key of the threshold; the masses of listed tokens at or above it are added to tile_kept."""
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
    tl.store(cut + i, low)
    base = count & 0
    while base < count:
        j = base + tl.arange(0, CHUNK)
        token = tl.load(token_list + i * capacity + j, mask=j < count, other=0)
        mass = masses(load_values(values, base, count, CHUNK), low, best, scale)
        tl.atomic_add(tile_kept + i * tiles + token // 64, mass, mask=(j < count) & (mass > 0))
        base += CHUNK
