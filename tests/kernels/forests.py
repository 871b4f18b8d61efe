"""Forests of rows over a poisoned pool: every slot that no row can see holds NaN."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from espalier.kernels.items import Row, Segment


@dataclass(frozen=True)
class Node:
    """`slots` slots below those of the parent; at a leaf the last `tokens` are computed, the last `draft` drafted."""

    slots: int
    below: tuple[Node, ...] = ()
    tokens: int = 1
    draft: int = 0


@dataclass
class Forest:
    page: int
    rows: list[Row] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    tables: list[list[int]] = field(default_factory=list)
    filled: list[tuple[int, int]] = field(default_factory=list)
    """(page, slots of it that hold something) of every page."""

    @classmethod
    def of(cls, trees: Iterable[Node], page: int, seed: int = 0) -> Forest:
        forest = cls(page)
        free = list(range(1 << 14))
        random.Random(seed).shuffle(free)
        for tree in trees:
            forest._grow(tree, -1, 0, [], free)
        return forest

    @property
    def tokens(self) -> int:
        return self.rows[-1].q_end

    @property
    def pages(self) -> int:
        return max((page for page, _ in self.filled), default=0) + 1

    def _grow(self, node: Node, parent: int, begin: int, table: Sequence[int], free: list[int]) -> None:
        index, end, first_row = len(self.segments), begin + node.slots, len(self.rows)
        assert begin % self.page == 0
        mine = [free.pop() for _ in range(-(-node.slots // self.page))]
        self.filled += [(page, min(self.page, node.slots - i * self.page)) for i, page in enumerate(mine)]
        table = [*table, *mine]
        self.segments.append(Segment(begin, end, first_row, first_row, parent, len(self.tables)))
        for child in node.below:
            self._grow(child, index, end, table, free)
        if not node.below:
            q_begin = self.rows[-1].q_end if self.rows else 0
            self.rows.append(Row(len(self.tables), q_begin, node.tokens, end, end - node.draft, node.draft, index))
            self.tables.append(table)
        segment = self.segments[index]
        self.segments[index] = Segment(begin, end, first_row, len(self.rows), parent, segment.representative)

    def block_table(self, device: str = "cpu") -> torch.Tensor:
        width = max(max(map(len, self.tables)), 1)
        return torch.tensor([t + [0] * (width - len(t)) for t in self.tables], dtype=torch.int32, device=device)

    def pool(self, kv_heads: int, head_dim: int, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
        """[pages, kv_heads, page, head_dim], random where a row can see it and NaN elsewhere."""
        pool = torch.full((self.pages, kv_heads, self.page, head_dim), torch.nan, dtype=dtype, device=device)
        for page, slots in self.filled:
            pool[page, :, :slots] = torch.randn(kv_heads, slots, head_dim, device=device).to(dtype)
        return pool

    def draft_bits(self, seed: int = 0) -> torch.Tensor:
        """Random chains: a draft token sees itself and, of every earlier one, what a coin says."""
        coin = random.Random(seed)
        bits = torch.zeros((self.tokens, 2), dtype=torch.int64)
        for row in self.rows:
            for i in range(row.draft_len):
                word = 1 << i
                for j in range(i):
                    word |= coin.randrange(2) << j
                token = row.q_end - row.draft_len + i
                bits[token, 0], bits[token, 1] = word & 0xFFFFFFFF, word >> 32
        return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)
