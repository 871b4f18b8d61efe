"""embed(table, tokens) -> x. table: [vocabulary, width]. tokens: [n] int64. Returns a new [n, width]."""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation


def reference(table: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return table.index_select(0, tokens)


IMPLEMENTATIONS = (Implementation("embed", ("cpu", "cuda"), FLOATS, ("fast", "exact"), reference),)
