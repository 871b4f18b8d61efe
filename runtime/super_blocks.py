"""Super-blocks of GGUF tensor types to float32: 256 elements in groups of 16 or 32, whose scales are small integers
times a float16 d of the block. One function a type: uint8 `[blocks, size]` in, float32 into `out`.

Layouts (ggml), fields in the order of the bytes: Q2_K 16 scales, codes, d, d of minima. Q3_K high bits, low bits, 12
bytes of scales, d. Q4_K d, d of minima, 12 bytes of scales, codes; Q5_K the same with the high bits before the low.
Q6_K low bits, high bits, 16 scales, d. IQ4_XS d, high bits of scales, low bits of scales, codes.
"""

from __future__ import annotations

import numpy as np

from .block_fields import (
    IQ4_ZERO,
    Bytes,
    Floats,
    digits,
    half,
    iq4_codes,
    iq4_xs_scales,
    joined,
    q5_k_codes,
    six_bit_scales,
)


def q2_k(blocks: Bytes, out: Floats) -> None:
    """w = d s q - e m, groups of 16; s in the low half of a byte, m in the high one"""
    scales = blocks[:, :16]
    out[...] = digits(blocks[:, 16:80], 2, 32)
    _scale(out, half(blocks, 80) * (scales & np.uint8(15)))
    _subtract(out, half(blocks, 82) * (scales >> np.uint8(4)))


def q3_k(blocks: Bytes, out: Floats) -> None:
    """w = d (s - 32) (q - 4), groups of 16"""
    out[...] = joined(digits(blocks[:, 32:96], 2, 32), digits(blocks[:, :32], 1, 32), 2)
    out -= np.float32(4)
    scales = joined(digits(blocks[:, 96:104], 4, 8), digits(blocks[:, 104:108], 2, 4), 4)
    _scale(out, half(blocks, 108) * (scales - np.float32(32)))


def q4_k(blocks: Bytes, out: Floats) -> None:
    """w = d s q - e m, groups of 32"""
    out[...] = digits(blocks[:, 16:], 4, 32)
    _scale_and_subtract(blocks, out)


def q5_k(blocks: Bytes, out: Floats) -> None:
    """w = d s q - e m, groups of 32"""
    out[...] = q5_k_codes(blocks)
    _scale_and_subtract(blocks, out)


def q6_k(blocks: Bytes, out: Floats) -> None:
    """w = d s (q - 32), groups of 16, s signed"""
    out[...] = joined(digits(blocks[:, :128], 4, 64), digits(blocks[:, 128:192], 2, 32), 4)
    out -= np.float32(32)
    _scale(out, half(blocks, 208) * blocks[:, 192:208].view(np.int8))


def iq4_xs(blocks: Bytes, out: Floats) -> None:
    """w = d (s - 32) v, groups of 32"""
    out[...] = iq4_codes(blocks[:, 8:])
    out -= np.float32(IQ4_ZERO)
    _scale(out, half(blocks, 0) * (iq4_xs_scales(blocks) - np.float32(32)))


def _scale_and_subtract(blocks: Bytes, out: Floats) -> None:
    scales, minima = six_bit_scales(blocks, 4)
    _scale(out, half(blocks, 0) * scales)
    _subtract(out, half(blocks, 2) * minima)


def _scale(out: Floats, scales: Floats) -> None:
    """scales: one for each group, [blocks, groups]."""
    _groups(out, scales)[...] *= scales[..., None]


def _subtract(out: Floats, minima: Floats) -> None:
    _groups(out, minima)[...] -= minima[..., None]


def _groups(out: Floats, values: Floats) -> Floats:
    return out.reshape(*values.shape, -1)
