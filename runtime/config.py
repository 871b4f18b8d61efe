"""One frozen configuration per engine; the command line is made from it."""

from __future__ import annotations

from typing import Literal

import msgspec

Dtype = Literal["float32", "bfloat16"]


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """page: tokens per page. pages: size of the KV pool. step_tokens: most tokens computed in one step.
    max_rows: most requests computed in one step. max_waiting: requests that may queue; more are refused.
    context: most tokens of one branch (0: what the model allows). exact: law 2 bit for bit (float32 only).
    mask_bytes: memory of finished mask rows. threads: CPU threads of the executor (0: all cores)."""

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
