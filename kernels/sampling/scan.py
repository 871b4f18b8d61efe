"""First pass: every logit is read once, and each tile of 64 tokens leaves its best value and its mass.

scan: one program a (draw, 64 tiles). Effect: tile_best[i, t] = best allowed logit of tile t, -inf where there is none;
tile_mass[i, t] = sum of e ** ((x - tile_best) / T) over its allowed tokens whose key is at least cut[i]; raw[i, b] =
(best, mass, number of NaN) of block b of the logits as they are, for log-probabilities.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .pieces import finite, key_of, mass_of, read_tiles

BLOCK_TILES = 64


@jit
def scan(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, temperature: Arg, flat: Arg, cut: Arg, tile_best: Arg,
    tile_mass: Arg, raw: Arg, vocabulary: Arg, words: Arg, tiles: Arg, blocks: Arg, CUT: constexpr, RAW: constexpr,
    BLOCK_TILES: constexpr,
) -> None:
    """CUT: only draws with flat[i], only masses. RAW: also the raw statistics."""
    i = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    if CUT:
        if tl.load(flat + i) == 0:
            return
    tile = block * BLOCK_TILES + tl.arange(0, BLOCK_TILES)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    x, allowed = read_tiles(source, allow, tile, vocabulary, words, BLOCK_TILES)
    number = x == x
    x = tl.where(number, x, float("-inf"))
    if RAW:
        best = tl.max(tl.max(x, 1), 0)
        at = raw + (i * blocks + block) * 3
        tl.store(at, best)
        tl.store(at + 1, tl.sum(tl.sum(mass_of(x, finite(best), 1.4426950408889634), 1), 0))
        tl.store(at + 2, tl.sum(tl.sum(tl.where(number, 0.0, 1.0), 1), 0))
    x = tl.where(allowed, x, float("-inf"))
    best_of_tile = tl.max(x, 1)
    kept = x > float("-inf")
    if CUT:
        kept = kept & (key_of(x) >= tl.load(cut + i))
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    mass = tl.where(kept, mass_of(x, finite(best_of_tile)[:, None], scale), 0.0)
    there = tile < tiles
    if not CUT:
        tl.store(tile_best + i * tiles + tile, best_of_tile, mask=there)
    tl.store(tile_mass + i * tiles + tile, tl.sum(mass, 1), mask=there)
