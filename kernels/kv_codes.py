"""8-bit codes of keys and values, a float32 scale for each slot and KV head.

value = code * scale. scale = (largest absolute value of the head) / LIMITS[dtype]; codes are rounded to nearest even. A
head whose values are all below LEAST has codes of 0.

encode(values, dtype) -> (codes, scale). values: [..., head_dim] float32. codes: like values, in dtype. scale: [...]
float32.
"""

from __future__ import annotations

import torch

from .base import KernelError
from .jit import INTERPRETED, Arg, constexpr, jit, tl

LIMITS = {torch.float8_e4m3fn: 448.0, torch.int8: 127.0}
# Below it the reciprocal of a scale is no number.
LEAST = 1e-30


def encode(values: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Raises KernelError for a dtype without a code."""
    if dtype not in LIMITS:
        raise KernelError(f"keys and values have codes in {', '.join(map(str, LIMITS))}, not in {dtype}")
    best = values.abs().amax(-1)
    factor = torch.where(best > LEAST, LIMITS[dtype] / best, 0.0)
    scaled = values * factor[..., None]
    return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), best / LIMITS[dtype]


def decode(codes: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """float32 values of codes: [..., head_dim], scale: [...]."""
    return codes.float() * scale[..., None]


@jit
def factors(best: Arg, LIMIT: constexpr) -> Arg:
    """(scale, what values are multiplied with) of heads whose largest absolute value is `best`."""
    limit = tl.full(best.shape, LIMIT, tl.float32)
    small = best <= 1e-30
    return tl.div_rn(best, limit), tl.where(small, 0.0, tl.div_rn(limit, tl.where(small, 1.0, best)))


@jit
def coded(scaled: Arg, kind: Arg) -> Arg:
    """Scaled values as codes of the type `kind`: int8 or e4m3."""
    if kind == tl.int8:
        # Adding 1.5 * 2**23 leaves no fraction, rounded to nearest even.
        return ((scaled + 12582912.0) - 12582912.0).to(tl.int32).to(tl.int8)
    if INTERPRETED:
        # The interpreter loses the carry of a mantissa that is rounded up: rounded here, to 3 bits or, where e4m3 has
        # no leading one, to multiples of 2**-9.
        bits = scaled.to(tl.int32, bitcast=True)
        normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) & -0x100000).to(tl.float32, bitcast=True)
        scaled = tl.where(tl.abs(scaled) < 0.015625, (scaled + 24576.0) - 24576.0, normal)
    return scaled.to(kind)
