"""gather_rows(x, index) -> rows. x: [tokens, width]. index: [n] int64. Returns a new [n, width]: x[index]."""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation


def reference(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.index_select(0, index)


IMPLEMENTATIONS = (Implementation("gather_rows", ("cpu", "cuda"), FLOATS, ("fast", "exact"), reference),)
