"""Causal attention through block tables.

attend(q, k, v, batch, scale) -> out
    q: [tokens, q_heads, head_dim]. k, v: one layer of the pool, the batch's own tokens already written.
    q_heads is a multiple of kv_heads; query head h reads KV head h // (q_heads / kv_heads).
    Returns [tokens, q_heads * head_dim]: each token over positions [0, its own] of its row. Scores and sums in float32.

Fast: rows with few new tokens walk their pages in compiled code; longer rows take blocks of BLOCK slots through matrix
products, first the slots before the queries (seen by all of them), then the queries' own (causal), joined by their
log-sum-exp. Exact: every token walks its pages; chunks of CHUNK absolute positions, each from a fresh accumulator, are
folded in ascending order, so that a token's bits depend on its row's keys alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from . import tile_attention
from .base import FLOATS, Implementation
from .compiled import address, bfloats, exp, floats, inner, ints, kernel, load, longs, rounded, unrolled
from .layout import Batch, Span, gather_slots

CHUNK = 128
BLOCK = 1024
QUERIES = 512


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, scale: float) -> torch.Tensor:
    groups = q.shape[1] // k.shape[1]
    out = torch.empty_like(q)
    for span in batch.spans:
        end = span.start + span.count
        keys, values = (gather_slots(x, span, 0, end).float().repeat_interleave(groups, 0) for x in (k, v))
        queries = q[span.begin : span.begin + span.count].float().transpose(0, 1)
        scores = queries @ keys.transpose(1, 2) * scale
        hidden = torch.arange(end, device=q.device) > torch.arange(span.start, end, device=q.device)[:, None]
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        out[span.begin : span.begin + span.count] = (weights @ values).transpose(0, 1).to(q.dtype)
    return out.flatten(1)


@unrolled
def _scores(q: Any, keys: Any, count: Any, scale: Any, head_dim: Any, wide: Any, out: Any, at: Any) -> None:
    """out[g, at + j] = scale * q[g] . keys[j] for j < count."""
    for j in range(count):
        for i in range(head_dim):
            wide[i] = load(keys[j, i])
        for g in range(q.shape[0]):
            dot = np.float32(0.0)
            for i in range(head_dim):
                dot += q[g, i] * wide[i]
            out[g, at + j] = dot * scale


@unrolled
def _accumulate(weights: Any, at: Any, values: Any, count: Any, head_dim: Any, wide: Any, out: Any) -> None:
    """out[g] += weights[g, at + j] * values[j] for j < count, in this order."""
    for j in range(count):
        for i in range(head_dim):
            wide[i] = load(values[j, i])
        for g in range(out.shape[0]):
            weight = weights[g, at + j]
            for i in range(head_dim):
                out[g, i] += weight * wide[i]


@unrolled
def _softmax(weights: Any, count: Any, top: Any, mass: Any) -> None:
    """weights[g, :count]: scores become e**(score - top[g]), mass[g] their sum, top[g] their maximum."""
    for g in range(weights.shape[0]):
        best = np.float32(-np.inf)
        for j in range(count):
            best = max(best, weights[g, j])
        total = np.float32(0.0)
        for j in range(count):
            weights[g, j] = exp(weights[g, j] - best)
            total += weights[g, j]
        top[g], mass[g] = best, total


@unrolled
def _chunk(
    q: Any, k: Any, v: Any, table: Any, head: Any, begin: Any, end: Any, scale: Any, head_dim: Any, weights: Any,
    wide: Any, part: Any, top: Any, mass: Any,
) -> None:
    """Positions [begin, end) from a fresh accumulator: part[g] = sum of e**(score - top[g]) * value."""
    page = k.shape[2]
    for first in range(begin - begin % page, end, page):
        at, slot = max(first, begin), max(first, begin) - first
        count = min(first + page, end) - at
        _scores(q, k[table[first // page], head, slot:], count, scale, head_dim, wide, weights, at - begin)
    _softmax(weights, end - begin, top, mass)
    part[:] = np.float32(0.0)
    for first in range(begin - begin % page, end, page):
        at, slot = max(first, begin), max(first, begin) - first
        count = min(first + page, end) - at
        _accumulate(weights, at - begin, v[table[first // page], head, slot:], count, head_dim, wide, part)


@unrolled
def _fold(out: Any, out_top: Any, out_mass: Any, part: Any, top: Any, mass: Any, head_dim: Any) -> None:
    """The one way in which two chunks are joined."""
    for g in range(out.shape[0]):
        best = max(out_top[g], top[g])
        old, new = exp(out_top[g] - best), exp(top[g] - best)
        out_mass[g] = out_mass[g] * old + mass[g] * new
        for i in range(head_dim):
            out[g, i] = out[g, i] * old + part[g, i] * new
        out_top[g] = best


@unrolled
def _walk_tokens(
    q: Any, k: Any, v: Any, out: Any, positions: Any, rows: Any, tables: Any, which: Any, scale: Any, head_dim: Any
) -> None:
    """q, out: [tokens, kv_heads, groups, head_dim]. Computes the tokens in `which`."""
    kv_heads, groups = q.shape[1], q.shape[2]
    wide, query = np.empty(head_dim, np.float32), np.empty((groups, head_dim), np.float32)
    weights = np.empty((groups, CHUNK), np.float32)
    part, total = np.empty((groups, head_dim), np.float32), np.empty((groups, head_dim), np.float32)
    top, mass = np.empty(groups, np.float32), np.empty(groups, np.float32)
    total_top, total_mass = np.empty(groups, np.float32), np.empty(groups, np.float32)
    for t in which:
        table, length = tables[rows[t]], positions[t] + 1
        for head in range(kv_heads):
            for g in range(groups):
                for i in range(head_dim):
                    query[g, i] = load(q[t, head, g, i])
            total[:], total_top[:], total_mass[:] = np.float32(0.0), np.float32(-np.inf), np.float32(0.0)
            for begin in range(0, length, CHUNK):
                end = min(begin + CHUNK, length)
                _chunk(query, k, v, table, head, begin, end, scale, head_dim, weights, wide, part, top, mass)
                _fold(total, total_top, total_mass, part, top, mass, head_dim)
            for g in range(groups):
                for i in range(head_dim):
                    out[t, head, g, i] = rounded(total[g, i] / total_mass[g], out[t, head, g, i])


@inner
def _tokens(q: Any, k: Any, v: Any, out: Any, positions: Any, rows: Any, tables: Any, which: Any, scale: Any) -> None:
    # The commonest size of small models as a constant: its loops become straight vector code.
    head_dim = q.shape[3]
    if head_dim == 64:
        _walk_tokens(q, k, v, out, positions, rows, tables, which, scale, 64)
    else:
        _walk_tokens(q, k, v, out, positions, rows, tables, which, scale, head_dim)


_SIGNATURE = "void(" + ", ".join(["int64"] * 16) + ", float32)"


@kernel(_SIGNATURE)
def _float32(
    q: Any, k: Any, v: Any, out: Any, positions: Any, rows: Any, tables: Any, which: Any,
    tokens: Any, selected: Any, groups: Any, pages: Any, kv_heads: Any, page: Any, head_dim: Any, width: Any,
    scale: Any,
) -> None:
    pool, heads = (pages, kv_heads, page, head_dim), (tokens, kv_heads, groups, head_dim)
    _tokens(
        floats(q, heads), floats(k, pool), floats(v, pool),
        floats(out, heads), longs(positions, tokens),
        ints(rows, tokens), ints(tables, (tokens, width)),
        ints(which, selected), scale,
    )


@kernel(_SIGNATURE)
def _bfloat16(
    q: Any, k: Any, v: Any, out: Any, positions: Any, rows: Any, tables: Any, which: Any,
    tokens: Any, selected: Any, groups: Any, pages: Any, kv_heads: Any, page: Any, head_dim: Any, width: Any,
    scale: Any,
) -> None:
    pool, heads = (pages, kv_heads, page, head_dim), (tokens, kv_heads, groups, head_dim)
    _tokens(
        bfloats(q, heads), bfloats(k, pool), bfloats(v, pool),
        bfloats(out, heads), longs(positions, tokens),
        ints(rows, tokens), ints(tables, (tokens, width)),
        ints(which, selected), scale,
    )


def _walk(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, which: torch.Tensor, scale: float,
    out: torch.Tensor,
) -> None:
    """The tokens in `which` (int32), one at a time."""
    pages, kv_heads, page, head_dim = k.shape
    tokens, q_heads, _ = q.shape
    run = _bfloat16 if q.dtype == torch.bfloat16 else _float32
    run(
        address(q, batch.tokens, q_heads, head_dim), address(k, *k.shape), address(v, *k.shape), out.data_ptr(),
        batch.positions.data_ptr(), batch.rows.data_ptr(), batch.tables.data_ptr(), which.data_ptr(), tokens,
        which.shape[0], q_heads // kv_heads, pages, kv_heads, page, head_dim, batch.tables.shape[1], scale,
    )


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, scale: float) -> torch.Tensor:
    out = torch.empty_like(q)
    _walk(q, k, v, batch, torch.arange(batch.tokens, dtype=torch.int32), scale, out)
    return out.flatten(1)


def _part(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float) -> tuple[torch.Tensor, ...]:
    """(attention, log-sum-exp of the scores), each [heads, tokens, ...]; the kernel torch has for CPUs."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(
        q[None], k[None], v[None], 0.0, causal, attn_mask=None, scale=scale
    )
    return out[0], lse[0]


