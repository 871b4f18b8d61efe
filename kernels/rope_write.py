"""Rotary embedding (Su et al. 2021) and the write of keys and values into their pages.

rope_write(qkv, cos, sin, k, v, batch, interleaved=False, norms=None, scales=None) -> q
    qkv: [tokens, (q_heads + 2 * kv_heads) * head_dim], contiguous: queries, keys, values of each token.
    cos, sin: [positions, r / 2] float32, r <= head_dim the values of a head that are rotated; the rest stay. k, v: one
    layer of the pool. batch: the step. norms: RMSNorm of each query's and key's head, before the rotation. scales:
    k_scale, v_scale of the layer, where k and v are 8-bit codes (see kv_codes).
    Effect: writes the rotated keys and the values to the place of each token. Returns the rotated queries,
    [tokens, q_heads, head_dim]. Everything in float32, rounded once: (a, b) -> (a cos - b sin, b cos + a sin), where a
    and b are the halves of the rotated values (NeoX), or their even and odd ones (interleaved).
    On a GPU a token whose place is outside the pool, or its position outside cos, is a fault of the caller; with an
    error tensor it leaves a code and writes nothing (see checked).

rope_table(positions, head_dim, theta, scaling) -> (cos, sin)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .base import FLOATS, Implementation, KernelError
from .compiled import address, bfloats, floats, inner, ints, kernel, load, longs, rounded
from .jit import Arg, constexpr, jit, next_power_of_2, tl
from .kv_codes import LIMITS, encode
from .layout import Batch
from .planned_batch import PlannedBatch
from .read_heads import normed, place, read
from .rope_scaling import Scaling
from .write_heads import put_heads, put_scales

MANY_TOKENS = 1024

Scales = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """heads: of a program, a power of two."""

    heads: int
    warps: int


# A step of few tokens needs the programs, a long one the loads in flight. The norm of a head is summed in the order of
# its shape: there it does not follow the batch. Swept on an H200, bench/results/kernels_rows_sweep.json.
FEW, MANY, NORMED = Shape(8, 4), Shape(16, 4), Shape(16, 4)


def rope_table(
    positions: int, head_dim: int, theta: float, scaling: Scaling | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos, sin of position * theta ** (-2 i / head_dim): [positions, head_dim / 2] float32. head_dim: the values of a
    head that are rotated."""
    # In float32 as the models were trained: the angles of far positions carry that rounding.
    exponent = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    frequencies, scale = 1.0 / theta**exponent, 1.0
    if scaling is not None:
        frequencies, scale = scaling.applied(frequencies, theta)
    angles = torch.arange(positions).float()[:, None] * frequencies
    return angles.cos() * scale, angles.sin() * scale


@dataclass(frozen=True, slots=True)
class HeadNorms:
    """RMSNorm of every query's and key's head. q, k: [head_dim] weights."""

    q: torch.Tensor
    k: torch.Tensor
    eps: float

    def applied(self, heads: torch.Tensor, kv_heads: int) -> torch.Tensor:
        scaled = heads * torch.rsqrt(heads.square().mean(-1, keepdim=True) + self.eps)
        return torch.cat((scaled[:, :-kv_heads] * self.q.float(), scaled[:, -kv_heads:] * self.k.float()), dim=1)


def reference(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, *,
    interleaved: bool = False, norms: HeadNorms | None = None, scales: Scales | None = None,
) -> torch.Tensor:
    _check(k, v, scales)
    kv_heads, head_dim = k.shape[1], k.shape[3]
    heads = qkv.view(batch.tokens, -1, head_dim)
    rotating, values = heads[:, :-kv_heads].float(), heads[:, -kv_heads:]
    if norms is not None:
        rotating = norms.applied(rotating, kv_heads)
    turning, rest = rotating[..., : 2 * cos.shape[1]], rotating[..., 2 * cos.shape[1] :]
    a, b = (turning[..., 0::2], turning[..., 1::2]) if interleaved else turning.chunk(2, dim=-1)
    c, s = cos[batch.positions][:, None], sin[batch.positions][:, None]
    pair = a * c - b * s, b * c + a * s
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    rotated = torch.cat((turned, rest), dim=-1)
    page, slot = batch.places()
    if scales is None:
        k[page, :, slot], v[page, :, slot] = rotated[:, -kv_heads:].to(k.dtype), values.to(v.dtype)
    else:
        for pool, scale, written in zip((k, v), scales, (rotated[:, -kv_heads:], values.float()), strict=True):
            pool.view(torch.int8)[page, :, slot], scale[page, :, slot] = _bytes(*encode(written, pool.dtype))
    return rotated[:, :-kv_heads].to(qkv.dtype).contiguous()


