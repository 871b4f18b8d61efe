"""Tensors that a file stores in few bits, as the groups of 32 that the CPU's products over few bits take.

Not here: Q2_K, Q3_K and Q6_K, whose groups are of 16.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ...kernels.linear import Groups
from ..block_fields import (
    IQ4_ZERO,
    Bytes,
    Floats,
    digits,
    half,
    iq4_codes,
    iq4_xs_scales,
    q5_codes,
    q5_k_codes,
    six_bit_scales,
)
from ..gguf_types import IQ4_NL, IQ4_XS, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q8_0, BlockType

Parts = tuple[Bytes, Floats, Floats]


def few_bits(kind: BlockType, rows: Bytes) -> Groups | None:
    """rows: uint8 [n, bytes], whole blocks. Returns the same values, or None for a type that has no such groups."""
    if kind.id not in _PARTS:
        return None
    codes, scale, offset = _PARTS[kind.id](rows.reshape(-1, kind.size))
    return Groups(*(torch.from_numpy(part.reshape(len(rows), -1)) for part in (codes, scale, offset)))


def _q4_0(blocks: Bytes) -> Parts:
    return _centred(digits(blocks[:, 2:], 4, 16), blocks, 8)


def _q4_1(blocks: Bytes) -> Parts:
    return digits(blocks[:, 4:], 4, 16), half(blocks, 0), half(blocks, 2)


def _q5_0(blocks: Bytes) -> Parts:
    return _centred(q5_codes(blocks, 2), blocks, 16)


def _q5_1(blocks: Bytes) -> Parts:
    return q5_codes(blocks, 4), half(blocks, 0), half(blocks, 2)


def _q8_0(blocks: Bytes) -> Parts:
    return _centred(blocks[:, 2:] ^ np.uint8(128), blocks, 128)


def _iq4_nl(blocks: Bytes) -> Parts:
    return _centred(iq4_codes(blocks[:, 2:]), blocks, IQ4_ZERO)


def _q4_k(blocks: Bytes) -> Parts:
    return digits(blocks[:, 16:], 4, 32), *_scales_and_minima(blocks)


def _q5_k(blocks: Bytes) -> Parts:
    return q5_k_codes(blocks), *_scales_and_minima(blocks)


def _iq4_xs(blocks: Bytes) -> Parts:
    scale = half(blocks, 0) * (iq4_xs_scales(blocks) - np.float32(32))
    return iq4_codes(blocks[:, 8:]), scale, -np.float32(IQ4_ZERO) * scale


def _scales_and_minima(blocks: Bytes) -> tuple[Floats, Floats]:
    scales, minima = six_bit_scales(blocks, 4)
    return half(blocks, 0) * scales, -half(blocks, 2) * minima


def _centred(codes: Bytes, blocks: Bytes, zero: int) -> Parts:
    """Codes that are counted from -zero, with the scale at the beginning of each block."""
    scale = half(blocks, 0)
    return codes, scale, -np.float32(zero) * scale


_PARTS: dict[int, Callable[[Bytes], Parts]] = {
    Q4_0.id: _q4_0, Q4_1.id: _q4_1, Q5_0.id: _q5_0, Q5_1.id: _q5_1, Q8_0.id: _q8_0, IQ4_NL.id: _iq4_nl,
    Q4_K.id: _q4_k, Q5_K.id: _q5_k, IQ4_XS.id: _iq4_xs,
}
