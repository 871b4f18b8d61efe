"""The ints of a step in one buffer, so that one copy brings them all to the device.

    rows [rows, 8] | segments [2 rows, 8] | q_slot [tokens] | pos [tokens] | draft_bits [tokens, 2] | changes [n, 3]

Sizes are fixed when it is made: a captured step reads the same addresses whatever it computes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from .base import KernelError
from .items import Row, Segment
from .paged import Step

Ints = npt.NDArray[np.int32]


class PackedStep:
    """changes: [n, 3] int32 on the device, for `change_table`. The rest of the device's views is in `step`."""

    def __init__(self, *, rows: int, tokens: int, changes: int, device: torch.device) -> None:
        """Room for that many rows, less one where a step has fewer tokens, and for that many tokens and changes."""
        self._shapes = ((rows, 8), (2 * rows, 8), (tokens,), (tokens,), (tokens, 2), (changes, 3))
        # Whole groups of four: every view starts at a multiple of 16 bytes.
        self._starts = np.cumsum([0] + [-(-int(np.prod(shape)) // 4) * 4 for shape in self._shapes]).tolist()
        self._host = torch.zeros(self._starts[-1], dtype=torch.int32, pin_memory=device.type == "cuda")
        self._device = torch.zeros(self._starts[-1], dtype=torch.int32, device=device)
        self._views = tuple(view.numpy() for view in self._of(self._host))
        self._rows, self._segments, self._q_slot, self._pos, self._draft_bits, self.changes = self._of(self._device)

    def _of(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        return [buffer[start : start + int(np.prod(shape))].view(shape)
                for start, shape in zip(self._starts, self._shapes, strict=False)]

    def step(self, block_table: torch.Tensor, *, drafts: bool = False) -> Step:
        """Views of the buffer: they show what `send` brought last. drafts: whether rows may have draft regions."""
        return Step(self._rows, self._segments, block_table, self._q_slot, self._pos, self._draft_bits, drafts)

    def fill(
        self, rows: Sequence[Row], segments: Sequence[Segment], changes: Sequence[tuple[int, int, int]] = (),
        *, pos: Ints | None = None, draft_bits: Ints | None = None,
    ) -> None:
        """Writes the host's side. A row without keys gets the tokens that are left, so that zeros are written there.

        pos: [tokens of the rows], the slots where None; draft_bits: [tokens of the rows, 2], needed where a row has a
        draft region. The copy that `send` began must be over. Raises KernelError where there is no room.
        """
        slots = np.concatenate([np.zeros(0, np.int32)] + [
            np.arange(row.kv_len - row.q_len, row.kv_len, dtype=np.int32) if row.kv_len
            else np.full(row.q_len, -1, np.int32) for row in rows])
        used, room = len(slots), len(self._views[2])
        if used < room:
            rows = [*rows, Row(0, used, room - used, 0, 0, 0, len(segments))]
            segments = [*segments, Segment(0, 0, len(rows) - 1, len(rows), -1, 0)]
        for name, count, view in zip(("rows", "segments", "tokens", "changes"), (
                len(rows), len(segments), used, len(changes)), (*self._views[:3], self._views[5]), strict=True):
            if count > len(view):
                raise KernelError(f"a step of {count} {name}, there is room for {len(view)}")
        padded: tuple[tuple[Ints | Sequence[tuple[int, ...]], int], ...] = (
            ([row.packed() for row in rows], 0), ([segment.packed() for segment in segments], 0), (slots, -1),
            (slots if pos is None else pos, -1), ((), -1) if draft_bits is None else (draft_bits, -1), (changes, -1))
        for view, (values, rest) in zip(self._views, padded, strict=True):
            if len(values):
                view[: len(values)] = values
            view[len(values) :] = rest

    def send(self) -> None:
        """One copy, in the order of the current stream."""
        self._device.copy_(self._host, non_blocking=True)
