from __future__ import annotations

import pytest
import torch

from espalier.kernels import rms_norm
from espalier.kernels.base import FLOATS, KernelError

from .helpers import close


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "width"), [(1, 576), (7, 33), (40, 8), (0, 16)])
@pytest.mark.parametrize(("add", "offset"), [(True, 0.0), (False, 0.0), (True, 1.0)])
def test_compiled_agrees_with_the_reference_and_adds_the_same_residual(
    dtype: torch.dtype, tokens: int, width: int, add: bool, offset: float
) -> None:
    torch.manual_seed(width)
    x, delta, weight = torch.randn(tokens, width), torch.randn(tokens, width), torch.rand(width) + 0.5
    ours, reference = x.to(dtype).clone(), x.to(dtype).clone()
    added = delta.to(dtype) if add else None
    close(rms_norm.compiled(ours, added, weight.to(dtype), 1e-5, offset),
          rms_norm.reference(reference, added, weight.to(dtype), 1e-5, offset))
    assert torch.equal(ours, reference)


def test_a_row_does_not_depend_on_the_others() -> None:
    x, weight = torch.randn(9, 100), torch.rand(100)
    together = rms_norm.compiled(x.clone(), None, weight, 1e-5)
    alone = [rms_norm.compiled(row[None].clone(), None, weight, 1e-5) for row in x]
    assert torch.equal(together, torch.cat(alone))


def test_a_strided_tensor_is_refused() -> None:
    with pytest.raises(KernelError, match="contiguous"):
        rms_norm.compiled(torch.randn(8, 4).t(), None, torch.ones(8), 1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "width"), [(1, 576), (7, 33), (0, 16)])
@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_triton_agrees_with_the_reference_and_adds_the_same_residual(
    dtype: torch.dtype, tokens: int, width: int, add: bool, offset: float
) -> None:
    torch.manual_seed(width)
    x, delta, weight = (torch.randn(*shape).to(dtype) for shape in ((tokens, width), (tokens, width), (width,)))
    ours, reference = x.clone(), x.clone()
    added = delta if add else None
    normed = rms_norm.on_device(ours, added, weight, 1e-5, offset)
    close(normed, rms_norm.reference(reference, added, weight, 1e-5, offset))
    close(ours, reference)
