"""change_table(block_table, changes): pages put into block tables that stay on the device.

block_table: [slots, pages of a row], changes: [n, 3] int32 (slot, index, page), slot -1 for none; a place is named
once.
Effect: block_table[slot, index] = page. A change outside the table: on the CPU KernelError, and nothing is changed; on
a GPU it is left out, with a code where an error tensor is given (see checked).
"""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation, KernelError
from .checked import require
from .jit import Arg, constexpr, jit, tl

BLOCK = 256


def reference(block_table: torch.Tensor, changes: torch.Tensor) -> None:
    slots, width = block_table.shape
    found = [change for change in changes.tolist() if change[0] != -1]
    for slot, index, _ in found:
        if not (0 <= slot < slots and 0 <= index < width):
            raise KernelError(f"entry {index} of slot {slot} is outside the block table of {slots} slots of {width}")
    for slot, index, page in found:
        block_table[slot, index] = page


@jit
def _change(
    block_table: Arg, changes: Arg, error: Arg, n: Arg, slots: Arg, width: Arg, CHECKED: constexpr, BLOCK: constexpr
) -> None:
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(changes + i * 3, mask=i < n, other=-1)
    index, page = (tl.load(changes + i * 3 + 1, mask=i < n, other=0), tl.load(changes + i * 3 + 2, mask=i < n, other=0))
    inside = (slot >= 0) & (slot < slots) & (index >= 0) & (index < width)
    tl.store(block_table + slot.to(tl.int64) * width + index, page, mask=inside)
    if CHECKED:
        require(tl.sum(((inside == 0) & (slot != -1)).to(tl.int32), 0) == 0, error, 8)


def on_device(block_table: torch.Tensor, changes: torch.Tensor, *, error: torch.Tensor | None = None) -> None:
    n, (slots, width) = changes.shape[0], block_table.shape
    if n:
        _change[(-(-n // BLOCK),)](
            block_table, changes, changes if error is None else error, n, slots, width, CHECKED=error is not None,
            BLOCK=BLOCK, num_warps=2)


IMPLEMENTATIONS = (
    Implementation("change_table", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("change_table", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
