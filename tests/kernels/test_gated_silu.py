from __future__ import annotations

import pytest
import torch

from espalier.kernels import gated_silu
from espalier.kernels.base import FLOATS

from .helpers import close


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "ffn"), [(1, 1536), (5, 7), (33, 64)])
def test_compiled_agrees_with_the_reference(dtype: torch.dtype, tokens: int, ffn: int) -> None:
    gate_up = (torch.randn(tokens, 2 * ffn, generator=torch.Generator().manual_seed(ffn)) * 4).to(dtype)
    close(gated_silu.compiled(gate_up), gated_silu.reference(gate_up))


def test_gates_far_from_zero_saturate() -> None:
    gate = torch.tensor([-1e30, -200.0, -88.0, 0.0, 88.0, 1e30])
    ours = gated_silu.compiled(torch.cat((gate, torch.ones(6)))[None])
    torch.testing.assert_close(ours, torch.nn.functional.silu(gate)[None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "ffn"), [(3, 1536), (5, 7), (2, 5000)])
def test_triton_agrees_with_the_reference(dtype: torch.dtype, tokens: int, ffn: int) -> None:
    gate_up = (torch.randn(tokens, 2 * ffn, generator=torch.Generator().manual_seed(ffn)) * 4).to(dtype)
    close(gated_silu.on_device(gate_up), gated_silu.reference(gate_up))
    close(gated_silu.gelu_on_device(gate_up), gated_silu.gelu_reference(gate_up))


def test_triton_saturates_far_from_zero() -> None:
    gate = torch.tensor([-1e30, -200.0, -88.0, 0.0, 88.0, 1e30])
    ours = gated_silu.on_device(torch.cat((gate, torch.ones(6)))[None])
    torch.testing.assert_close(ours, torch.nn.functional.silu(gate)[None], rtol=1e-5, atol=1e-6)
