"""What an op file registers: which device, dtypes and modes an implementation serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

Device = Literal["cpu", "cuda"]
Mode = Literal["fast", "exact"]

FLOATS = (torch.float32, torch.bfloat16)


class KernelError(Exception):
    """No implementation serves the case, or an argument breaks the contract of its op."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """`call` carries out `op` on the devices, dtypes and modes listed. The first that serves a case is taken."""

    op: str
    devices: tuple[Device, ...]
    dtypes: tuple[torch.dtype, ...]
    modes: tuple[Mode, ...]
    call: Callable[..., Any]

    def serves(self, op: str, device: Device, dtype: torch.dtype, mode: Mode) -> bool:
        return self.op == op and device in self.devices and dtype in self.dtypes and mode in self.modes
