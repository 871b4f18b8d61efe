"""Log-probabilities of a token and of the most likely ones, without a sort. The contract is in `kernels/log_probs.py`.

top: one program a draw, after `scan`. The count-th best tile bounds the count-th best token from below; the tokens at
or above the bound are listed, and the best of the list is taken `count` times. Raw: tile_best is of a scan under mask
row 0, raw its statistics. Processed: cut and kept are what `settle` left.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .lists import bound_kth, gather_tiles, gather_tokens, load_values
from .pieces import finite, key_of, lowest_key, read, value_of
from .settle import log_mass


@jit
def ranks(tokens: Arg, values: Arg, base: Arg, count: Arg, CHUNK: constexpr) -> Arg:
    """int64 that order the list by value, the lower token first among equals; -2**63 past its end."""
    j = base + tl.arange(0, CHUNK)
    token = tl.load(tokens + j, mask=j < count, other=0)
    rank = key_of(load_values(values, base, count, CHUNK)).to(tl.int64) * 4294967296 + (2147483647 - token)
    return tl.where(j < count, rank, -9223372036854775808)


@jit
def next_best(first: Arg, tokens: Arg, values: Arg, count: Arg, last: Arg, CHUNK: constexpr) -> Arg:
    """The best rank below `last`. first: the ranks of the first chunk."""
    found = tl.max(tl.where(first < last, first, -9223372036854775808), 0)
    base = (count & 0) + CHUNK
    while base < count:
        more = ranks(tokens, values, base, count, CHUNK)
        found = tl.maximum(found, tl.max(tl.where(more < last, more, -9223372036854775808), 0))
        base += CHUNK
    return found


@jit
def top(
    logits: Arg, masks: Arg, row: Arg, mask: Arg, temperature: Arg, chosen: Arg, tile_best: Arg, raw: Arg, cut: Arg,
    kept: Arg, tile_list: Arg, token_list: Arg, value_list: Arg, choice_out: Arg, token_out: Arg, logprob_out: Arg,
    vocabulary: Arg, words: Arg, tiles: Arg, blocks: Arg, capacity: Arg, count: Arg, TILES: constexpr,
    BLOCKS: constexpr, CHUNK: constexpr, PROCESSED: constexpr,
) -> None:
    i = tl.program_id(0).to(tl.int64)
    source = logits + tl.load(row + i).to(tl.int64) * vocabulary
    allow = masks + tl.load(mask + i).to(tl.int64) * words
    tile = tl.arange(0, TILES)
    tile_top = tl.load(tile_best + i * tiles + tile, mask=tile < tiles, other=float("-inf"))
    best, low = tl.max(tile_top, 0), lowest_key()
    # The logarithm of a token is (x - best) / t - total; where `point`, the best token has all the mass.
    keys, high = key_of(tile_top), key_of(best)
    if PROCESSED:
        width = tl.load(kept + i)
        point, low = width == 0, tl.maximum(tl.load(cut + i), low)
        t, best = tl.where(point, 1.0, tl.load(temperature + i)), finite(best)
        total = (tl.log2(tl.maximum(width, 1).to(tl.float32)) - 40.0) * 0.6931471805599453
    else:
        total = log_mass(raw + i * blocks * 3, blocks, BLOCKS)
        total = tl.where(tl.abs(total) < float("inf"), total, float("nan"))
        t, best, point = 1.0, 0.0, count < 0
    floor = low
    least = tl.min(tl.where(keys >= low, keys, high), 0)
    bound = bound_kth(keys, tl.maximum(count, 1), least, high, 8)
    low = tl.where(tl.sum((keys >= low).to(tl.int32), 0) >= count, tl.maximum(bound, low), low)
    n_tiles = gather_tiles(tile_top, low, tile_list + i * tiles, TILES)
    tokens, values = token_list + i * capacity, value_list + i * capacity
    tl.debug_barrier()
    listed = gather_tokens(source, allow, vocabulary, tile_list + i * tiles, n_tiles, low, tokens, values, 2 * CHUNK)
    tl.debug_barrier()
    first = ranks(tokens, values, listed & 0, listed, CHUNK)
    last = next_best(first, tokens, values, listed, 9223372036854775807 + tl.zeros((), tl.int64), CHUNK)
    best_token = 2147483647 - (last & 0xFFFFFFFF).to(tl.int32)
    token = tl.load(chosen + i)
    x = read(source, allow, token, (token >= 0) & (token < vocabulary))
    own = tl.where(key_of(x) >= floor, (x - best) / t - total, float("-inf"))
    own = tl.where(point, tl.where(token == best_token, 0.0, float("-inf")), own)
    tl.store(choice_out + i, tl.where(token >= 0, own, float("nan")))
    r = count & 0
    while r < count:
        there = (last > -9223372036854775808) & ((point == 0) | (r == 0))
        log = (value_of((last >> 32).to(tl.int32)) - best) / t - total
        log = tl.where(point, 0.0, log)
        tl.store(token_out + i * count + r, tl.where(there, 2147483647 - (last & 0xFFFFFFFF).to(tl.int32), -1))
        tl.store(logprob_out + i * count + r, tl.where(there, log, float("-inf")))
        last = next_best(first, tokens, values, listed, last, CHUNK)
        r += 1
