"""A batch that is planned on the device: its memory is fixed, so that a step over it can be captured and replayed.

attend(q, k, v, batch, scale) -> out: the contract of `attention.py` for such a batch, by paged attention.
    A shared prefix is read once for all rows below its segment. Exact: see `paged_attention.py`.

    host                                        device, in the order of the stream
    BatchRoom.fill: rows, segments, ids ... --> send: one copy    plan: items of all layers    then the model
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from . import paged_attention, plan_items
from .attention_tiles import Tiles, tiles_for
from .base import FLOATS, Implementation, KernelError
from .cut import CHUNK, LONGEST, Cut, check_groups
from .items import Row, Segment
from .packed_step import Inputs, PackedStep
from .paged import Score, Step, Work

# The largest head that is checked on a device, and the room for parts of all sizes of steps together.
LARGEST_HEAD, PARTS = 256, 256 << 20


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """positions: [tokens] int32; rows: [tokens] int32, the row of `tables` that is a token's block table. step, work:
    what is visible and how it is cut. side: where the wide bin runs beside the narrow one, None for one after the
    other."""

    page: int
    positions: torch.Tensor
    rows: torch.Tensor
    tables: torch.Tensor
    step: Step
    work: Work
    tiles: Tiles
    side: torch.cuda.Stream | None

    @property
    def tokens(self) -> int:
        return self.positions.shape[0]


@dataclass(frozen=True, slots=True)
class Heads:
    """What paged attention must know of a model and its pool. Raises KernelError for what it does not serve."""

    q_heads: int
    kv_heads: int
    head_dim: int
    page: int
    dtype: torch.dtype
    exact: bool

    def __post_init__(self) -> None:
        if self.head_dim > LARGEST_HEAD:
            raise KernelError(f"heads of {self.head_dim} values; paged attention serves up to {LARGEST_HEAD}")
        if self.page & (self.page - 1):
            raise KernelError(f"pages of {self.page} tokens; paged attention needs a power of two")
        check_groups(self.cut)
        if self.exact and self.dtype != torch.bfloat16:
            raise KernelError(f"exact mode on a GPU computes in bfloat16, not in {self.dtype}")

    @property
    def tiles(self) -> Tiles:
        return tiles_for(self.head_dim, exact=self.exact, wide_floats=self.dtype == torch.float32)

    @property
    def cut(self) -> Cut:
        tiles = self.tiles
        return Cut(groups=self.q_heads // self.kv_heads, kv_heads=self.kv_heads, narrow=tiles.narrow.m,
                   wide=tiles.wide.m, exact=self.exact)


@dataclass(frozen=True, slots=True)
class Counts:
    """Items of the (narrow, wide) bin of a step. whole: where nothing is cut that need not be. fine: as many as a plan
    may want. parts: of a step whose items are whole."""

    whole: tuple[int, int]
    fine: tuple[int, int]
    parts: int

    @classmethod
    def of(cls, rows: Sequence[Row], segments: Sequence[Segment], cut: Cut) -> Counts:
        whole, fine = [0, 0], [least_items(cut), -(-cut.most // cut.kv_heads)]
        levels: list[int] = []
        for segment in segments:
            tokens = rows[segment.row_end - 1].q_end - rows[segment.row_begin].q_begin
            wide = cut.is_wide(tokens)
            tiles = -(-tokens // cut.tokens(wide))
            most = (segment.slot_end - segment.slot_begin) // (CHUNK if cut.exact else LONGEST) + 2
            # Exact: below another segment every chunk is a piece.
            least = most if cut.exact and segment.parent >= 0 else 1
            levels.append(least + (levels[segment.parent] if segment.parent >= 0 else 0))
            whole[wide] += tiles * least
            fine[wide] += tiles * (least if wide else most)
        parts = sum(row.q_len * levels[row.segment] for row in rows if levels[row.segment] > 1)
        return cls((whole[0], whole[1]), (fine[0] if whole[0] else 0, fine[1] if whole[1] else 0), parts)


def least_items(cut: Cut) -> int:
    """Narrow items of a step that is cut until there are `least` programs: pieces grow by 64 slots from 128 on, and so
    there may be half as many again."""
    return -(-3 * cut.least // (2 * cut.kv_heads))


def padded(
    rows: Sequence[Row], segments: Sequence[Segment], tokens: int, slot: int, cut: Cut
) -> tuple[list[Row], list[Segment]]:
    """A step of `tokens` tokens: those that there are not belong to rows without keys of block table `slot`, each of
    them so short that it goes to the narrow bin."""
    each = cut.tokens(cut.groups > cut.narrow)
    rows, segments, at = [*rows], [*segments], rows[-1].q_end if rows else 0
    while at < tokens:
        segments.append(Segment(0, 0, len(rows), len(rows) + 1, -1, slot))
        rows.append(Row(slot, at, min(each, tokens - at), 0, 0, 0, len(segments) - 1))
        at = rows[-1].q_end
    return rows, segments


class Parts:
    """The accumulators that steps of all sizes share: one step is computed at a time."""

    def __init__(self, heads: Heads, device: torch.device, size: int = PARTS) -> None:
        self.work = Work.room(tokens=1, counts=(1, 1), q_heads=heads.q_heads, head_dim=heads.head_dim, device=device,
                              size=size)

    @property
    def count(self) -> int:
        return self.work.part_o.shape[0]


class BatchRoom:
    """Steps of up to `tokens` tokens in up to `rows` rows over block tables [slots, pages of a row], whose last slot is
    that of tokens a step does not have. error: [1] int32 of `checked`, of the planner."""

    def __init__(
        self, heads: Heads, tables: torch.Tensor, parts: Parts, error: torch.Tensor, *, rows: int, tokens: int,
        side: torch.cuda.Stream | None = None,
    ) -> None:
        self.tokens = tokens
        self._sent = torch.cuda.Event() if tables.is_cuda else None  # type: ignore[no-untyped-call]
        self._heads, self._tables, self._error, self._side = heads, tables, error, side
        self._packed = PackedStep(rows=rows + 1, tokens=tokens, changes=0, device=tables.device,
                                  spare=tables.shape[0] - 1)
        self._items = torch.zeros((2, items_for(rows, tokens), 8), dtype=torch.int32, device=tables.device)
        self._work = replace(
            parts.work, items=self._items, n_items=torch.zeros(2, dtype=torch.int32, device=tables.device),
            part_begin=torch.zeros(tokens + 1, dtype=torch.int32, device=tables.device))

    def fill(
        self, rows: Sequence[Row], segments: Sequence[Segment], *, tokens: int, ids: Sequence[int],
        source: Sequence[int], wanted: Sequence[int],
    ) -> None:
        """See `PackedStep.fill`. Waits until what was sent before is there."""
        if self._sent is not None:
            self._sent.synchronize()
        self._packed.fill(rows, segments, ids=ids, source=source, wanted=wanted, tokens=tokens)

    def send(self) -> None:
        self._packed.send()
        if self._sent is not None:
            self._sent.record()

    def plan(self, tokens: int, counts: tuple[int, int]) -> tuple[Inputs, PlannedBatch]:
        """Plans what was sent, with room for so many items of each bin; no more launches than that."""
        heads, cut = self._heads, self._heads.cut
        if max(counts) > self._items.shape[1]:
            raise KernelError(f"{list(counts)} items, there is room for {self._items.shape[1]} of each bin")
        step, inputs = self._packed.step(self._tables, tokens=tokens), self._packed.inputs(tokens)
        work = replace(self._work, part_begin=self._work.part_begin[: tokens + 1], counts=counts)
        plan_items.on_device(step.rows, step.segments, cut, work, self._error)
        tiles = heads.tiles.fixed(counts[0] * heads.kv_heads, True)
        side = self._side if min(counts) else None
        return inputs, PlannedBatch(
            heads.page, step.pos, inputs.place, self._tables, step, work, tiles, side)


def items_for(rows: int, tokens: int) -> int:
    """Of a bin, for steps that are not cut finely: more are cut more coarsely."""
    return 1024 + 16 * rows + 4 * tokens


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, batch: PlannedBatch, scale: float, *, exact: bool = False
) -> torch.Tensor:
    if not isinstance(batch, PlannedBatch):
        raise KernelError("attention on a GPU takes a batch that was planned there (BatchRoom.plan)")
    return paged_attention.attend(
        q, k, v, batch.step, batch.work, Score(scale), exact=exact, side=batch.side, tiles=batch.tiles).flatten(1)


IMPLEMENTATIONS = (
    Implementation("attend", ("cuda",), FLOATS, ("fast",), attend),
    Implementation("attend", ("cuda",), (torch.bfloat16,), ("exact",), partial(attend, exact=True)),
)
