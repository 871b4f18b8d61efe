"""Top-p or min-p without top-k: the threshold may lie anywhere among all tokens of a row.

An interval of values that holds it for certain is narrowed in rounds. Each reads the whole row once and sums the mass
above PIVOTS values; then one program a row chooses among those. The first pivots lie where a sample of the tiles says,
and evenly, in case it is wrong. The last pass sums for each tile what is kept for certain and lists the tokens in the
last interval; the threshold is found in the list, and what it keeps joins the sums. Within a launch, programs of a row
only read what earlier launches wrote, or add integers.

state: [n, 4] int64: low, high, mass above high, goal: mass at or above `low` reaches the goal, mass above `high` does
not. pivots: [n, PIVOTS] int32 keys. part: [n, blocks, PIVOTS] int64. tile_kept: [n, tiles] int64.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import load_values, masses, middle
from .pieces import allowed_quarter, finite, fixed, goal_of, key_of, lowest_key, mass_of, value_of
from .settle import min_p_key


@jit
def keep_interval(at: Arg, low: Arg, high: Arg, above: Arg, goal: Arg) -> None:
    tl.store(at, low.to(tl.int64))
    tl.store(at + 1, high.to(tl.int64))
    tl.store(at + 2, above)
    tl.store(at + 3, goal)


@jit
def evenly(low: Arg, high: Arg, j: Arg, COUNT: constexpr) -> Arg:
    """The key of the j-th of COUNT values between those of two keys, in (low, high]."""
    a, b = value_of(low), value_of(high)
    key = key_of(a + (b - a) * ((j + 1).to(tl.float32) / (COUNT + 1)))
    return tl.minimum(tl.maximum(key, tl.minimum(low, 2147483646) + 1), high)


@jit
def guess(
    logits: Arg, mask: Arg, vocabulary: Arg, words: Arg, tiles: Arg, share: Arg, low: Arg, high: Arg, top: Arg,
    scale: Arg, SAMPLE: constexpr,
) -> Arg:
    """Of SAMPLE tiles, spread over the row: values above which a little more and a little less than `share` of their
    mass lies. What it says need not be so."""
    s = tl.arange(0, SAMPLE)
    tile = tl.where(tiles > SAMPLE, s * tiles // SAMPLE, s)
    x0 = allowed_quarter(logits, mask, tile, vocabulary, words, 0)
    x1 = allowed_quarter(logits, mask, tile, vocabulary, words, 1)
    x2 = allowed_quarter(logits, mask, tile, vocabulary, words, 2)
    x3 = allowed_quarter(logits, mask, tile, vocabulary, words, 3)
    m0, m1, m2, m3 = mass_of(x0, top, scale), mass_of(x1, top, scale), mass_of(x2, top, scale), mass_of(x3, top, scale)
    total = tl.sum(tl.sum((m0 + m1) + (m2 + m3), 1), 0)
    # Three standard deviations where a sample of 8,192 tokens of normal logits is half masked.
    more, less = (share + 0.025) * total, (share - 0.025) * total
    a, b, c, d = low, high, low, high
    for _ in range(10):
        at, to = (a + b) * 0.5, (c + d) * 0.5
        first = tl.where(x0 >= at, m0, 0.0) + tl.where(x1 >= at, m1, 0.0)
        first += tl.where(x2 >= at, m2, 0.0) + tl.where(x3 >= at, m3, 0.0)
        second = tl.where(x0 >= to, m0, 0.0) + tl.where(x1 >= to, m1, 0.0)
        second += tl.where(x2 >= to, m2, 0.0) + tl.where(x3 >= to, m3, 0.0)
        wide = tl.sum(tl.sum(first, 1), 0) >= more
        near = tl.sum(tl.sum(second, 1), 0) >= less
        a, b = tl.where(wide, at, a), tl.where(wide, b, at)
        c, d = tl.where(near, to, c), tl.where(near, d, to)
    return a, d


@jit
def start(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, top_p: Arg, min_p: Arg, tile_best: Arg,
    tile_mass: Arg, best_out: Arg, state: Arg, pivots: Arg, listed: Arg, vocabulary: Arg, words: Arg, tiles: Arg,
    TILES: constexpr, PIVOTS: constexpr, SAMPLE: constexpr,
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
    top = finite(best)
    width = tl.load(tile_mass + i * tiles + tile, mask=tile < tiles, other=0.0) * mass_of(tile_top, top, scale)
    total = tl.sum(tl.where(tile_top > float("-inf"), fixed(width), 0), 0)
    left_out = (1.0 - p) * total.to(tl.float32) / 1099511627776.0
    # A little lower than the bound, for what rounding took from the sums.
    bound = best + (tl.log2(tl.maximum(left_out / vocabulary, 1e-30)) - 0.01) / scale
    low = tl.maximum(key_of(bound), lowest_key())
    high = tl.maximum(key_of(best), low)
    if p >= 1.0:
        low = tl.maximum(tl.minimum(min_p_key(best, t, tl.load(min_p + i)), high), lowest_key())
        high = low
    j = tl.arange(0, PIVOTS)
    keys = evenly(low, high, j - PIVOTS // 2, PIVOTS // 2)
    if low < high:
        source = logits + tl.load(row + i).to(tl.int64) * vocabulary
        allow = masks + tl.load(mask + i).to(tl.int64) * words
        a, b = guess(source, allow, vocabulary, words, tiles, p, value_of(low), top, top, scale, SAMPLE)
        near = key_of(a + (b - a) * (j.to(tl.float32) / (PIVOTS // 2 - 1)))
        near = tl.minimum(tl.maximum(near, tl.minimum(low, 2147483646) + 1), high)
        keys = tl.where(j < PIVOTS // 2, near, keys)
    tl.store(pivots + i * PIVOTS + j, keys)
    keep_interval(state + i * 4, low, high, total * 0, goal_of(p, total))
    tl.store(best_out + i, best)
    tl.store(listed + i, 0)


@jit
def narrow(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, best: Arg, state: Arg, pivots: Arg,
    part: Arg, vocabulary: Arg, words: Arg, blocks: Arg, BLOCK_TILES: constexpr, PIVOTS: constexpr,
) -> None:
    """One program a (block, draw). Effect: part = its masses at or above each pivot."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if tl.load(flat + i) == 0:
        return
    if tl.load(state + i * 4) == tl.load(state + i * 4 + 1):
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
        at = value_of(tl.load(pivots + i * PIVOTS + j))
        first = tl.where(x0 >= at, m0, 0.0) + tl.where(x1 >= at, m1, 0.0)
        second = tl.where(x2 >= at, m2, 0.0) + tl.where(x3 >= at, m3, 0.0)
        reached = fixed(tl.sum(tl.sum(first + second, 1), 0))
        tl.store(part + (i * blocks + block) * PIVOTS + j, reached)