def _queries(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, span: Span, start: int, scale: float) -> torch.Tensor:
    """q: [kv_heads, groups, n, head_dim] at positions start, start + 1, ... of the row. Returns the same shape."""
    kv_heads, groups, count, _ = q.shape
    own_k, own_v = (
        gather_slots(x, span, start, start + count)[:, None].expand(-1, groups, -1, -1).flatten(0, 1) for x in (k, v)
    )
    own, own_lse = _part(q.flatten(0, 1), own_k, own_v, True, scale)
    if start == 0:
        return own.view_as(q)
    out, lse = own.view_as(q).float(), own_lse.view(kv_heads, groups, count).float()
    folded = q.flatten(1, 2)
    for begin in range(0, start, BLOCK):
        end = min(begin + BLOCK, start)
        keys, values = (gather_slots(x, span, begin, end) for x in (k, v))
        part, part_lse = _part(folded, keys, values, False, scale)
        part_lse = part_lse.view_as(lse)
        joined = torch.logaddexp(lse, part_lse)
        out = out * (lse - joined).exp_()[..., None] + part.view_as(q) * (part_lse - joined).exp_()[..., None]
        lse = joined
    return out.to(q.dtype)


def fast(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, scale: float) -> torch.Tensor:
    out = torch.empty_like(q)
    kv_heads = k.shape[1]
    if batch.few.shape[0]:
        walk = tile_attention.walk if tile_attention.serves(q, k) else _walk
        walk(q, k, v, batch, batch.few, scale, out)
    for span in batch.long:
        for first in range(0, span.count, QUERIES):
            last = min(first + QUERIES, span.count)
            rows = slice(span.begin + first, span.begin + last)
            queries = q[rows].view(last - first, kv_heads, -1, q.shape[2]).permute(1, 2, 0, 3)
            out[rows] = _queries(queries, k, v, span, span.start + first, scale).permute(2, 0, 1, 3).flatten(1, 2)
    return out.flatten(1)


IMPLEMENTATIONS = (
    Implementation("attend", ("cpu",), FLOATS, ("fast",), fast),
    Implementation("attend", ("cpu",), (torch.float32,), ("exact",), exact),
)
