"""The steps of a model on a device: rows become a forest, a forest a plan there, small steps captured graphs.

    tokens of a step     1   2   4  ...  64  128  192  256  384  512  768  1024  |  up to step_tokens
    memory               a room each, padded                                     |  one room, padded to a multiple of 64
    launches             one graph                                               |  one by one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from ..kernels import checked, items
from ..kernels.base import KernelError
from ..kernels.layout import PagedCache
from ..kernels.planned_batch import BatchRoom, Counts, Heads, Parts, least_items, padded
from ..kernels.sent import sent
from .block_tables import BlockTables, Change
from .forest import LEAST, LEAST_WIDE, Forest, Worth, apart, forest, grown
from .models.llama import Llama, forward
from .plan import Row

# Steps of up to so many tokens are captured, whatever their rows are: one token each, forced text, a prompt. With more,
# the device works longer than the host launches; between them, more tokens cost it little until some 200.
CAPTURED = (1, 2, 4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
# Logits of a captured step, where fewer rows than that are computed at once.
WANTED = 64
# Larger steps are padded to a multiple of it, so that few variants of a kernel are compiled.
STRIDE = 64
# The least changes that are sent at once, padded, for the same reason.
CHANGES = 64


@dataclass(frozen=True, slots=True)
class Captured:
    """counts: items of each bin that the graph launches. logits: what a replay writes."""

    counts: tuple[int, int]
    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor

    def serves(self, counts: Counts, wanted: int) -> bool:
        return wanted <= len(self.logits) and all(
            need <= there for need, there in zip(counts.whole, self.counts, strict=True))


class PagedSteps:
    """Owns the block tables and the memory of steps. error: [1] int32 of `checked`, what a step could not do."""

    def __init__(
        self, model: Llama, cache: PagedCache, named: torch.Tensor, error: torch.Tensor, heads: Heads, *,
        rows: int, tokens: int, context: int, share_from: int | None,
    ) -> None:
        """cache: its last page is for tokens that a step does not have. named: tokens of the draws before."""
        self._model, self._cache, self._named, self._error, self._heads = model, cache, named, error, heads
        count = 2 * max(rows, WANTED)
        self._owners = BlockTables(count)
        self._tables = torch.full((count + 1, -(-context // cache.page)), cache.pages - 1, dtype=torch.int32,
                                  device=model.device)
        self._worth = Worth(
            heads.cut.tokens(True), heads.cut.tokens(False),
            *(LEAST, LEAST_WIDE) if share_from is None else (share_from, share_from))
        self._before: tuple[tuple[tuple[int, ...], ...], Forest] | None = None
        self._parts = Parts(heads, model.device)
        on_gpu = model.device.type == "cuda"
        self._side = torch.cuda.Stream(model.device, priority=-1) if on_gpu else None  # type: ignore[no-untyped-call]
        most = -(-max(tokens, rows) // STRIDE) * STRIDE
        self._large = self._room(rows + STRIDE, most)
        # A step that is padded has rows of padding, of a token each at least.
        gap = max(b - a for a, b in pairwise(CAPTURED))
        self._rows = rows
        self._small = {size: self._room(min(size, rows + gap), size) for size in CAPTURED if size <= most}
        self._graphs: dict[int, list[Captured]] = {}

    def _room(self, rows: int, tokens: int) -> BatchRoom:
        return BatchRoom(self._heads, self._tables, self._parts, self._error, rows=rows, tokens=tokens, side=self._side)

    def forget(self) -> None:
        """After a fault: what stands in the block tables on the device is not known any more."""
        self._owners.forget()
        self._before = None

    def run(self, rows: Sequence[Row], ids: Sequence[int]) -> torch.Tensor:
        """Logits of what the rows ask for, in the order of the plan, and perhaps more rows behind them; valid until the
        next call. ids: tokens of all rows, in the order of the plan. Raises KernelError for what has no room."""
        slots, changes, same = self._owners.place(rows)
        self._change(changes)
        room, tokens = self._room_for(len(ids))
        found = self._forest(rows, slots, same)
        cut_rows, segments, counts = self._counted(found, tokens)
        if counts.parts > self._parts.count:  # shared prefixes would need more room than reading them again
            found = apart(rows, slots)
            cut_rows, segments, counts = self._counted(found, tokens)
        order, source, wanted = _arranged(rows, found)
        room.fill(cut_rows, segments, tokens=tokens, ids=[ids[at] for at in order], source=source, wanted=wanted)
        room.send()
        for made in self._graphs.get(tokens, ()):
            if made.serves(counts, len(wanted)):
                made.graph.replay()
                return made.logits
        return self._launched(room, tokens, counts.fine, len(wanted), any(at >= 0 for at in source))

    def _room_for(self, count: int) -> tuple[BatchRoom, int]:
        """And the number of tokens that a step of so many is padded to."""
        for size, room in self._small.items():
            if count <= size:
                return room, size
        tokens = -(-count // STRIDE) * STRIDE
        if tokens > self._large.tokens:
            raise KernelError(f"a step of {count} tokens, there is room for {self._large.tokens}")
        return self._large, tokens

    def _counted(self, found: Forest, tokens: int) -> tuple[list[items.Row], list[items.Segment], Counts]:
        cut = self._heads.cut
        rows, segments = padded(found.rows, found.segments, tokens, self._tables.shape[0] - 1, cut)
        return rows, segments, Counts.of(rows, segments, cut)

    def capture(self) -> None:
        """Makes the graphs of small steps, each after a run that compiles what it needs."""
        pool = torch.cuda.graph_pool_handle()
        for size, room in self._small.items():
            self._graphs[size] = []
            wanted = min(size, max(self._rows, WANTED))
            rows, segments, _ = self._counted(Forest((), (), ()), size)
            room.fill(rows, segments, tokens=size, ids=(), source=(), wanted=())
            room.send()
            for counts in self._bounds(size):
                self._launched(room, size, counts, wanted, True)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    logits = self._launched(room, size, counts, wanted, True)
                self._graphs[size].append(Captured(counts, graph, logits))

    def _bounds(self, tokens: int) -> list[tuple[int, int]]:
        """Of items: without wide ones, which cost time where they are launched for nothing, and with them."""
        cut = self._heads.cut
        rows = min(tokens, self._rows + -(-tokens // cut.tokens(cut.groups > cut.narrow)))
        narrow = least_items(cut) + (26 + 2 * rows if cut.exact else 5 * rows)
        wide = -(-cut.most // cut.kv_heads) + rows
        return [(narrow, 0), (narrow, wide)] if cut.groups <= cut.narrow else [(0, wide)]

    def _launched(
        self, room: BatchRoom, tokens: int, counts: tuple[int, int], wanted: int, named: bool
    ) -> torch.Tensor:
        """named: whether a token may be one that the step before drew."""
        inputs, batch = room.plan(tokens, counts)
        ids = inputs.ids
        if named:
            ids = torch.where(inputs.source >= 0, self._named.index_select(0, inputs.source.clamp_min(0)), ids)
        return forward(self._model, self._cache, ids, batch, inputs.wanted[:wanted])

    def _forest(self, rows: Sequence[Row], slots: Sequence[int], same: bool) -> Forest:
        who = tuple(slots), tuple(len(row.tokens) for row in rows)
        if same and self._before is not None and self._before[0] == who:
            found = grown(self._before[1], rows, slots)
        else:
            found = forest(rows, slots, self._cache.page, self._worth)
        self._before = who, found
        return found

    def _change(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        if not 0 <= min(page for _, _, page in changes) <= max(page for _, _, page in changes) < self._cache.pages - 1:
            raise KernelError(f"a block table names a page outside [0, {self._cache.pages - 1})")
        padded = np.full((-(-len(changes) // CHANGES) * CHANGES, 3), -1, np.int32)
        padded[: len(changes)] = changes
        self._model.kernels.change_table(self._tables, sent(padded, self._tables.device), error=self._error)


def error_of(device: torch.device) -> torch.Tensor:
    return checked.clear(device)


def _arranged(rows: Sequence[Row], found: Forest) -> tuple[list[int], list[int], list[int]]:
    """Tokens of the plan in the order of the forest; the draw that names each, or -1; where logits are wanted, in the
    order of the plan."""
    begins, begin, order = [], 0, list[int]()
    for row in rows:
        begins.append(begin)
        begin += len(row.tokens)
    source, place = [-1] * begin, [0] * len(rows)
    for index in found.order:
        row = rows[index]
        place[index] = len(order)
        if row.sampled_from is not None:
            source[len(order)] = row.sampled_from
        order += range(begins[index], begins[index] + len(row.tokens))
    return order, source, [place[index] + at for index, row in enumerate(rows) for at in row.logits_at]
