"""y = x W^T.

pack_linear(weight) -> packed
    weight: [n, k]. Returns what `linear` takes: the weight itself, or a copy in the order that the CPU's matrix units
    read (the caller can then drop the weight).
linear(x, packed) -> y
    x: [tokens, k]. Returns [tokens, n] in the dtype of x.

Exact: rows go in tiles of TILE, the last one padded with zeros, so that every product has the same shape and the bits
of a row cannot depend on how many rows there are. (Padding to a smallest size alone is not enough: the library changes
its kernel, and with it the order of its sums, again at larger sizes.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .base import FLOATS, Implementation

# 16 rows: of 8, 16 and 32 the middle in both decode (one tile) and prefill (32 tiles for 512 tokens).
TILE = 16


def reference(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(x, packed)


def keep(weight: torch.Tensor) -> torch.Tensor:
    return weight.contiguous()


def _packs(dtype: torch.dtype) -> bool:
    available: Callable[[], bool] = torch.backends.mkldnn.is_available
    return available() and (dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))


def pack(weight: torch.Tensor) -> torch.Tensor:
    if not _packs(weight.dtype):
        return keep(weight)
    packed: torch.Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
    return packed


def fast(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    if not packed.is_mkldnn:
        return torch.nn.functional.linear(x, packed)
    y: torch.Tensor = torch.ops.mkldnn._linear_pointwise.default(x, packed, None, "none", [], "")
    return y


def exact(x: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
    tokens = x.shape[0]
    tiles = max(1, -(-tokens // TILE))
    padded = torch.nn.functional.pad(x, (0, 0, 0, tiles * TILE - tokens))
    return torch.cat([fast(padded[i * TILE : (i + 1) * TILE], packed) for i in range(tiles)])[:tokens]


IMPLEMENTATIONS = (
    Implementation("linear", ("cpu",), FLOATS, ("fast",), fast),
    Implementation("linear", ("cpu",), (torch.float32,), ("exact",), exact),
    Implementation("linear", ("cuda",), FLOATS, ("fast",), reference),
    Implementation("pack_linear", ("cpu",), FLOATS, ("fast", "exact"), pack),
    Implementation("pack_linear", ("cuda",), FLOATS, ("fast",), keep),
)
