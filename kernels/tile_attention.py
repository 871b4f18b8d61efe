"""Attention of single tokens over their pages, on the CPU's matrix unit, in bfloat16.

serves(q, k) -> whether `walk` can take them
walk(q, k, v, batch, which, scale, out): the tokens in `which` ([n] int32), one at a time, as in attention.py.

Sixteen keys as they lie in their page are a tile, and so are the queries of a group, turned once: their product is the
scores of 16 positions. Weights are rounded to bfloat16; pairs of values are interleaved, as the unit wants them. Chunks
of CHUNK absolute positions, each from a fresh accumulator, are folded in ascending order. Slots past a token's own are
read as scores, which are dropped, never as values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import amx
from .compiled import address, bfloats, exp, floats, inner, ints, kernel, largest, longs, rounded
from .layout import Batch

CHUNK = 128
# Columns of a tile, and bounds of the kernel's own memory.
GROUPS, HEAD_DIM = 16, 128

_zero_scores, _zero_part = amx.zero(0), amx.zero(4)
_load_keys, _load_right, _load_weights = amx.load(1), amx.load(2), amx.load(3)
_multiply_scores, _multiply_part = amx.multiply(0, 1, 2), amx.multiply(4, 3, 2)
_store_scores, _store_part = amx.store(0), amx.store(4)

# Of the kernel's own memory, in bytes; shapes of the tiles are first.
_QUERY = 128
_SCORES = _QUERY + HEAD_DIM * GROUPS * 2
_WIDE = _SCORES + CHUNK * GROUPS * 4
_WEIGHTS = _WIDE + GROUPS * CHUNK * 4
_VALUES = _WEIGHTS + GROUPS * CHUNK * 2
_PART = _VALUES + CHUNK * HEAD_DIM * 2
_TOTAL = _PART + GROUPS * HEAD_DIM * 4
_TOPS = _TOTAL + GROUPS * HEAD_DIM * 4
_ZEROS = _TOPS + 4 * GROUPS * 4
_memory = amx.memory(_ZEROS + HEAD_DIM * 2)


@inner
def _turn(q: Any, query: Any) -> None:
    """q: [groups, head_dim]. query: [head_dim / 2, 16, 2], columns past `groups` 0."""
    query[:] = 0
    for g in range(q.shape[0]):
        for i in range(q.shape[1] // 2):
            query[i, g, 0], query[i, g, 1] = q[g, 2 * i], q[g, 2 * i + 1]


@inner
def _score(memory: Any, k: Any, v: Any, shape: Any, table: Any, head: Any, begin: Any, end: Any) -> None:
    """Scores of positions [begin, end), and of some after them: [CHUNK, 16] float32. Reads ahead: the values."""
    kv_heads, page, head_dim = shape
    for at in range(begin, end, amx.ROWS):
        place = ((table[at // page] * kv_heads + head) * page + at % page) * head_dim * 2
        keys = k + place
        for line in range(0, amx.ROWS * head_dim * 2, 64):
            amx.read_ahead(v + place + line)
        _zero_scores()
        for part in range(head_dim // 32):
            _load_keys(keys + part * amx.ROW, 2 * head_dim)
            _load_right(memory + _QUERY + part * 1024, amx.ROW)
            _multiply_scores()
        _store_scores(memory + _SCORES + (at - begin) * amx.ROW, amx.ROW)


@inner
def _weigh(scores: Any, count: Any, scale: Any, wide: Any, weights: Any, top: Any, mass: Any) -> None:
    """weights[g, :count] = e**(scale * score - top[g]), 0 from there to the next 32; top[g] their maximum, mass[g] the
    sum."""
    for g in range(top.shape[0]):
        for j in range(count):
            wide[g, j] = scores[j, g] * scale
        best, total = largest(wide[g, :count]), np.float32(0.0)
        for j in range(count):
            weight = exp(wide[g, j] - best)
            total += weight
            weights[g, j] = rounded(weight, weights[g, j])
        weights[g, count : (count + 31) // 32 * 32] = 0
        top[g], mass[g] = best, total


@inner
def _interleave(memory: Any, k: Any, v: Any, shape: Any, table: Any, head: Any, begin: Any, end: Any) -> None:
    """Values of positions [begin, end), 0 from there to the next 32: [CHUNK / 2, head_dim, 2]. Reads ahead: the keys of
    the next head."""
    kv_heads, page, head_dim = shape
    row = 2 * head_dim
    zeros = memory + _ZEROS
    for pair in range((end - begin + 31) // 32 * 16):
        at, out = begin + 2 * pair, memory + _VALUES + pair * 2 * row
        first = second = zeros
        if at < end:
            place = ((table[at // page] * kv_heads + head) * page + at % page) * row
            first = v + place
            for line in range(page * row, page * row + 2 * row, 64):
                amx.read_ahead(k + place + line)
        if at + 1 < end:
            second = first + row
        for part in range(0, row, amx.ROW):
            amx.interleave(first + part, second + part, out + 2 * part)


@inner
def _sum(memory: Any, count: Any, head_dim: Any) -> None:
    """part[g] = sum of weights[g, j] * values[j] for j < count: [groups, head_dim] float32."""
    for column in range(head_dim // 16):
        _zero_part()
        for block in range((count + 31) // 32):
            _load_weights(memory + _WEIGHTS + block * amx.ROW, 2 * CHUNK)
            _load_right(memory + _VALUES + block * 64 * head_dim + column * amx.ROW, 4 * head_dim)
            _multiply_part()
        _store_part(memory + _PART + column * amx.ROW, 4 * head_dim)


@inner
def _fold(total: Any, total_top: Any, total_mass: Any, part: Any, top: Any, mass: Any) -> None:
    for g in range(total.shape[0]):
        best = max(total_top[g], top[g])
        old, new = exp(total_top[g] - best), exp(top[g] - best)
        total_mass[g] = total_mass[g] * old + mass[g] * new
        for i in range(total.shape[1]):
            total[g, i] = total[g, i] * old + part[g, i] * new
        total_top[g] = best


@inner
def _token(
    memory: Any, q: Any, k: Any, v: Any, shape: Any, table: Any, head: Any, length: Any, scale: Any,
    out: Any,
) -> None:
    """q, out: [groups, head_dim] of one token and KV head. shape: of k and v, less the pages."""
    groups, head_dim = q.shape
    scores, wide = floats(memory + _SCORES, (CHUNK, GROUPS)), floats(memory + _WIDE, (groups, CHUNK))
    weights, part = bfloats(memory + _WEIGHTS, (groups, CHUNK)), floats(memory + _PART, (groups, head_dim))
    total, tops = floats(memory + _TOTAL, (groups, head_dim)), floats(memory + _TOPS, (4, groups))
    total[:], tops[0], tops[1] = np.float32(0.0), np.float32(-np.inf), np.float32(0.0)
    _turn(q, bfloats(memory + _QUERY, (head_dim // 2, GROUPS, 2)))
    for begin in range(0, length, CHUNK):
        end = min(begin + CHUNK, length)
        _score(memory, k, v, shape, table, head, begin, end)
        _weigh(scores, end - begin, scale, wide, weights, tops[2], tops[3])
        _interleave(memory, k, v, shape, table, head, begin, end)
        _sum(memory, end - begin, head_dim)
        _fold(total, tops[0], tops[1], part, tops[2], tops[3])
    for g in range(groups):
        for i in range(head_dim):
            out[g, i] = rounded(total[g, i] / tops[1, g], out[g, i])


@kernel("void(" + ", ".join(["int64"] * 16) + ", float32)")
def _walk(
    q: Any, k: Any, v: Any, out: Any, positions: Any, rows: Any, tables: Any, which: Any,
    tokens: Any, selected: Any, groups: Any, pages: Any, kv_heads: Any, page: Any, head_dim: Any, width: Any,
    scale: Any,
) -> None:
    memory = _memory()
    amx.take(memory, (amx.ROWS, amx.ROWS, amx.ROWS, groups, groups))
    heads = (tokens, kv_heads, groups, head_dim)
    queries, results, shape = bfloats(q, heads), bfloats(out, heads), (kv_heads, page, head_dim)
    bfloats(memory + _ZEROS, HEAD_DIM)[:] = 0
    position, row, table = longs(positions, tokens), ints(rows, tokens), ints(tables, (tokens, width))
    for t in ints(which, selected):
        for head in range(kv_heads):
            _token(
                memory, queries[t, head], k, v, shape, table[row[t]], head, position[t] + 1, scale, results[t, head]
            )
    amx.give_back(memory)


def serves(q: torch.Tensor, k: torch.Tensor) -> bool:
    _, kv_heads, page, head_dim = k.shape
    fits = head_dim <= HEAD_DIM and head_dim % 32 == 0 and page % amx.ROWS == 0 and q.shape[1] <= GROUPS * kv_heads
    return fits and q.dtype == torch.bfloat16 and amx.available()


def walk(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, which: torch.Tensor, scale: float,
    out: torch.Tensor,
) -> None:
    pages, kv_heads, page, head_dim = k.shape
    tokens, q_heads, _ = q.shape
    _walk(
        address(q, batch.tokens, q_heads, head_dim), address(k, *k.shape), address(v, *k.shape), out.data_ptr(),
        batch.positions.data_ptr(), batch.rows.data_ptr(), batch.tables.data_ptr(), which.data_ptr(), tokens,
        which.shape[0], q_heads // kv_heads, pages, kv_heads, page, head_dim, batch.tables.shape[1], scale,
    )
