"""gather_rows(x, index) -> rows: the last rows of a step before the head, and any other selection.

x: [tokens, width]. index: [n] int64 or int32. Returns a new [n, width]: x[index]. On a GPU an index outside
[0, tokens) is a fault of the caller; with an error tensor it leaves a code and its row is zeros (see checked).
"""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation
from .checked import require
from .jit import Arg, constexpr, jit, tl

BLOCK = 4096


def reference(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, index)


@jit
def _gather(
    x: Arg, index: Arg, out: Arg, error: Arg, tokens: Arg, width: Arg, BLOCKS: constexpr, CHECKED: constexpr,
    BLOCK: constexpr,
) -> None:
    """One program a (row, block). The first axis of a grid is the one that is not bounded by 65,535."""
    row = (tl.program_id(0) // BLOCKS).to(tl.int64)
    i = tl.program_id(0) % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    inside = i < width
    at = tl.load(index + row).to(tl.int64)
    if CHECKED:
        known = (at >= 0) & (at < tokens)
        require(known, error, 4)
        tl.store(out + row * width + i, tl.load(x + at * width + i, mask=inside & known, other=0.0), mask=inside)
    else:
        tl.store(out + row * width + i, tl.load(x + at * width + i, mask=inside), mask=inside)


def on_device(x: torch.Tensor, index: torch.Tensor, *, error: torch.Tensor | None = None) -> torch.Tensor:
    width, n, blocks = x.shape[1], index.shape[0], -(-x.shape[1] // BLOCK)
    out = torch.empty((n, width), dtype=x.dtype, device=x.device)
    if n:
        _gather[(blocks * n,)](
            x.contiguous(), index, out, index if error is None else error, x.shape[0], width, BLOCKS=blocks,
            CHECKED=error is not None, BLOCK=BLOCK, num_warps=4,
        )
    return out


IMPLEMENTATIONS = (
    Implementation("gather_rows", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("gather_rows", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
