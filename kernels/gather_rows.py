"""gather_rows(x, index) -> rows. x: [tokens, width]. index: [n] int64. Returns a new [n, width]: x[index]."""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation
from .jit import Arg, constexpr, jit, tl

BLOCK = 4096


def reference(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, index)


@jit
def _gather(x: Arg, index: Arg, out: Arg, width: Arg, BLOCK: constexpr) -> None:
    row = tl.program_id(1).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + tl.load(index + row) * width + i, mask=i < width)
    tl.store(out + row * width + i, value, mask=i < width)


def on_device(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    width, n = x.shape[1], index.shape[0]
    out = torch.empty((n, width), dtype=x.dtype, device=x.device)
    if n:
        _gather[(-(-width // BLOCK), n)](x.contiguous(), index, out, width, BLOCK=BLOCK, num_warps=4)
    return out


IMPLEMENTATIONS = (
    Implementation("gather_rows", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("gather_rows", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