def _bytes(codes: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An indexed write of e4m3 is not there on every device; one of bytes is."""
    return codes.view(torch.int8), scale


def _check(k: torch.Tensor, v: torch.Tensor, scales: Scales | None) -> None:
    if (scales is not None) != (k.dtype in LIMITS) or k.dtype != v.dtype or k.shape != v.shape:
        raise KernelError(f"k {k.dtype} and v {v.dtype} of one shape; 8-bit ones, and no others, have scales")


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
    """Whole heads in halves, as they are: what models without norms of heads and 8-bit pages need."""
    pages, kv_heads, page, head_dim = k.shape
    tokens, width = qkv.shape
    q_heads, context = width // head_dim - 2 * kv_heads, cos.shape[0]
    q = qkv.new_empty(tokens, q_heads, head_dim)
    run = _bfloat16 if qkv.dtype == torch.bfloat16 else _float32
    run(
        address(qkv, batch.tokens, width), address(cos, context, head_dim // 2), address(sin, context, head_dim // 2),
        address(k, *k.shape), address(v, *k.shape), q.data_ptr(), batch.positions.data_ptr(), batch.rows.data_ptr(),
        batch.tables.data_ptr(), tokens, q_heads, pages, kv_heads, page, head_dim, context, batch.tables.shape[1],
    )
    return q


def on_cpu(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: Batch, *,
    interleaved: bool = False, norms: HeadNorms | None = None, scales: Scales | None = None,
) -> torch.Tensor:
    if interleaved or norms is not None or scales is not None or 2 * cos.shape[1] != k.shape[3]:
        return reference(qkv, cos, sin, k, v, batch, interleaved=interleaved, norms=norms, scales=scales)
    _check(k, v, None)
    return compiled(qkv, cos, sin, k, v, batch)


@jit
def _rope_write(
    qkv: Arg, cos: Arg, sin: Arg, k: Arg, v: Arg, k_scale: Arg, v_scale: Arg, q: Arg, positions: Arg, rows: Arg,
    tables: Arg, q_norm: Arg, k_norm: Arg, error: Arg, page: Arg, width: Arg, eps: Arg, context: Arg, pages: Arg,
    Q_HEADS: constexpr, KV_HEADS: constexpr, DIM: constexpr, HALF: constexpr, HEADS: constexpr, BLOCK: constexpr,
    REST: constexpr, INTERLEAVED: constexpr, NORM: constexpr, LIMIT: constexpr, CHECKED: constexpr,
) -> None:
    """One program a (token, HEADS heads). HALF: rotated pairs, padded to BLOCK. REST: values after them, padded. LIMIT:
    of 8-bit codes, 0 where there are none."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    there = head < Q_HEADS + 2 * KV_HEADS
    position, at, known = place(positions, rows, tables, token, error, page, width, context, pages, CHECKED)
    if CHECKED:
        there = there & known
    source = qkv + token * (Q_HEADS + 2 * KV_HEADS) * DIM + head * DIM
    a, b, rest = read(source, there, DIM, HALF, HEADS, BLOCK, REST, INTERLEAVED)
    rotating = head < Q_HEADS + KV_HEADS
    if NORM:
        a, b, rest = normed(
            a, b, rest, head, rotating, q_norm, k_norm, eps, Q_HEADS, DIM, HALF, BLOCK, REST, INTERLEAVED)
    i = tl.arange(0, BLOCK)[None, :]
    c = tl.where(rotating, tl.load(cos + position * HALF + i, mask=i < HALF, other=0.0), 1.0)
    s = tl.where(rotating, tl.load(sin + position * HALF + i, mask=i < HALF, other=0.0), 0.0)
    # By name: every variant rounds the same of the two products, whatever the batch.
    a, b = tl.fma(a, c, -(b * s)), tl.fma(b, c, a * s)
    slot, stride = position % page, page * DIM
    kv_at = at * KV_HEADS * page * DIM + slot * DIM
    q_at = token * Q_HEADS * DIM
    factor = None
    if (tl.program_id(1) + 1) * HEADS <= Q_HEADS:
        put_heads(q, k, v, head, there, a, b, rest, None, q_at, kv_at, stride, True, Q_HEADS, KV_HEADS, DIM, HALF,
                  HEADS, BLOCK, REST, INTERLEAVED)
    else:
        if LIMIT > 0:
            factor = put_scales(k_scale, v_scale, head, a, b, rest, at, slot, page, there, LIMIT, Q_HEADS, KV_HEADS)
        put_heads(q, k, v, head, there, a, b, rest, factor, q_at, kv_at, stride, False, Q_HEADS, KV_HEADS, DIM, HALF,
                  HEADS, BLOCK, REST, INTERLEAVED)


def on_device(
    qkv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    batch: Batch | PlannedBatch, *,
    interleaved: bool = False, norms: HeadNorms | None = None, scales: Scales | None = None,
    error: torch.Tensor | None = None, shape: Shape | None = None,
) -> torch.Tensor:
    """shape: None for the one that was fastest."""
    _check(k, v, scales)
    pages, kv_heads, page, head_dim = k.shape
    tokens, heads, half = batch.tokens, qkv.shape[1] // head_dim, cos.shape[1]
    q = torch.empty((tokens, heads - 2 * kv_heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    if shape is None:
        shape = NORMED if norms is not None else FEW if tokens < MANY_TOKENS else MANY
    each = min(next_power_of_2(heads), shape.heads)
    q_norm, k_norm, eps = (qkv, qkv, 0.0) if norms is None else (norms.q, norms.k, norms.eps)
    k_scale, v_scale = (cos, cos) if scales is None else scales
    _rope_write[tokens, -(-heads // each)](
        qkv, cos, sin, k, v, k_scale, v_scale, q, batch.positions, batch.rows, batch.tables, q_norm, k_norm,
        batch.rows if error is None else error, page, batch.tables.shape[1], eps, cos.shape[0], pages,
        Q_HEADS=heads - 2 * kv_heads, KV_HEADS=kv_heads, DIM=head_dim, HALF=half, HEADS=each,
        BLOCK=next_power_of_2(half), REST=next_power_of_2(max(head_dim - 2 * half, 1)), INTERLEAVED=interleaved,
        NORM=norms is not None, LIMIT=0.0 if scales is None else LIMITS[k.dtype], CHECKED=error is not None,
        num_warps=shape.warps,
    )
    return q


IMPLEMENTATIONS = (
    Implementation("rope_write", ("cpu",), FLOATS, ("fast", "exact"), on_cpu),
    Implementation("rope_write", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
