"""Top-p or min-p without top-k: where the threshold lies, before any logit is read a second time.

guess: from a sample of the tiles, before the scan, values at which about top_p of the mass lies above. What it says
need not be so; the scan sums what really lies above them. bracket: after the scan, one program a draw; what it says is
certain.

state: [n, 5] int64: low, high, the pivot just above high (PIVOTS when there is none), the mass at or above that pivot,
goal. The threshold is the largest key in [low, high] at or above which there is a mass of `goal`; low when none has it.
Where flat[i] is 2, min-p alone, the state is the threshold and the best key: nothing is to be searched.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .pieces import finite, fixed, goal_of, join_in, key_of, lowest_key, mass_of, min_p_key, read, value_of


@jit
def guess(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, flat: Arg, temperature: Arg, top_p: Arg, pivots: Arg,
    vocabulary: Arg, words: Arg, tiles: Arg, PIVOTS: constexpr, SAMPLE: constexpr, BUCKETS: constexpr,
    OVERLAP: constexpr,
) -> None:
    """pivots: [n, PIVOTS] float32, the highest first. SAMPLE: tiles, spread over the row. BUCKETS: each
    of masses within a factor of e ** (1 / 8). Few, since a histogram asks each value for each bit of its bucket."""
    join_in(OVERLAP)
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) != 1:
        return
    t, p = tl.load(temperature + i), tl.load(top_p + i)
    s = tl.arange(0, SAMPLE * 64)
    token = tl.where(tiles > SAMPLE, (s // 64) * tiles // SAMPLE, s // 64) * 64 + s % 64
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    x = read(source, masks + tl.load(mask + i).to(tl.int64) * words, token, token < vocabulary)
    top = finite(tl.max(x, 0))
    below = tl.minimum(tl.maximum((top - x) * (8.0 / t), 0.0), BUCKETS - 1.0)
    count = tl.histogram(below.to(tl.int32), BUCKETS).to(tl.float32)
    # The last bucket holds what is masked.
    b = tl.arange(0, BUCKETS)
    each = tl.where(b < BUCKETS - 1, tl.exp2((b.to(tl.float32) + 0.5) * -0.18033688011112042), 0.0)
    mass = count * each
    total = tl.sum(mass, 0)
    # Standard deviation of the share above a value, in a sample of this many equal tokens.
    deviation = tl.sqrt(tl.maximum(p * (1.0 - p), 0.0) * tl.sum(mass * each, 0))
    j = tl.arange(0, PIVOTS)
    side = (2 * j - (PIVOTS - 1)).to(tl.float32) / (PIVOTS - 1)
    goal = p * total + deviation * side * (2.8 + 2.2 * side * side)
    running = tl.cumsum(mass, 0)
    short = running[:, None] < goal[None, :]
    full = tl.sum(short.to(tl.int32), 0)
    before = tl.sum(tl.where(short, mass[:, None], 0.0), 0)
    own = tl.sum(tl.where(b[:, None] == full[None, :], mass[:, None], 0.0), 0)
    part = tl.minimum(tl.maximum((goal - before) / tl.maximum(own, 1e-30), 0.0), 1.0)
    tl.store(pivots + i * PIVOTS + j, top - (full.to(tl.float32) + part) * (t / 8.0))


@jit
def raise_low(tile_top: Arg, best_mass: Arg, goal: Arg, low: Arg, high: Arg) -> Arg:
    """A key in [low, high] above which the best tokens of the tiles alone have the goal; low when none was found."""
    a, b = value_of(low), value_of(high)
    for _ in range(14):
        at = a + (b - a) * 0.5
        enough = tl.sum(tl.where(tile_top >= at, best_mass, 0), 0) >= goal
        a, b = tl.where(enough, at, a), tl.where(enough, b, at)
    return tl.maximum(low, tl.minimum(key_of(a), high))


@jit
def bracket(
    flat: Arg, temperature: Arg, top_p: Arg, min_p: Arg, pivots: Arg, tile_best: Arg, tile_mass: Arg, above: Arg,
    state: Arg, listed: Arg, vocabulary: Arg, tiles: Arg, TILES: constexpr, PIVOTS: constexpr, LONG: constexpr,
    OVERLAP: constexpr,
) -> None:
    """LONG: tokens of a list from which a closer bound is worth its time."""
    join_in(OVERLAP)
    i = tl.program_id(0).to(tl.int64)
    if tl.load(flat + i) == 0:
        return
    t, p = tl.load(temperature + i), tl.load(top_p + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    tile = tl.arange(0, TILES)
    there = tile < tiles
    tile_top = tl.load(tile_best + i * tiles + tile, mask=there, other=float("-inf"))
    best = tl.max(tile_top, 0)
    if tl.load(flat + i) == 2:
        threshold = tl.minimum(min_p_key(best, t, tl.load(min_p + i)), tl.maximum(key_of(best), lowest_key()))
        tl.store(state + i * 5, tl.maximum(threshold, lowest_key()).to(tl.int64))
        tl.store(state + i * 5 + 1, key_of(best).to(tl.int64))
        return
    top = finite(best)
    best_mass = mass_of(tile_top, top, scale)
    total = tl.sum(fixed(tl.load(tile_mass + i * tiles + tile, mask=there, other=0.0) * best_mass), 0)
    goal = goal_of(p, total)
    high = tl.maximum(key_of(best), lowest_key())
    least = tl.minimum(min_p_key(best, t, tl.load(min_p + i)), high)
    # What lies below has at most the mass that top-p leaves out; a little lower, for what rounding took from the sums.
    left_out = (1.0 - p) * total.to(tl.float32) / 1099511627776.0
    low = key_of(best + (tl.log2(tl.maximum(left_out / vocabulary, 1e-30)) - 0.01) / scale)
    low = tl.minimum(tl.maximum(low, lowest_key()), high)
    j = tl.arange(0, PIVOTS)
    at = key_of(tl.load(pivots + i * PIVOTS + j))
    kept = tl.load(above + (i * PIVOTS + j[:, None]) * tiles + tile[None, :], mask=there[None, :], other=0.0)
    mass = tl.sum(fixed(kept * best_mass[None, :]), 1)
    below, over = (mass >= goal) & (at > low), (mass < goal) & (at <= high)
    reached, passed = tl.min(tl.where(below, mass, total), 0), tl.max(tl.where(over, mass, 0), 0)
    # The pivots descend.
    pivot = tl.max(tl.where(over, j, -1), 0)
    pivot = tl.where(pivot < 0, PIVOTS, pivot)
    low, high = tl.max(tl.where(below, at, low), 0), tl.min(tl.where(over, at - 1, high), 0)
    low = tl.minimum(low, high)
    lowest = tl.exp2(tl.maximum(value_of(low) - top, -200.0 / scale) * scale)
    if (reached - passed).to(tl.float32) > LONG * (lowest * 1099511627776.0):
        low = raise_low(tile_top, fixed(best_mass), goal, low, high)
    if (p >= 1.0) | (least > high):
        low = tl.maximum(least, lowest_key())
        high, passed, pivot = low, goal * 0, pivot * 0 + PIVOTS
    low = tl.maximum(low, least)
    out = state + i * 5
    tl.store(out, low.to(tl.int64))
    tl.store(out + 1, high.to(tl.int64))
    tl.store(out + 2, pivot.to(tl.int64))
    tl.store(out + 3, passed)
    tl.store(out + 4, goal)
    tl.store(listed + i, 0)
