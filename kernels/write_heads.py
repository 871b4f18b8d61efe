"""Where the heads of a token go: queries to their rows, keys and values to their pages, as they are or as 8-bit codes.

Heads stand in the order of qkv: queries, keys, values. A tile has HEADS of them, [HEADS, values]; a, b are the pairs of
the rotation, rest the values after them.
"""

from __future__ import annotations

from .jit import Arg, constexpr, jit, tl
from .kv_codes import coded, factors


@jit
def _put(
    q: Arg, k: Arg, v: Arg, head: Arg, at: Arg, inside: Arg, value: Arg, factor: Arg, q_at: Arg, kv_at: Arg,
    stride: Arg, QUERIES: constexpr, Q_HEADS: constexpr, KV_HEADS: constexpr, DIM: constexpr,
) -> None:
    """Values of heads to where they belong: queries, pages of keys, pages of values. stride: page * head_dim."""
    if QUERIES:
        tl.store(q + q_at + head * DIM + at, value, mask=inside)
        return
    to_q = head < Q_HEADS
    to_k = (head >= Q_HEADS) & (head < Q_HEADS + KV_HEADS)
    to_v = (head >= Q_HEADS + KV_HEADS) & (head < Q_HEADS + 2 * KV_HEADS)
    tl.store(q + q_at + head * DIM + at, value, mask=to_q & inside)
    kept = value
    if factor is not None:
        kept = coded(value * factor, k.dtype.element_ty)
    tl.store(k + kv_at + (head - Q_HEADS) * stride + at, kept, mask=to_k & inside)
    tl.store(v + kv_at + (head - Q_HEADS - KV_HEADS) * stride + at, kept, mask=to_v & inside)


@jit
def put_heads(
    q: Arg, k: Arg, v: Arg, head: Arg, there: Arg, a: Arg, b: Arg, rest: Arg, factor: Arg, q_at: Arg, kv_at: Arg,
    stride: Arg, QUERIES: constexpr, Q_HEADS: constexpr, KV_HEADS: constexpr, DIM: constexpr, HALF: constexpr,
    HEADS: constexpr, BLOCK: constexpr, REST: constexpr, INTERLEAVED: constexpr,
) -> None:
    """QUERIES: all of these heads are queries."""
    i, both, j = tl.arange(0, BLOCK)[None, :], tl.arange(0, 2 * BLOCK)[None, :], 2 * HALF + tl.arange(0, REST)[None, :]
    if INTERLEAVED:
        together = tl.reshape(tl.join(a, b), (HEADS, 2 * BLOCK))
        _put(q, k, v, head, both, there & (both < 2 * HALF), together, factor, q_at, kv_at, stride, QUERIES, Q_HEADS,
             KV_HEADS, DIM)
    else:
        paired = there & (i < HALF)
        _put(q, k, v, head, i, paired, a, factor, q_at, kv_at, stride, QUERIES, Q_HEADS, KV_HEADS, DIM)
        _put(q, k, v, head, i + HALF, paired, b, factor, q_at, kv_at, stride, QUERIES, Q_HEADS, KV_HEADS, DIM)
    if 2 * HALF < DIM:
        _put(q, k, v, head, j, there & (j < DIM), rest, factor, q_at, kv_at, stride, QUERIES, Q_HEADS, KV_HEADS, DIM)


@jit
def put_scales(
    k_scale: Arg, v_scale: Arg, head: Arg, a: Arg, b: Arg, rest: Arg, at: Arg, slot: Arg, page: Arg, there: Arg,
    LIMIT: constexpr, Q_HEADS: constexpr, KV_HEADS: constexpr,
) -> Arg:
    """Writes the scale of each key's and value's head; returns what values are multiplied with, [HEADS, 1]."""
    best = tl.maximum(tl.max(tl.abs(a), 1), tl.maximum(tl.max(tl.abs(b), 1), tl.max(tl.abs(rest), 1)))[:, None]
    scale, factor = factors(best, LIMIT)
    place = (at * KV_HEADS + head - Q_HEADS) * page + slot
    to_k = there & (head >= Q_HEADS) & (head < Q_HEADS + KV_HEADS)
    to_v = there & (head >= Q_HEADS + KV_HEADS) & (head < Q_HEADS + 2 * KV_HEADS)
    tl.store(k_scale + place, scale, mask=to_k)
    tl.store(v_scale + place - KV_HEADS * page, scale, mask=to_v)
    return factor
