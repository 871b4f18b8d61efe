"""SwiGLU's gate (Shazeer 2020): silu(gate) * up.

gated_silu(gate_up) -> out
    gate_up: [tokens, 2 * ffn], contiguous, the gate first. Returns [tokens, ffn]: gate * sigmoid(gate) * up in float32,
    rounded once. A row depends on itself alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .base import FLOATS, Implementation
from .compiled import address, bfloats, exp, floats, inner, kernel, load, rounded


def reference(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


@inner
def _rows(gate_up: Any, out: Any) -> None:
    tokens, ffn = out.shape
    for t in range(tokens):
        for i in range(ffn):
            gate = load(gate_up[t, i])
            # exp of at most 87: the sigmoid of a lower gate is 0 in every product that float32 can hold.
            sigmoid = np.float32(1.0) / (np.float32(1.0) + exp(min(-gate, np.float32(87.0))))
            out[t, i] = rounded(gate * sigmoid * load(gate_up[t, ffn + i]), out[t, i])


@kernel("void(int64, int64, int64, int64)")
def _float32(gate_up: Any, out: Any, tokens: Any, ffn: Any) -> None:
    _rows(floats(gate_up, (tokens, 2 * ffn)), floats(out, (tokens, ffn)))


@kernel("void(int64, int64, int64, int64)")
def _bfloat16(gate_up: Any, out: Any, tokens: Any, ffn: Any) -> None:
    _rows(bfloats(gate_up, (tokens, 2 * ffn)), bfloats(out, (tokens, ffn)))


def compiled(gate_up: torch.Tensor) -> torch.Tensor:
    tokens, double = gate_up.shape
    out = torch.empty((tokens, double // 2), dtype=gate_up.dtype)
    run = _bfloat16 if gate_up.dtype == torch.bfloat16 else _float32
    run(address(gate_up, tokens, double), out.data_ptr(), tokens, double // 2)
    return out


IMPLEMENTATIONS = (
    Implementation("gated_silu", ("cpu",), FLOATS, ("fast", "exact"), compiled),
    Implementation("gated_silu", ("cuda",), FLOATS, ("fast",), reference),
)
