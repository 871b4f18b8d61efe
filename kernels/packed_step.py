"""The ints of a step in one buffer, so that one copy brings them all to the device.

    rows [rows, 8] | segments [2 rows, 8] | q_slot, pos [tokens] | draft_bits [tokens, 2] | changes [n, 3]
    ids, source, place, wanted [tokens]

Sizes are fixed when it is made: a captured step reads the same addresses whatever it computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .base import KernelError
from .items import Row, Segment
from .paged import Step

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a model reads, on the device, int32. ids, source: [tokens], a token's id, or where source is not -1 the draw
    of the step before that says it. place: [tokens], the block table of each. wanted: [tokens], the first of them the
    tokens whose logits are asked for."""

    ids: torch.Tensor
    source: torch.Tensor
    place: torch.Tensor
    wanted: torch.Tensor


class PackedStep:
    """changes: [n, 3] int32 on the device, for `change_table`. The rest of the device's views is in `step`, `inputs`.
    """

    def __init__(self, *, rows: int, tokens: int, changes: int, device: torch.device, spare: int = 0) -> None:
        """Room for that many rows, less one where a step has fewer tokens, and for that many tokens and changes.
        spare: the block table of tokens that a step does not have."""
        self._shapes = ((rows, 8), (2 * rows, 8), (tokens,), (tokens,), (tokens, 2), (changes, 3), *[(tokens,)] * 4)
        # Whole groups of four: every view starts at a multiple of 16 bytes.
        self._starts = np.cumsum([0] + [-(-int(np.prod(shape)) // 4) * 4 for shape in self._shapes]).tolist()
        self._host = torch.zeros(self._starts[-1], dtype=torch.int32, pin_memory=device.type == "cuda")
        self._device = torch.zeros(self._starts[-1], dtype=torch.int32, device=device)
        self._views = tuple(view.numpy() for view in self._of(self._host))
        self._rows, self._segments, self._q_slot, self._pos, self._draft_bits, self.changes, *self._inputs = (
            self._of(self._device))
        self._spare = spare

    def _of(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        return [buffer[start : start + int(np.prod(shape))].view(shape)
                for start, shape in zip(self._starts, self._shapes, strict=False)]

    def step(self, block_table: torch.Tensor, *, drafts: bool = False, tokens: int | None = None) -> Step:
        """Views of the buffer: they show what `send` brought last. drafts: whether rows may have draft regions.
        tokens: how many the step has, where not all there is room for."""
        return Step(self._rows, self._segments, block_table, self._q_slot[:tokens], self._pos[:tokens],
                    self._draft_bits[:tokens], drafts)

    def inputs(self, tokens: int | None = None) -> Inputs:
        """Views like those of `step`."""
        return Inputs(*(view[:tokens] for view in self._inputs))

    def fill(
        self, rows: Sequence[Row], segments: Sequence[Segment], changes: Sequence[tuple[int, int, int]] = (),
        *, pos: Ints | None = None, draft_bits: Ints | None = None, ids: Sequence[int] = (),
        source: Sequence[int] = (), wanted: Sequence[int] = (), tokens: int | None = None,
    ) -> None:
        """Writes the host's side. A row without keys gets the tokens that are left, so that zeros are written there.

        pos: [tokens of the rows], the slots where None; draft_bits: [tokens of the rows, 2], needed where a row has a
        draft region. tokens: how many the step has, all there is room for where None. The copy that `send` began must
        be over. Raises KernelError where there is no room.
        """
        slots = np.concatenate([np.zeros(0, np.int32)] + [
            np.arange(row.kv_len - row.q_len, row.kv_len, dtype=np.int32) if row.kv_len
            else np.full(row.q_len, -1, np.int32) for row in rows])
        place = np.repeat([row.slot for row in rows], [row.q_len for row in rows])
        used, room = len(slots), len(self._views[2]) if tokens is None else tokens
        if used < room:
            rows = [*rows, Row(0, used, room - used, 0, 0, 0, len(segments))]
            segments = [*segments, Segment(0, 0, len(rows) - 1, len(rows), -1, 0)]
        for name, count, view in zip(("rows", "segments", "tokens", "changes"), (
                len(rows), len(segments), used, len(changes)), (*self._views[:3], self._views[5]), strict=True):
            if count > len(view):
                raise KernelError(f"a step of {count} {name}, there is room for {len(view)}")
        padded: tuple[tuple[Ints | Sequence[int] | Sequence[tuple[int, ...]], int], ...] = (
            ([row.packed() for row in rows], 0), ([segment.packed() for segment in segments], 0), (slots, -1),
            (slots if pos is None else pos, 0), ((), -1) if draft_bits is None else (draft_bits, -1), (changes, -1),
            (ids, 0), (source, -1), (place, self._spare), (wanted, 0))
        for view, (values, rest) in zip(self._views, padded, strict=True):
            if len(values):
                view[: len(values)] = values
            view[len(values) :] = rest

    def send(self) -> None:
        """One copy, in the order of the current stream."""
        self._device.copy_(self._host, non_blocking=True)
