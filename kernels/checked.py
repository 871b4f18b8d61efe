"""Checked mode: a kernel that is given an error tensor ([1] int32, 0 at first) writes a code there where an argument
breaks its contract, and leaves what it names alone. Without one the host answers for its arguments."""

from __future__ import annotations

import torch

from .base import KernelError
from .jit import Arg, jit, tl

PAGE, SLOT, POSITION, ROW, TOKEN, ROOM, FOREST, TABLE, SEGMENT = 1, 2, 3, 4, 5, 6, 7, 8, 9
_NAMES = {PAGE: "a page is outside the pool", SLOT: "a page has fewer slots than a copy names",
          POSITION: "a position is outside the table of angles or its row's pages", ROW: "a row is outside the tensor",
          TOKEN: "a token is outside the vocabulary",
          ROOM: "a step has more items or parts than there is room for: fewer tokens, or fewer levels of prefixes",
          FOREST: "rows and segments are not those of a forest in depth-first order",
          TABLE: "a change is outside the block table",
          SEGMENT: "a segment starts inside a page"}


def clear(device: torch.device) -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int32, device=device)


def raise_error(error: torch.Tensor) -> None:
    """Waits for the device. Raises KernelError when a kernel has left a code: the highest of them."""
    raise_code(int(error))


def raise_code(code: int) -> None:
    if code:
        raise KernelError(f"{_NAMES.get(code, f'code {code}')}; nothing was read or written there")


@jit
def require(good: Arg, error: Arg, code: Arg) -> Arg:
    """Leaves `code` unless `good`; an atomic of integers, so that no order matters."""
    tl.atomic_max(error, code, mask=good == 0)
