"""RMSNorm with the residual sum in front (Zhang and Sennrich 2019).

add_rms_norm(x, delta, weight, eps, offset=0) -> normed
    x: [tokens, width], contiguous. delta: like x, or None. weight: [width]. eps: added to the mean square. offset: what
    is added to the weight in float32 (1 for Gemma).
    Effect: x += delta, rounded to the dtype of x. Returns x * (weight + offset) / sqrt(mean(x**2) + eps), computed in
    float32 and rounded once. A row depends on itself alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .base import FLOATS, Implementation
from .compiled import address, bfloats, floats, inner, kernel, load, rounded
from .jit import Arg, constexpr, jit, next_power_of_2, tl


def reference(
    x: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor, eps: float, offset: float = 0.0
) -> torch.Tensor:
    if delta is not None:
        x += delta
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * (weight.float() + offset)).to(x.dtype)


@inner
def _rows(x: Any, delta: Any, weight: Any, out: Any, add: bool, eps: Any, offset: Any) -> None:
    width = x.shape[1]
    wide = np.empty(width, np.float32)
    for t in range(x.shape[0]):
        if add:
            for i in range(width):
                x[t, i] = rounded(load(x[t, i]) + load(delta[t, i]), x[t, i])
        square = np.float32(0.0)
        for i in range(width):
            value = load(x[t, i])
            wide[i] = value
            square += value * value
        scale = np.float32(1.0) / np.sqrt(square / np.float32(width) + eps)
        for i in range(width):
            out[t, i] = rounded(wide[i] * scale * (load(weight[i]) + offset), out[t, i])


@kernel("void(int64, int64, int64, int64, int64, int64, float32, float32)")
def _float32(
    x: Any, delta: Any, weight: Any, out: Any, tokens: Any, width: Any, eps: Any, offset: Any
) -> None:
    shape = (tokens, width)
    _rows(
        floats(x, shape), floats(delta, shape),
        floats(weight, width), floats(out, shape), delta != 0, eps, offset,
    )


@kernel("void(int64, int64, int64, int64, int64, int64, float32, float32)")
def _bfloat16(
    x: Any, delta: Any, weight: Any, out: Any, tokens: Any, width: Any, eps: Any, offset: Any
) -> None:
    shape = (tokens, width)
    _rows(
        bfloats(x, shape), bfloats(delta, shape),
        bfloats(weight, width), bfloats(out, shape), delta != 0, eps, offset,
    )


def compiled(
    x: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor, eps: float, offset: float = 0.0
) -> torch.Tensor:
    tokens, width = x.shape
    out = torch.empty_like(x)
    added = 0 if delta is None else address(delta, tokens, width)
    run = _bfloat16 if x.dtype == torch.bfloat16 else _float32
    run(address(x, tokens, width), added, address(weight, width), out.data_ptr(), tokens, width, eps, offset)
    return out


@jit
def _rms_norm(
    x: Arg, delta: Arg, weight: Arg, out: Arg, width: Arg, eps: Arg, offset: Arg, ADD: constexpr, BLOCK: constexpr
) -> None:
    """One program a row; the block comes from the width alone, and with it the order of the sum."""
    i = tl.arange(0, BLOCK)
    inside = i < width
    at = tl.program_id(0).to(tl.int64) * width + i
    value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        stored = (value + tl.load(delta + at, mask=inside, other=0.0).to(tl.float32)).to(x.dtype.element_ty)
        tl.store(x + at, stored, mask=inside)
        value = stored.to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, 0) / width + eps)
    factor = tl.load(weight + i, mask=inside, other=0.0).to(tl.float32) + offset
    tl.store(out + at, value * scale * factor, mask=inside)


def on_device(
    x: torch.Tensor, delta: torch.Tensor | None, weight: torch.Tensor, eps: float, offset: float = 0.0
) -> torch.Tensor:
    tokens, width = x.shape
    out = torch.empty_like(x)
    block = next_power_of_2(width)
    if tokens:
        _rms_norm[(tokens,)](
            x, x if delta is None else delta, weight, out, width, eps, offset, ADD=delta is not None, BLOCK=block,
            num_warps=min(max(block // 512, 1), 16),
        )
    return out


IMPLEMENTATIONS = (
    Implementation("add_rms_norm", ("cpu",), FLOATS, ("fast", "exact"), compiled),
    Implementation("add_rms_norm", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
