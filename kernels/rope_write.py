"""Rotary embedding (Su et al. 2021), half rotation (NeoX), and the write of keys and values into their pages.

rope_write(qkv, cos, sin, k, v, batch) -> q
    qkv: [tokens, (q_heads + 2 * kv_heads) * head_dim], contiguous: queries, keys, values of each token.
    cos, sin: [positions, head_dim / 2] float32. k, v: one layer of the pool. batch: the step.
    Effect: writes the rotated keys and the values to the place of each token. Returns the rotated queries,
    [tokens, q_heads, head_dim]. Rotation in float32, rounded once: (a, b) -> (a cos - b sin, b cos + a sin), where a
    and b are the halves of a head.

rope_table(positions, head_dim, theta) -> (cos, sin)
"""

from __future__ import annotations

from typing import Any

import torch

from .base import FLOATS, Implementation
from .compiled import address, bfloats, floats, inner, ints, kernel, load, longs, rounded
from .layout import Batch


def rope_table(positions: int, head_dim: int, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
    """cos, sin of position * theta ** (-2 i / head_dim): [positions, head_dim / 2] float32."""
    # In float32 as the models were trained: the angles of far positions carry that rounding.
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    angles = torch.arange(positions).float()[:, None] * (1.0 / theta**exponent)
    return angles.cos(), angles.sin()


def reference(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch
) -> torch.Tensor:
    kv_heads, head_dim = k.shape[1], k.shape[3]
    heads = qkv.view(batch.tokens, -1, head_dim)
    rotating, values = heads[:, :-kv_heads].float(), heads[:, -kv_heads:]
    a, b = rotating.chunk(2, dim=-1)
    c, s = cos[batch.positions][:, None], sin[batch.positions][:, None]
    rotated = torch.cat((a * c - b * s, b * c + a * s), dim=-1).to(qkv.dtype)
    page, slot = batch.places()
    k[page, :, slot] = rotated[:, -kv_heads:]
    v[page, :, slot] = values
    return rotated[:, :-kv_heads].contiguous()


@inner
def _rotate(source: Any, cos: Any, sin: Any, out: Any) -> None:
    half = cos.shape[0]
    for i in range(half):
        a, b = load(source[i]), load(source[half + i])
        out[i] = rounded(a * cos[i] - b * sin[i], source[i])
        out[half + i] = rounded(b * cos[i] + a * sin[i], source[i])


@inner
def _tokens(qkv: Any, cos: Any, sin: Any, k: Any, v: Any, q: Any, positions: Any, rows: Any, tables: Any) -> None:
    q_heads, kv_heads, page = q.shape[1], k.shape[1], k.shape[2]
    for t in range(qkv.shape[0]):
        position = positions[t]
        at, slot = tables[rows[t], position // page], position % page
        c, s = cos[position], sin[position]
        for head in range(q_heads):
            _rotate(qkv[t, head], c, s, q[t, head])
        for head in range(kv_heads):
            _rotate(qkv[t, q_heads + head], c, s, k[at, head, slot])
            source, target = qkv[t, q_heads + kv_heads + head], v[at, head, slot]
            for i in range(source.shape[0]):
                target[i] = source[i]


_SIGNATURE = "void(" + ", ".join(["int64"] * 17) + ")"


@kernel(_SIGNATURE)
def _float32(
    qkv: Any, cos: Any, sin: Any, k: Any, v: Any, q: Any, positions: Any, rows: Any, tables: Any,
    tokens: Any, q_heads: Any, pages: Any, kv_heads: Any, page: Any, head_dim: Any, context: Any, width: Any,
) -> None:
    pool, angles = (pages, kv_heads, page, head_dim), (context, head_dim // 2)
    _tokens(
        floats(qkv, (tokens, q_heads + 2 * kv_heads, head_dim)),
        floats(cos, angles), floats(sin, angles),
        floats(k, pool), floats(v, pool),
        floats(q, (tokens, q_heads, head_dim)), longs(positions, tokens),
        ints(rows, tokens), ints(tables, (tokens, width)),
    )


@kernel(_SIGNATURE)
def _bfloat16(
    qkv: Any, cos: Any, sin: Any, k: Any, v: Any, q: Any, positions: Any, rows: Any, tables: Any,
    tokens: Any, q_heads: Any, pages: Any, kv_heads: Any, page: Any, head_dim: Any, context: Any, width: Any,
) -> None:
    pool, angles = (pages, kv_heads, page, head_dim), (context, head_dim // 2)
    _tokens(
        bfloats(qkv, (tokens, q_heads + 2 * kv_heads, head_dim)),
        floats(cos, angles), floats(sin, angles),
        bfloats(k, pool), bfloats(v, pool),
        bfloats(q, (tokens, q_heads, head_dim)), longs(positions, tokens),
        ints(rows, tokens), ints(tables, (tokens, width)),
    )


def compiled(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch
) -> torch.Tensor:
    pages, kv_heads, page, head_dim = k.shape
    tokens, width = qkv.shape
    q_heads, context = width // head_dim - 2 * kv_heads, cos.shape[0]
    q = torch.empty((tokens, q_heads, head_dim), dtype=qkv.dtype)
    run = _bfloat16 if qkv.dtype == torch.bfloat16 else _float32
    run(
        address(qkv, batch.tokens, width), address(cos, context, head_dim // 2), address(sin, context, head_dim // 2),
        address(k, *k.shape), address(v, *k.shape), q.data_ptr(), batch.positions.data_ptr(), batch.rows.data_ptr(),
        batch.tables.data_ptr(), tokens, q_heads, pages, kv_heads, page, head_dim, context, batch.tables.shape[1],
    )
    return q


IMPLEMENTATIONS = (
    Implementation("rope_write", ("cpu",), FLOATS, ("fast", "exact"), compiled),
    Implementation("rope_write", ("cuda",), FLOATS, ("fast",), reference),
)
