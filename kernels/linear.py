"""y = x W^T.

pack_linear(weight, groups) -> Matrix
    weight: [n, k]. groups: the same weight in 4 or 8 bits as its file stores it, or None. Returns what `linear` takes:
    the weight itself or a copy in the order that the CPU's matrix units read (the caller can then drop the weight).
linear(x, matrix) -> y
    x: [tokens, k]. Returns [tokens, n] in the dtype of x.

Fast, bfloat16, few rows: reading the weight is all the work, so the form in few bits is read (see quantized.py; on
other CPUs the library's own, 4 bits only).
Exact: rows go in tiles of TILE, the last one padded with zeros, so that every product has the same shape and the bits
of a row cannot depend on how many rows there are. (Padding to a smallest size alone is not enough: the library changes
its kernel, and with it the order of its sums, again at larger sizes.) That holds for a weight in the library's order;
over one that is kept as it was the sums of a row may also depend on its place in the tile (seen with k = 5 on a CPU
with AVX-512), so there each row is a product of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from . import quantized
from .base import FLOATS, Implementation
from .quantized import GROUP

Tensor = torch.Tensor

# 16 rows: of 8, 16 and 32 the middle in both decode (one tile) and prefill (32 tiles for 512 tokens).
TILE = 16
# One thread, the 120 products of a 135M model, 4 bits against bfloat16: 1 row 8.7 ms against 25.7, 4 rows 13.1 against
# 24.7, 6 rows 19.9 against 24.4, 8 rows 24.6 against 24.8.
FEW = 6
# The product over few bits runs on one thread: 8.5 ms for these at 8 rows, where the library takes 25 / threads.
THREADS = 3


@dataclass(frozen=True, slots=True)
class Groups:
    """weight[i, j] = scale[i, j // 32] * code[i, j] + offset[i, j // 32].

    codes: [n, k] uint8. scale, offset: [n, k / 32] float32."""

    codes: Tensor
    scale: Tensor
    offset: Tensor


@dataclass(frozen=True, slots=True)
class Matrix:
    """dense: [n, k], opaque when packed. Besides it at most one of: tiles, see quantized.py; codes and scales, 4 bits
    in the library's order."""

    dense: Tensor
    tiles: Tensor | None = None
    codes: Tensor | None = None
    scales: Tensor | None = None


def reference(x: Tensor, matrix: Matrix) -> Tensor:
    return torch.nn.functional.linear(x, matrix.dense)


def keep(weight: Tensor, groups: Groups | None = None) -> Matrix:
    return Matrix(weight.contiguous())


def pack(weight: Tensor, groups: Groups | None = None) -> Matrix:
    dense = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None) if _packs(weight.dtype) else weight
    if groups is None or weight.dtype != torch.bfloat16:
        return Matrix(dense)
    tiles = quantized.pack(groups.codes, groups.scale, groups.offset)
    if tiles is not None:
        return Matrix(dense, tiles)
    # The library's product works on 16 outputs at a time.
    if weight.shape[0] % 16 or weight.shape[1] % GROUP or int(groups.codes.max()) > 15:
        return Matrix(dense)
    return Matrix(dense, None, *_library(groups))


def _library(groups: Groups) -> tuple[Tensor, Tensor]:
    codes: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(groups.codes.int(), 1)
    # It counts codes from 8: scale * (code - 8) + (offset + 8 * scale).
    scales = torch.stack((groups.scale, groups.offset + 8 * groups.scale), -1).transpose(0, 1)
    return codes, scales.to(torch.bfloat16).contiguous()


def _packs(dtype: torch.dtype) -> bool:
    available: Callable[[], bool] = torch.backends.mkldnn.is_available
    return available() and (dtype == torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()))


def fast(x: Tensor, matrix: Matrix) -> Tensor:
    y: Tensor
    if matrix.tiles is not None and x.shape[0] <= quantized.FEW and torch.get_num_threads() <= THREADS:
        y = quantized.product(x, matrix.tiles)
    elif matrix.codes is not None and 0 < x.shape[0] <= FEW:
        y = torch.ops.aten._weight_int4pack_mm_for_cpu.default(x, matrix.codes, GROUP, matrix.scales)
    elif matrix.dense.is_mkldnn:
        y = torch.ops.mkldnn._linear_pointwise.default(x, matrix.dense, None, "none", [], "")
    else:
        y = torch.nn.functional.linear(x, matrix.dense)
    return y


def exact(x: Tensor, matrix: Matrix) -> Tensor:
    if not matrix.dense.is_mkldnn:
        return _row_by_row(x, matrix)
    tokens = x.shape[0]
    tiles = max(1, -(-tokens // TILE))
    padded = torch.nn.functional.pad(x, (0, 0, 0, tiles * TILE - tokens))
    return torch.cat([fast(padded[i * TILE : (i + 1) * TILE], matrix) for i in range(tiles)])[:tokens]


def _row_by_row(x: Tensor, matrix: Matrix) -> Tensor:
    """Each row from the same memory: where that lies may change the order of sums too."""
    row, y = x.new_empty(1, x.shape[1]), x.new_empty(x.shape[0], matrix.dense.shape[0])
    for i in range(x.shape[0]):
        y[i] = fast(row.copy_(x[i : i + 1]), matrix)[0]
    return y


IMPLEMENTATIONS = (
    Implementation("linear", ("cpu",), FLOATS, ("fast",), fast),
    Implementation("linear", ("cpu",), (torch.float32,), ("exact",), exact),
    Implementation("linear", ("cuda",), FLOATS, ("fast",), reference),
    Implementation("pack_linear", ("cpu",), FLOATS, ("fast", "exact"), pack),
    Implementation("pack_linear", ("cuda",), FLOATS, ("fast",), keep),
)
