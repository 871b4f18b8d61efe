"""First pass: every logit is read once, and each tile of 64 tokens leaves its best value and its mass.

scan: one program a (block of tiles, draw). Effect: tile_best[i, t] = best allowed logit of tile t, -inf where there is
none; tile_mass[i, t] = sum of e ** ((x - tile_best) / T) over its allowed tokens; raw[i, b] = (best, mass, whether one
is NaN) of block b of the logits as they are, for log-probabilities. For flat draws above[i, j, t] = the part of
tile_mass at or above pivots[i, j], where the threshold has to be searched (flat[i] = 1).
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .pieces import best_of, finite, join_in, mass_of, read_quarter, sum_of


@jit
def kept_of(x: Arg, m: Arg, at: Arg, sum: Arg) -> Arg:
    """sum + m where x reaches `at`: a product that joins its sum takes two instructions, a choice and a sum three."""
    return m * tl.where(x >= at, 1.0, 0.0) + sum


@jit
def scan(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, temperature: Arg, flat: Arg, pivots: Arg, tile_best: Arg,
    tile_mass: Arg, above: Arg, raw: Arg, vocabulary: Arg, words: Arg, tiles: Arg, blocks: Arg, RAW: constexpr,
    PIVOTS: constexpr, BLOCK_TILES: constexpr, OVERLAP: constexpr,
) -> None:
    """RAW: also the raw statistics. PIVOTS: 0 where no draw is flat."""
    join_in(OVERLAP)
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    tile = block * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    x0, a0 = read_quarter(source, allow, tile, vocabulary, words, 0)
    x1, a1 = read_quarter(source, allow, tile, vocabulary, words, 1)
    x2, a2 = read_quarter(source, allow, tile, vocabulary, words, 2)
    x3, a3 = read_quarter(source, allow, tile, vocabulary, words, 3)
    n0, n1, n2, n3 = x0 == x0, x1 == x1, x2 == x2, x3 == x3
    if RAW:
        at = raw + (i * blocks + block) * 3
        none = (n0 & n1) & (n2 & n3)
        tl.store(at + 2, tl.max(tl.max(tl.where(none, 0.0, 1.0), 1), 0))
    x0, x1 = tl.where(n0, x0, float("-inf")), tl.where(n1, x1, float("-inf"))
    x2, x3 = tl.where(n2, x2, float("-inf")), tl.where(n3, x3, float("-inf"))
    if RAW:
        raw_best = best_of(x0, x1, x2, x3)
        top = finite(raw_best)[:, None]
        unit = 1.4426950408889634
        m0, m1, m2, m3 = mass_of(x0, top, unit), mass_of(x1, top, unit), mass_of(x2, top, unit), mass_of(x3, top, unit)
        best = tl.max(raw_best, 0)
        tl.store(at, best)
        tl.store(at + 1, tl.sum(sum_of(m0, m1, m2, m3) * mass_of(raw_best, finite(best), unit), 0))
    x0, x1 = tl.where(a0, x0, float("-inf")), tl.where(a1, x1, float("-inf"))
    x2, x3 = tl.where(a2, x2, float("-inf")), tl.where(a3, x3, float("-inf"))
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    best_of_tile = best_of(x0, x1, x2, x3)
    top = finite(best_of_tile)[:, None]
    m0, m1, m2, m3 = mass_of(x0, top, scale), mass_of(x1, top, scale), mass_of(x2, top, scale), mass_of(x3, top, scale)
    there = tile < tiles
    tl.store(tile_best + i * tiles + tile, best_of_tile, mask=there)
    tl.store(tile_mass + i * tiles + tile, sum_of(m0, m1, m2, m3), mask=there)
    if PIVOTS:
        if tl.load(flat + i) == 1:
            for j in tl.static_range(PIVOTS):
                v = tl.load(pivots + i * PIVOTS + j)
                kept = kept_of(x3, m3, v, kept_of(x2, m2, v, kept_of(x1, m1, v, kept_of(x0, m0, v, 0.0))))
                tl.store(above + (i * PIVOTS + j) * tiles + tile, tl.sum(kept, 1), mask=there)
