"""Arrays of the host on their way to a device."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch


def sent(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """A copy on the device, in the order of the current stream. The host does not wait for it: the array is copied into
    pinned memory first, which torch keeps until the device has read it."""
    here = torch.from_numpy(array)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device, copy=True)
