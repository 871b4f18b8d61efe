"""Last pass: one program a draw finds the threshold and the token.

A plain draw inverts over the masses of the tiles, then over the tokens of one tile; so does a flat one, over the masses
that `nucleus.py` left. With top-k the tokens that can be kept are few: the k-th best tile bounds the k-th best token
from below, only tiles that reach the bound are read again, and their tokens at or above it are listed.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import bound_kth, count_cut, gather_tiles, gather_tokens, invert, mass_cut, small_cuts, total_mass
from .pieces import finite, fixed, goal_of, join_in, key_of, lowest_key, mass_of, min_p_key, read, uniform


@jit
def along(x: Arg) -> Arg:
    """Sums of the last axis: of one draw a number, of several [draws, 1]."""
    return tl.sum(x, 0) if len(x.shape) == 1 else tl.sum(x, 1, keep_dims=True)


@jit
def best_along(x: Arg) -> Arg:
    return tl.max(x, 0) if len(x.shape) == 1 else tl.max(x, 1, keep_dims=True)


@jit
def greedy(logits: Arg, mask: Arg, vocabulary: Arg, tile: Arg) -> Arg:
    """The lowest token of the tile that holds its best."""
    token = tile * 64 + tl.arange(0, 64)
    x = read(logits, mask, token, token < vocabulary)
    return tl.min(tl.where(x == tl.max(x, 0), token, 2147483647), 0)


@jit
def from_tile(
    logits: Arg, mask: Arg, vocabulary: Arg, tile: Arg, low: Arg, scale: Arg, passed: Arg, width: Arg
) -> Arg:
    """The token of the tile at which the share passed / width of its mass is passed."""
    token = tile * 64 + tl.arange(0, 64)
    x = read(logits, mask, token, token < vocabulary)
    mass = tl.where(key_of(x) >= low, fixed(mass_of(x, finite(best_along(x)), scale)), 0)
    total = along(mass)
    share = passed.to(tl.float64) / width.to(tl.float64)
    goal = tl.minimum(goal_of(share, total), total - 1)
    return tile * 64 + along((tl.cumsum(mass, len(mass.shape) - 1) <= goal).to(tl.int32))


@jit
def from_tiles(
    logits: Arg, mask: Arg, vocabulary: Arg, width: Arg, total: Arg, low: Arg, scale: Arg, u: Arg
) -> Arg:
    """Inverts over all tiles. width: [TILES] int64 masses, total their sum. low: the threshold. u: of one draw, or of
    several that have all else in common, [draws, 1]."""
    goal = tl.minimum(goal_of(u, total), total - 1)
    running = tl.cumsum(width, 0)
    tile = along((running <= goal).to(tl.int32))
    passed = goal - along(tl.where(running <= goal, width, 0))
    own = along(tl.where(tl.arange(0, width.shape[0]) == tile, width, 0))
    return from_tile(logits, mask, vocabulary, tile, low, scale, passed, own)


@jit
def from_list(
    logits: Arg, mask: Arg, vocabulary: Arg, tile_best: Arg, best: Arg, temperature: Arg, top_k: Arg, top_p: Arg,
    min_p: Arg, scale: Arg, u: Arg, tile_list: Arg, tokens: Arg, values: Arg, TILES: constexpr, CHUNK: constexpr,
) -> Arg:
    """(token, key of the threshold, mass at or above it)."""
    high = key_of(best)
    low = lowest_key()
    floor = min_p_key(best, temperature, min_p)
    if top_k > 0:
        keys = key_of(tile_best)
        least = tl.min(tl.where(keys >= low, keys, high), 0)
        low = tl.where(tl.sum((keys >= low).to(tl.int32), 0) >= top_k, bound_kth(keys, top_k, least, high, 8), low)
    if top_p >= 1.0:
        low = tl.maximum(low, tl.minimum(floor, high))
    n_tiles = gather_tiles(tile_best, low, tile_list, TILES)
    tl.debug_barrier()
    count = gather_tokens(logits, mask, vocabulary, tile_list, n_tiles, low, tokens, values, 2 * CHUNK)
    tl.debug_barrier()
    if count <= 128:
        low = small_cuts(values, count, top_k, top_p, low, best, scale, 128)
    else:
        if (top_k > 0) & (top_k < count):
            low = count_cut(values, count, top_k, low, high, CHUNK)
        if top_p < 1.0:
            goal = goal_of(top_p, total_mass(values, count, low, best, scale, CHUNK))
            low = mass_cut(values, count, goal, low, high, best, scale, CHUNK)
    low = tl.maximum(low, tl.minimum(floor, high))
    total = total_mass(values, count, low, best, scale, CHUNK)
    goal = tl.minimum(goal_of(u, total), total - 1)
    return invert(tokens, values, count, low, goal, best, scale, CHUNK), low, total


@jit
def log_mass(raw: Arg, blocks: Arg, BLOCKS: constexpr) -> Arg:
    """log of the mass of the raw logits, from the statistics of their blocks."""
    b = tl.arange(0, BLOCKS)
    block_best = tl.load(raw + b * 3, mask=b < blocks, other=float("-inf"))
    block_mass = tl.load(raw + b * 3 + 1, mask=b < blocks, other=0.0)
    best = tl.max(block_best, 0)
    mass = block_mass * mass_of(block_best, finite(best), 1.4426950408889634)
    return best + tl.log2(tl.sum(mass, 0)) * 0.6931471805599453


@jit
def report(
    logits: Arg, raw: Arg, chosen: Arg, blocks: Arg, logprob_out: Arg, BLOCKS: constexpr
) -> Arg:
    """Effect: the log-probability of the chosen token by the raw logits, NaN for none. Returns 1 where a logit is
    NaN."""
    known = chosen >= 0
    x = tl.load(logits + tl.where(known, chosen, 0)).to(tl.float32)
    x = tl.where(x == x, x, float("-inf"))
    total = log_mass(raw, blocks, BLOCKS)
    tl.store(logprob_out, tl.where(known & (tl.abs(total) < float("inf")), x - finite(total), float("nan")))
    b = tl.arange(0, BLOCKS)
    nans = tl.load(raw + b * 3 + 2, mask=b < blocks, other=0.0)
    return (tl.sum(nans, 0) > 0.0).to(tl.int32)


@jit
def from_any(
    logits: Arg, mask: Arg, vocabulary: Arg, tile_best: Arg, width: Arg, best: Arg, temperature: Arg, top_k: Arg,
    top_p: Arg, min_p: Arg, low: Arg, scale: Arg, u: Arg, listed: Arg, tile_list: Arg, tokens: Arg, values: Arg,
    LISTS: constexpr, TILES: constexpr, CHUNK: constexpr,
) -> Arg:
    """(token, key of the threshold, mass at or above it). listed: with top-k; else `low` is the threshold."""
    if LISTS:
        if listed:
            chosen, low, total = from_list(
                logits, mask, vocabulary, tile_best, best, temperature, top_k, top_p, min_p, scale, u, tile_list,
                tokens, values, TILES, CHUNK,
            )
        else:
            total = tl.sum(width, 0)
            chosen = from_tiles(logits, mask, vocabulary, width, total, low, scale, u)
    else:
        total = tl.sum(width, 0)
        chosen = from_tiles(logits, mask, vocabulary, width, total, low, scale, u)
    return chosen, low, total


@jit
def leave(
    i: Arg, chosen: Arg, best: Arg, raw: Arg, raw_logits: Arg, raw_row: Arg, token_out: Arg, logprob_out: Arg,
    nan_out: Arg, error: Arg, vocabulary: Arg, blocks: Arg, BLOCKS: constexpr, RAW: constexpr, CHECKED: constexpr,
) -> None:
    """Effect: the results of draw i."""
    code = chosen & 0
    if CHECKED:
        code = tl.load(error + i) | tl.where(best > float("-inf"), 0, 4)
        chosen = tl.where(code == 0, chosen, -1)
    tl.store(token_out + i, chosen)
    if RAW:
        own = raw_logits + tl.load(raw_row + i).to(tl.int64) * vocabulary
        nan = report(own, raw + i * blocks * 3, chosen, blocks, logprob_out + i, BLOCKS)
        tl.store(nan_out + i, nan)
        code |= nan
    if CHECKED:
        tl.store(error + i, code)


@jit
def settle(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, target: Arg, temperature: Arg, top_k: Arg, top_p: Arg, min_p: Arg,
    seed: Arg, position: Arg, flat: Arg, cut: Arg, kept: Arg, tile_best: Arg, tile_mass: Arg, tile_kept: Arg,
    raw: Arg, raw_logits: Arg, raw_row: Arg, tile_list: Arg, token_list: Arg, value_list: Arg, token_out: Arg,
    logprob_out: Arg, nan_out: Arg, error: Arg, vocabulary: Arg, words: Arg, tiles: Arg, blocks: Arg, capacity: Arg,
    TILES: constexpr, BLOCKS: constexpr, CHUNK: constexpr, FLAT: constexpr, LISTS: constexpr, RAW: constexpr,
    PROCESSED: constexpr, CHECKED: constexpr, OVERLAP: constexpr,
) -> None:
    """FLAT: some draws have flat[i], a threshold cut[i], masses tile_kept[i]. LISTS: others have top-k. raw_logits,
    raw_row: what `raw` was made from (logits and row themselves unless those were edited). PROCESSED: also where there
    is a target, leave cut[i] and kept[i], the int64 mass at or above it, 0 where one token has all. CHECKED: add to
    error[i]."""
    i = tl.program_id(0).to(tl.int64)
    u = uniform(tl.load(seed + i), tl.load(position + i))
    k, p, least = tl.load(top_k + i), tl.load(top_p + i), tl.load(min_p + i)
    join_in(OVERLAP)
    tile = tl.arange(0, TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    mass = tl.load(tile_mass + i * tiles + tile, mask=tile < tiles, other=0.0)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    t = tl.load(temperature + i)
    scale = 1.4426950408889634 / tl.where(t == 0.0, 1.0, t)
    best = tl.max(tile_top, 0)
    low = lowest_key()
    listed = k > 0
    if FLAT:
        is_flat = tl.load(flat + i) != 0
        low = tl.where(is_flat, tl.load(cut + i), low)
        listed = listed & (is_flat == 0)
    chosen, total = tl.load(target + i), tl.load(seed + i) & 0
    wanted = chosen
    if ((chosen < 0) | PROCESSED) & (best > float("-inf")):
        if (t == 0.0) | (best == float("inf")):
            chosen = greedy(source, allow, vocabulary, tl.min(tl.where(tile_top == best, tile, 2147483647), 0))
            low = key_of(best)
        else:
            width = fixed(mass * mass_of(tile_top, best, scale))
            if FLAT:
                left = tl.load(tile_kept + i * tiles + tile, mask=is_flat & (tile < tiles), other=0)
                width = tl.where(is_flat, left, width)
            chosen, low, total = from_any(
                source, allow, vocabulary, tile_top, width, best, t, k, p, least, low, scale, u, listed,
                tile_list + i * tiles, token_list + i * capacity, value_list + i * capacity, LISTS, TILES, CHUNK,
            )
    if PROCESSED:
        chosen = tl.where(wanted >= 0, wanted, chosen)
        tl.store(cut + i, low)
        tl.store(kept + i, total)
    leave(i, chosen, best, raw, raw_logits, raw_row, token_out, logprob_out, nan_out, error, vocabulary, blocks, BLOCKS,
          RAW, CHECKED)
