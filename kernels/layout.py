"""Where a token's keys and values lie. Nobody else computes an index into KV memory.

A layer has k, v: [pages, kv_heads, page, head_dim]: inside a page each head is one run of page * head_dim values, good
for matrix products on the CPU and for one copy per head on a GPU. Position p of a row lies in page tables[row, p //
page], slot p % page. Slots that no row has written may hold anything, NaN included: nothing may read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .base import KernelError

# Rows of few new tokens walk their pages one token at a time, longer ones go through matrix products. Measured for 3 KV
# heads of 64 in bfloat16, one thread, us: walking takes 0.086 for each pair of a token and a position, products take
# 230 and about 130 more for every 1,024 positions: 9 tokens at 700 take 548 and 524, 4 at 3,000 take 1,142 and 1,432.
FEW = 4
WALK = 4096


@dataclass(frozen=True, slots=True)
class Planes:
    """Tensors of a pool that have the same shape, as a kernel finds them. addresses: [tensors] int64, on the pool's
    device. words: int32 words of a slot; a page is kv_heads runs of page * words."""

    addresses: torch.Tensor
    words: int

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor], words: int) -> Planes:
        found = torch.tensor([tensor.data_ptr() for tensor in tensors], dtype=torch.int64)
        return cls(found.to(tensors[0].device), words)


@dataclass(frozen=True, slots=True)
class PagedCache:
    """The KV pool. k, v: one tensor a layer, [pages, kv_heads, page, head_dim]. k_scale, v_scale: where k and v are
    8-bit codes, one tensor a layer, [pages, kv_heads, page] float32 (see kv_codes); else empty. planes: all of these.
    Contents start undefined."""

    k: tuple[torch.Tensor, ...]
    v: tuple[torch.Tensor, ...]
    k_scale: tuple[torch.Tensor, ...]
    v_scale: tuple[torch.Tensor, ...]
    planes: tuple[Planes, ...]

    @classmethod
    def allocate(
        cls, *, layers: int, pages: int, kv_heads: int, page: int, head_dim: int, dtype: torch.dtype,
        device: torch.device,
    ) -> PagedCache:
        """Not zeroed: memory that no request has reached is never touched. Raises KernelError for a head_dim of which
        no whole number of 4-byte words is made."""
        if head_dim * dtype.itemsize % 4:
            raise KernelError(f"a head of {head_dim} values of {dtype} is no whole number of 4-byte words")
        shape = (pages, kv_heads, page, head_dim)
        coded = layers if dtype.itemsize == 1 else 0

        def made(count: int, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
            return tuple(torch.empty(shape, dtype=dtype, device=device) for _ in range(count))

        k, v = (made(layers, shape, dtype) for _ in range(2))
        k_scale, v_scale = (made(coded, shape[:3], torch.float32) for _ in range(2))
        planes = [Planes.of((*k, *v), head_dim * dtype.itemsize // 4)]
        return cls(k, v, k_scale, v_scale, (*planes, *([Planes.of((*k_scale, *v_scale), 1)] if coded else [])))

    @property
    def pages(self) -> int:
        return self.k[0].shape[0]

    @property
    def page(self) -> int:
        return self.k[0].shape[2]

    @property
    def kv_heads(self) -> int:
        return self.k[0].shape[1]

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Everything a page has: [pages, kv_heads, page, ...] each."""
        return (*self.k, *self.v, *self.k_scale, *self.v_scale)


@dataclass(frozen=True, slots=True)
class Span:
    """One row of a batch: its tokens are [begin, begin + count) of the batch, its first position is `start`."""

    begin: int
    count: int
    start: int
    pages: tuple[int, ...]

    @property
    def walks(self) -> bool:
        return self.count <= FEW or self.count * (self.start + self.count) <= WALK


@dataclass(frozen=True, slots=True)
class Batch:
    """The tokens of one step, row after row.

    positions: [tokens] int64. rows: [tokens] int32, the row of each token. tables: [rows, most pages] int32, padded
    with 0. few: [n] int32, the tokens of rows that walk. long: the spans of the others.
    """

    page: int
    positions: torch.Tensor
    rows: torch.Tensor
    tables: torch.Tensor
    few: torch.Tensor
    spans: tuple[Span, ...]
    long: tuple[Span, ...]

    @classmethod
    def of(cls, spans: Sequence[Span], *, page: int, pages: int, device: torch.device) -> Batch:
        """Raises KernelError when a block table is too short for its row or names a page outside the pool."""
        for span in spans:
            if span.count < 1 or span.start < 0 or span.start + span.count > len(span.pages) * page:
                raise KernelError(f"positions [{span.start}, {span.start + span.count}) need more pages than given")
        tables = np.zeros((len(spans), max(len(span.pages) for span in spans)), np.int32)
        for row, span in enumerate(spans):
            tables[row, : len(span.pages)] = span.pages
        if tables.min() < 0 or tables.max() >= pages:
            raise KernelError(f"a block table names a page outside [0, {pages})")
        counts = [span.count for span in spans]
        rows = np.repeat(np.arange(len(spans), dtype=np.int32), counts)
        positions = np.concatenate([np.arange(s.start, s.start + s.count, dtype=np.int64) for s in spans])
        few = np.flatnonzero(np.repeat([span.walks for span in spans], counts)).astype(np.int32)
        return cls(
            page=page, positions=torch.from_numpy(positions).to(device), rows=torch.from_numpy(rows).to(device),
            tables=torch.from_numpy(tables).to(device), few=torch.from_numpy(few).to(device), spans=tuple(spans),
            long=tuple(span for span in spans if not span.walks),
        )

    @property
    def tokens(self) -> int:
        return self.positions.shape[0]

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(page, slot) of every token, int64."""
        pages = self.tables[self.rows.long(), self.positions // self.page].long()
        return pages, self.positions % self.page


def gather_slots(cache: torch.Tensor, span: Span, begin: int, end: int) -> torch.Tensor:
    """Positions [begin, end) of a row, copied out of one layer's k or v: [kv_heads, end - begin, head_dim]."""
    page = cache.shape[2]
    first = begin // page
    pages = torch.tensor(span.pages[first : -(-end // page)], dtype=torch.int64, device=cache.device)
    run = cache.index_select(0, pages).transpose(0, 1).flatten(1, 2)
    return run[:, begin - first * page : end - first * page]
