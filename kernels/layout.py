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
class PagedCache:
    """The KV pool. k, v: one tensor a layer, [pages, kv_heads, page, head_dim]. Contents start undefined."""

    k: tuple[torch.Tensor, ...]
    v: tuple[torch.Tensor, ...]

    @classmethod
    def allocate(
        cls, *, layers: int, pages: int, kv_heads: int, page: int, head_dim: int, dtype: torch.dtype,
        device: torch.device,
    ) -> PagedCache:
        """Not zeroed: memory that no request has reached is never touched."""
        shape = (pages, kv_heads, page, head_dim)
        k, v = (tuple(torch.empty(shape, dtype=dtype, device=device) for _ in range(layers)) for _ in range(2))
        return cls(k, v)

    @property
    def pages(self) -> int:
        return self.k[0].shape[0]

    @property
    def page(self) -> int:
        return self.k[0].shape[2]


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
