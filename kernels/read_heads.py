"""Where the heads of a token come from, and where they go: read and normed, and the place of the token in the pool.

Heads stand in the order of qkv: queries, keys, values. A tile has HEADS of them, [HEADS, values]; a, b are the pairs of
the rotation, rest the values after them.
"""

from __future__ import annotations

from .checked import require
from .jit import Arg, constexpr, jit, tl


@jit
def _head_scale(a: Arg, b: Arg, rest: Arg, eps: Arg, DIM: constexpr) -> Arg:
    square = tl.sum(a * a, 1) + tl.sum(b * b, 1) + tl.sum(rest * rest, 1)
    return tl.rsqrt(square / DIM + eps)[:, None]


@jit
def _weights(q_norm: Arg, k_norm: Arg, at: Arg, inside: Arg, query: Arg) -> Arg:
    """[HEADS, values] weights: those of queries or of keys."""
    q = tl.load(q_norm + at, mask=inside, other=0.0).to(tl.float32)
    k = tl.load(k_norm + at, mask=inside, other=0.0).to(tl.float32)
    return tl.where(query, q, k)


@jit
def place(
    positions: Arg, rows: Arg, tables: Arg, token: Arg, error: Arg, page: Arg, width: Arg, context: Arg, pages: Arg,
    CHECKED: constexpr,
) -> Arg:
    """(position, page of the pool, whether both are there) of a token."""
    position, known = tl.load(positions + token), page > 0
    if CHECKED:
        known = (position >= 0) & (position < context) & (position < width.to(tl.int64) * page)
        require(known, error, 3)
        position = tl.where(known, position, 0)
    at = tl.load(tables + tl.load(rows + token).to(tl.int64) * width + position // page).to(tl.int64)
    if CHECKED:
        owned = (at >= 0) & (at < pages)
        require(owned, error, 1)
        known = owned & known
    return position, at, known


@jit
def read(
    source: Arg, there: Arg, DIM: constexpr, HALF: constexpr, HEADS: constexpr, BLOCK: constexpr, REST: constexpr,
    INTERLEAVED: constexpr,
) -> Arg:
    """The pairs of each head and what comes after them, float32."""
    i, both = tl.arange(0, BLOCK)[None, :], tl.arange(0, 2 * BLOCK)[None, :]
    if INTERLEAVED:
        # Read and written as they lie, and taken apart in registers: 16 bytes at a time.
        together = tl.load(source + both, mask=there & (both < 2 * HALF), other=0.0).to(tl.float32)
        a, b = tl.split(tl.reshape(together, (HEADS, BLOCK, 2)))
    else:
        a = tl.load(source + i, mask=there & (i < HALF), other=0.0).to(tl.float32)
        b = tl.load(source + i + HALF, mask=there & (i < HALF), other=0.0).to(tl.float32)
    j = 2 * HALF + tl.arange(0, REST)[None, :]
    rest = tl.zeros((HEADS, REST), tl.float32)
    if 2 * HALF < DIM:
        rest = tl.load(source + j, mask=there & (j < DIM), other=0.0).to(tl.float32)
    return a, b, rest


@jit
def normed(
    a: Arg, b: Arg, rest: Arg, head: Arg, rotating: Arg, q_norm: Arg, k_norm: Arg, eps: Arg, Q_HEADS: constexpr,
    DIM: constexpr, HALF: constexpr, BLOCK: constexpr, REST: constexpr, INTERLEAVED: constexpr,
) -> Arg:
    i, j = tl.arange(0, BLOCK)[None, :], 2 * HALF + tl.arange(0, REST)[None, :]
    query = head < Q_HEADS
    scale = _head_scale(a, b, rest, eps, DIM)
    first = i * 2 if INTERLEAVED else i
    second = i * 2 + 1 if INTERLEAVED else i + HALF
    a = tl.where(rotating, a * scale * _weights(q_norm, k_norm, first, i < HALF, query), a)
    b = tl.where(rotating, b * scale * _weights(q_norm, k_norm, second, i < HALF, query), b)
    return a, b, tl.where(rotating, rest * scale * _weights(q_norm, k_norm, j, j < DIM, query), rest)
