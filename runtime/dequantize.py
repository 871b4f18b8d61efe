"""Blocks of GGUF tensor types to float32. One function a type: uint8 `[blocks, size]` in, float32 into `out`; those of
256 elements are in super_blocks.py.

Layouts (ggml): a block of 32 begins with a float16 scale d, in Q4_1 and Q5_1 followed by a float16 minimum m, in Q5_0
and Q5_1 then by the fifth bit of each element. Byte i of a nibble block holds element i in its low half and element
i + 16 in its high half.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .block_fields import IQ4_ZERO, Bytes, Floats, half, iq4_codes, q5_codes
from .gguf_types import (
    BF16,
    F16,
    F32,
    IQ4_NL,
    IQ4_XS,
    Q2_K,
    Q3_K,
    Q4_0,
    Q4_1,
    Q4_K,
    Q5_0,
    Q5_1,
    Q5_K,
    Q6_K,
    Q8_0,
    BlockType,
)
from .super_blocks import iq4_xs, q2_k, q3_k, q4_k, q5_k, q6_k


def dequantize(kind: BlockType, data: Bytes) -> Floats:
    """data: uint8, a whole number of blocks, at any alignment. Returns float32 `[blocks * elements]`.

    Allocates the result and at most as much again for the time of the call."""
    blocks = data.reshape(-1, kind.size)
    out = np.empty((len(blocks), kind.elements), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):  # a hostile scale may be infinite: the caller looks
        _FILL[kind.id](blocks, out)
    return out.reshape(-1)


def _f32(blocks: Bytes, out: Floats) -> None:
    out.view(np.uint8)[...] = blocks


def _f16(blocks: Bytes, out: Floats) -> None:
    out[...] = blocks.view("<f2")


def _bf16(blocks: Bytes, out: Floats) -> None:
    bits = out.view(np.uint32)
    bits[...] = blocks.view("<u2")
    bits <<= 16


def _q4_0(blocks: Bytes, out: Floats) -> None:
    """w = d (q - 8)"""
    _nibbles(blocks[:, 2:], out)
    out -= np.float32(8)
    out *= half(blocks, 0)


def _q4_1(blocks: Bytes, out: Floats) -> None:
    """w = d q + m"""
    _nibbles(blocks[:, 4:], out)
    out *= half(blocks, 0)
    out += half(blocks, 2)


def _q5_0(blocks: Bytes, out: Floats) -> None:
    """w = d (q - 16)"""
    out[...] = q5_codes(blocks, 2)
    out -= np.float32(16)
    out *= half(blocks, 0)


def _q5_1(blocks: Bytes, out: Floats) -> None:
    """w = d q + m"""
    out[...] = q5_codes(blocks, 4)
    out *= half(blocks, 0)
    out += half(blocks, 2)


def _q8_0(blocks: Bytes, out: Floats) -> None:
    """w = d q"""
    out[...] = blocks[:, 2:].view(np.int8)
    out *= half(blocks, 0)


def _iq4_nl(blocks: Bytes, out: Floats) -> None:
    """w = d v"""
    out[...] = iq4_codes(blocks[:, 2:])
    out -= np.float32(IQ4_ZERO)
    out *= half(blocks, 0)


def _nibbles(packed: Bytes, out: Floats) -> None:
    """As `digits` orders them, but straight to floats, which takes a third less time."""
    out[:, :16] = packed & np.uint8(15)
    out[:, 16:] = packed >> np.uint8(4)


_FILL: dict[int, Callable[[Bytes, Floats], None]] = {
    F32.id: _f32, F16.id: _f16, BF16.id: _bf16,
    Q4_0.id: _q4_0, Q4_1.id: _q4_1, Q5_0.id: _q5_0, Q5_1.id: _q5_1, Q8_0.id: _q8_0, IQ4_NL.id: _iq4_nl,
    Q2_K.id: q2_k, Q3_K.id: q3_k, Q4_K.id: q4_k, Q5_K.id: q5_k, Q6_K.id: q6_k, IQ4_XS.id: iq4_xs,
}
