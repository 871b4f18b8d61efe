"""SwiGLU's gate (Shazeer 2020): silu(gate) * up; and the same with GELU.

gated_silu(gate_up) -> out
    gate_up: [tokens, 2 * ffn], contiguous, the gate first. Returns [tokens, ffn]: gate * sigmoid(gate) * up in float32,
    rounded once. A row depends on itself alone.
gated_gelu(gate_up) -> out
    The same with GELU in its tanh form in place of silu.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .base import FLOATS, Implementation
from .compiled import address, bfloats, exp, floats, inner, kernel, load, rounded
from .jit import Arg, constexpr, jit, tl

BLOCK = 2048


def reference(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


def gelu_reference(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.gelu(gate, approximate="tanh") * up).to(gate_up.dtype)


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
    out = gate_up.new_empty(tokens, double // 2)
    run = _bfloat16 if gate_up.dtype == torch.bfloat16 else _float32
    run(address(gate_up, tokens, double), out.data_ptr(), tokens, double // 2)
    return out


@jit
def _gated(gate_up: Arg, out: Arg, ffn: Arg, GELU: constexpr, BLOCKS: constexpr, BLOCK: constexpr) -> None:
    """One program a (row, block). The first axis of a grid is the one that is not bounded by 65,535."""
    row = (tl.program_id(0) // BLOCKS).to(tl.int64)
    i = tl.program_id(0) % BLOCKS * BLOCK + tl.arange(0, BLOCK)
    inside = i < ffn
    gate = tl.load(gate_up + row * 2 * ffn + i, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * ffn + ffn + i, mask=inside, other=0.0).to(tl.float32)
    x = gate
    if GELU:
        # (1 + tanh(z)) / 2 = sigmoid(2 z)
        x = 1.5957691216057308 * (gate + 0.044715 * gate * gate * gate)
    tl.store(out + row * ffn + i, gate / (1.0 + tl.exp2(tl.minimum(x * -1.4426950408889634, 127.0))) * up, mask=inside)


def _launch(gate_up: torch.Tensor, gelu: bool) -> torch.Tensor:
    tokens, double = gate_up.shape
    ffn, blocks = double // 2, -(-double // 2 // BLOCK)
    out = torch.empty((tokens, ffn), dtype=gate_up.dtype, device=gate_up.device)
    if tokens:
        _gated[(blocks * tokens,)](gate_up, out, ffn, GELU=gelu, BLOCKS=blocks, BLOCK=BLOCK, num_warps=8)
    return out


def on_device(gate_up: torch.Tensor) -> torch.Tensor:
    return _launch(gate_up, False)


def gelu_on_device(gate_up: torch.Tensor) -> torch.Tensor:
    return _launch(gate_up, True)


IMPLEMENTATIONS = (
    Implementation("gated_silu", ("cpu",), FLOATS, ("fast", "exact"), compiled),
    Implementation("gated_silu", ("cuda",), FLOATS, ("fast", "exact"), on_device),
    Implementation("gated_gelu", ("cpu",), FLOATS, ("fast", "exact"), gelu_reference),
    Implementation("gated_gelu", ("cuda",), FLOATS, ("fast", "exact"), gelu_on_device),
)
