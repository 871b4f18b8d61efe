"""What paged attention takes: what is visible (Step), how it is cut (Work), how scores are made (Score)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .items import Plan, Row, Segment


@dataclass(frozen=True, slots=True)
class Step:
    """What is visible, on the device, int32.

    rows: [rows, 8], segments: [segments, 8] (see items). block_table: [slots, pages of a row]. q_slot, pos: [tokens].
    draft_bits: [tokens, 2], bit i of word w is slot draft_begin + 32 w + i. drafts: whether any row has a draft region.
    """

    rows: torch.Tensor
    segments: torch.Tensor
    block_table: torch.Tensor
    q_slot: torch.Tensor
    pos: torch.Tensor
    draft_bits: torch.Tensor
    drafts: bool = False

    @classmethod
    def of(
        cls, rows: Sequence[Row], segments: Sequence[Segment], block_table: torch.Tensor,
        *, draft_bits: torch.Tensor | None = None, pos: torch.Tensor | None = None,
    ) -> Step:
        device = block_table.device
        slots = torch.tensor(
            [row.kv_len - row.q_len + i if row.kv_len else -1 for row in rows for i in range(row.q_len)],
            dtype=torch.int32, device=device)
        bits = torch.full((slots.shape[0], 2), -1, dtype=torch.int32, device=device)
        return cls(_packed(rows, device), _packed(segments, device), block_table, slots, slots if pos is None else pos,
                   bits if draft_bits is None else draft_bits, any(row.draft_len for row in rows))


@dataclass(frozen=True, slots=True)
class Work:
    """A plan on the device.

    items: [2, n, 8], n_items: [2], part_begin: [tokens + 1] int32. part_o: [parts, q_heads, head_dim], part_ml: [parts,
    q_heads, 2] float32, contents undefined. counts: items of each bin, at most; those there
    are not cost about a nanosecond a KV head. merges: whether any token has, or may have, parts.
    """

    items: torch.Tensor
    n_items: torch.Tensor
    part_begin: torch.Tensor
    part_o: torch.Tensor
    part_ml: torch.Tensor
    counts: tuple[int, int]
    merges: bool

    @classmethod
    def of(cls, plan: Plan, *, q_heads: int, head_dim: int, device: torch.device) -> Work:
        counts = len(plan.narrow), len(plan.wide)
        items = torch.zeros((2, max(counts), 8), dtype=torch.int32)
        for bin_, found in enumerate((plan.narrow, plan.wide)):
            for index, item in enumerate(found):
                items[bin_, index] = torch.tensor(item.packed(), dtype=torch.int32)
        parts = max(plan.part_begin[-1], 1)
        return cls(
            items.to(device), torch.tensor(counts, dtype=torch.int32, device=device),
            torch.tensor(plan.part_begin, dtype=torch.int32, device=device),
            torch.empty((parts, q_heads, head_dim), dtype=torch.float32, device=device),
            torch.empty((parts, q_heads, 2), dtype=torch.float32, device=device), counts, plan.part_begin[-1] > 0,
        )

    @classmethod
    def room(
        cls, *, tokens: int, counts: tuple[int, int], q_heads: int, head_dim: int, device: torch.device,
        size: int = 256 << 20,
    ) -> Work:
        """For plans made on the device, which are cut so that they fit: up to so many tokens and items of each bin
        (the wide one 0 where no step has such work), their parts within `size` bytes."""
        parts = max(size // (4 * q_heads * (head_dim + 2)), 1)
        items, n_items, part_begin = (
            torch.zeros(shape, dtype=torch.int32, device=device)
            for shape in ((2, max(counts), 8), (2,), (tokens + 1,)))
        return cls(
            items, n_items, part_begin, torch.empty((parts, q_heads, head_dim), dtype=torch.float32, device=device),
            torch.empty((parts, q_heads, 2), dtype=torch.float32, device=device), counts, True,
        )


@dataclass(frozen=True, slots=True)
class Score:
    """scale > 0. window, soft_cap: 0 for none. sinks: [q_heads] float32. k_scale, v_scale: [pages, kv_heads, page]."""

    scale: float
    window: int = 0
    soft_cap: float = 0.0
    sinks: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None


def _packed(records: Sequence[Row] | Sequence[Segment], device: torch.device) -> torch.Tensor:
    return torch.tensor([record.packed() for record in records], dtype=torch.int32, device=device)


def visible(step: Step, window: int) -> list[torch.Tensor]:
    """Per token, the slots it sees, ascending int64. The contract in plain words; knows of no items."""
    found = []
    for _, q_begin, q_len, kv_len, draft_begin, draft_len, *_ in step.rows.tolist():
        for token in range(q_begin, q_begin + q_len):
            last = int(step.q_slot[token])
            drafted = draft_len > 0 and last >= draft_begin
            low = max(0, (int(step.pos[token]) if drafted else last) + 1 - window) if window else 0
            slots = torch.arange(low, min(last + 1, kv_len))
            at = (slots - draft_begin).clamp(0, 63)
            words = step.draft_bits[token].cpu().long()[at // 32]
            hidden = (slots >= draft_begin) & (slots < draft_begin + draft_len) & ((words >> (at % 32)) & 1 == 0)
            found.append(slots[~hidden])
    return found