@jit
def decide(
    flat: Arg, temperature: Arg, min_p: Arg, best_of: Arg, state: Arg, pivots: Arg, part: Arg, blocks: Arg,
    BLOCKS: constexpr, PIVOTS: constexpr, LAST: constexpr,
) -> None:
    """One program a draw. Effect: the interval and the pivots of the next round; min-p applied after the last."""
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    low, high = tl.load(state + i * 4).to(tl.int32), tl.load(state + i * 4 + 1).to(tl.int32)
    above, goal = tl.load(state + i * 4 + 2), tl.load(state + i * 4 + 3)
    j = tl.arange(0, PIVOTS)
    if low < high:
        b = tl.arange(0, BLOCKS)[:, None]
        sums = tl.load(part + (i * blocks + b) * PIVOTS + j[None, :], mask=b < blocks, other=0)
        reached = tl.sum(sums, 0)
        keys = tl.load(pivots + i * PIVOTS + j)
        enough = reached >= goal
        over = tl.min(tl.where(enough, high, keys - 1), 0)
        above = tl.maximum(above, tl.max(tl.where(enough, above, reached), 0))
        low = tl.maximum(low, tl.max(tl.where(enough, keys, low), 0))
        high = tl.maximum(over, low)
    if LAST:
        best = tl.load(best_of + i)
        floor = min_p_key(best, tl.load(temperature + i), tl.load(min_p + i))
        low = tl.maximum(low, tl.minimum(floor, key_of(best)))
        high = tl.maximum(high, low)
    else:
        tl.store(pivots + i * PIVOTS + j, evenly(low, high, j, PIVOTS))
    # Every thread has read the state before one of them changes it.
    tl.debug_barrier()
    keep_interval(state + i * 4, low, high, above, goal)


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
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, best_of: Arg, state: Arg, listed: Arg,
    token_list: Arg, value_list: Arg, tile_kept: Arg, vocabulary: Arg, words: Arg, tiles: Arg, capacity: Arg,
    BLOCK_TILES: constexpr,
) -> None:
    """Effect: tile_kept = the mass above the last interval; lists the tokens in it, in no order: only integer sums over
    the list follow."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if tl.load(flat + i) == 0:
        return
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    low, high = tl.load(state + i * 4).to(tl.int32), tl.load(state + i * 4 + 1).to(tl.int32)
    best = tl.load(best_of + i)
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
    tile_kept: Arg, cut: Arg, tiles: Arg, capacity: Arg, CHUNK: constexpr,
) -> None:
    """Effect: cut[i] = the key of the threshold; the masses of listed tokens at or above it are added to tile_kept."""
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    low, high = tl.load(state + i * 4).to(tl.int32), tl.load(state + i * 4 + 1).to(tl.int32)
    above, goal = tl.load(state + i * 4 + 2), tl.load(state + i * 4 + 3)
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
