"""One frozen configuration per engine; the command line is made from it."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from .errors import InvalidParameter

Dtype = Literal["float32", "bfloat16"]
Device = Literal["cpu", "cuda"]

# What exact mode computes in.
EXACT: dict[Device, Dtype] = {"cpu": "float32", "cuda": "bfloat16"}

# Half-open ranges [low, high) of the integer fields.
RANGES = {
    "page": (1, 4096),
    "pages": (0, 1 << 31),
    "step_tokens": (0, 1 << 20),
    "max_rows": (1, 1 << 16),
    "max_waiting": (1, 1 << 24),
    "context": (0, 1 << 31),
    "mask_bytes": (1 << 16, 1 << 40),
    "threads": (0, 1 << 10),
}


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """page: tokens per page. pages: size of the KV pool, at least 2. step_tokens: most tokens computed
    in one step. Either 0: what suits the device (sizing.py).
    max_rows: most requests computed in one step. max_waiting: requests that may queue; more are refused.
    context: most tokens of one branch (0: what the model allows). exact: law 2 bit for bit (float32 on the
    CPU, bfloat16 on a GPU).
    mask_bytes: memory of finished mask rows. threads: CPU threads of the executor (0: all cores). device: where the
    model and its KV pool are.

    Raises InvalidParameter, which names the field and its range."""

    page: int = 16
    pages: int = 2048
    step_tokens: int = 512
    max_rows: int = 64
    max_waiting: int = 4096
    context: int = 0
    dtype: Dtype = "bfloat16"
    exact: bool = False
    mask_bytes: int = 256 << 20
    threads: int = 0
    device: Device = "cpu"

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            if type(value) is not int:
                raise InvalidParameter(f"{name} is of type {type(value).__name__}", where=name, fix="Give an integer.")
            if not low <= value < high:
                raise InvalidParameter(f"{name} is {value}", where=name, fix=f"It must be in [{low}, {high}).")
        if self.pages == 1:
            raise InvalidParameter("pages is 1", where="pages", fix="It must be 0 or at least 2.")
        if self.dtype not in get_args(Dtype):
            raise InvalidParameter(f"dtype {self.dtype!r} is unknown", where="dtype",
                                   fix=f"Use one of {', '.join(get_args(Dtype))}.")
        if self.device not in get_args(Device):
            raise InvalidParameter(f"device {self.device!r} is unknown", where="device",
                                   fix=f"Use one of {', '.join(get_args(Device))}.")
        needed = EXACT[self.device]
        if self.exact and self.dtype != needed:
            raise InvalidParameter(f"exact mode computes in {needed} on {self.device}", where="exact",
                                   fix=f"Set dtype to {needed}.")
