"""The table of implementations, and the choice among them by argument: op x device x dtype x mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch

from . import (
    attention,
    change_table,
    check_step,
    copy_slots,
    embedding,
    exact_linear,
    gated_silu,
    gather_rows,
    linear,
    log_probs,
    merge_parts,
    next_row,
    paged_attention,
    park_pages,
    plan_items,
    planned_batch,
    rms_norm,
    rope_write,
    sample,
)
from .base import Device, Implementation, KernelError, Mode
from .layout import PagedCache
from .linear import Groups, Matrix
from .log_probs import LogProbs
from .park_pages import Moved
from .sample import Draws, Picks
from .sampling import edit

Tensor = torch.Tensor

TABLE: tuple[Implementation, ...] = (
    *embedding.IMPLEMENTATIONS,
    *rms_norm.IMPLEMENTATIONS,
    *linear.IMPLEMENTATIONS,
    *exact_linear.IMPLEMENTATIONS,
    *rope_write.IMPLEMENTATIONS,
    *attention.IMPLEMENTATIONS,
    *planned_batch.IMPLEMENTATIONS,
    *gated_silu.IMPLEMENTATIONS,
    *gather_rows.IMPLEMENTATIONS,
    *copy_slots.IMPLEMENTATIONS,
    *edit.IMPLEMENTATIONS,
    *sample.IMPLEMENTATIONS,
    *log_probs.IMPLEMENTATIONS,
    *next_row.IMPLEMENTATIONS,
    *plan_items.IMPLEMENTATIONS,
    *paged_attention.IMPLEMENTATIONS,
    *change_table.IMPLEMENTATIONS,
    *check_step.IMPLEMENTATIONS,
    *merge_parts.IMPLEMENTATIONS,
    *park_pages.IMPLEMENTATIONS,
)


@dataclass(frozen=True, slots=True)
class Kernels:
    """Every op, for one device, dtype and mode. The contract of each is in the file of its name."""

    embed: Callable[[Tensor, Tensor], Tensor]
    add_rms_norm: Callable[..., Tensor]
    pack_linear: Callable[[Tensor, Groups | None], Matrix]
    linear: Callable[[Tensor, Matrix], Tensor]
    rope_write: Callable[..., Tensor]
    attend: Callable[..., Tensor]
    gated_silu: Callable[[Tensor], Tensor]
    gated_gelu: Callable[[Tensor], Tensor]
    gather_rows: Callable[[Tensor, Tensor], Tensor]
    copy_slots: Callable[[PagedCache, Tensor], None]
    edit: Callable[..., Tensor]
    sample: Callable[[Tensor, npt.NDArray[np.int32], Picks], Draws]
    log_probs: Callable[[Tensor, npt.NDArray[np.int32], Picks, int, bool], LogProbs]
    next_row: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], None]
    plan_items: Callable[..., None]
    paged_attention: Callable[..., Tensor]
    change_table: Callable[..., None]
    check_step: Callable[..., None]
    merge_parts: Callable[..., None]
    park_pages: Callable[..., Moved]
    restore_pages: Callable[..., Moved]


def choose(op: str, device: Device, dtype: torch.dtype, mode: Mode) -> Implementation:
    """The first implementation of the table that serves the case; KernelError when there is none."""
    for implementation in TABLE:
        if implementation.serves(op, device, dtype, mode):
            return implementation
    raise KernelError(f"no implementation of {op} for {device}, {dtype}, {mode}; exact mode needs float32 on the CPU, "
                      "bfloat16 on a GPU")


def kernels(device: Device, dtype: torch.dtype, mode: Mode) -> Kernels:
    return Kernels(**{op.name: choose(op.name, device, dtype, mode).call for op in fields(Kernels)})
