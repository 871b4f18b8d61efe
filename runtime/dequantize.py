"""Blocks of GGUF tensor types to float32. One function a type: uint8 `[blocks, size]` in, float32 into `out`.

Layouts (ggml): a block of 32 begins with a float16 scale d, in Q4_1 followed by a float16 minimum m. Byte i of a
nibble block holds element i in its low half and element i + 16 in its high half.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .gguf_types import BF16, F16, F32, Q4_0, Q4_1, Q8_0, BlockType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


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
    out *= _half(blocks, 0)


def _q4_1(blocks: Bytes, out: Floats) -> None:
    """w = d q + m"""
    _nibbles(blocks[:, 4:], out)
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _q8_0(blocks: Bytes, out: Floats) -> None:
    """w = d q"""
    out[...] = blocks[:, 2:].view(np.int8)
    out *= _half(blocks, 0)


def _nibbles(packed: Bytes, out: Floats) -> None:
    out[:, :16] = packed & np.uint8(15)
    out[:, 16:] = packed >> np.uint8(4)


def _half(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte `at` of each block, as a float32 column."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


_FILL: dict[int, Callable[[Bytes, Floats], None]] = {
    F32.id: _f32, F16.id: _f16, BF16.id: _bf16, Q4_0.id: _q4_0, Q4_1.id: _q4_1, Q8_0.id: _q8_0,
}
