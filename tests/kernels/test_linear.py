from __future__ import annotations

import pytest
import torch

from espalier.kernels import amx, linear, quantized
from espalier.kernels.base import FLOATS

from .helpers import few_bits

SHAPES = [(960, 576), (576, 1536), (33, 40), (7, 5)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("rows", [1, 17, 100])
def test_fast_and_exact_agree_with_the_reference(dtype: torch.dtype, n: int, k: int, rows: int) -> None:
    torch.manual_seed(k)
    x, weight = torch.randn(rows, k).to(dtype), (torch.randn(n, k) / k**0.5).to(dtype)
    packed, expected = linear.pack(weight), linear.reference(x, linear.keep(weight))
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(linear.fast(x, packed), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(linear.fast(x, linear.keep(weight)), expected, rtol=tolerance, atol=tolerance)
    if dtype == torch.float32:
        torch.testing.assert_close(linear.exact(x, packed), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("packing", [linear.pack, linear.keep])
def test_exact_bits_do_not_depend_on_the_number_of_rows_or_their_place(n: int, k: int, packing: object) -> None:
    torch.manual_seed(k)
    assert callable(packing)
    x, packed = torch.randn(70, k), packing(torch.randn(n, k))
    whole = linear.exact(x, packed)
    for begin, end in ((0, 1), (3, 4), (0, 8), (5, 22), (16, 70), (69, 70)):
        assert torch.equal(linear.exact(x[begin:end], packed), whole[begin:end])


def test_no_rows_give_no_rows() -> None:
    packed = linear.pack(torch.randn(12, 8))
    assert linear.fast(torch.empty(0, 8), packed).shape == (0, 12)
    assert linear.exact(torch.empty(0, 8), packed).shape == (0, 12)


@pytest.mark.parametrize("matrix_unit", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 2, linear.FEW, linear.FEW + 1, 16, 17, 32, 33])
@pytest.mark.parametrize(("n", "k"), [(48, 64), (33, 64)])
def test_few_rows_over_few_bits_give_the_same_product(
    monkeypatch: pytest.MonkeyPatch, n: int, k: int, rows: int, bits: int, matrix_unit: bool
) -> None:
    if not matrix_unit:
        monkeypatch.setattr(amx, "available", lambda: False)
    weight, groups = few_bits(n, k, bits)
    matrix = linear.pack(weight.bfloat16(), groups)
    x = torch.randn(rows, k).bfloat16()
    assert (matrix.tiles is not None) == (n % 16 == 0 and matrix_unit and amx.available())
    assert (matrix.codes is not None) == (n % 16 == 0 and bits == 4 and not amx.available())
    torch.testing.assert_close(linear.fast(x, matrix).float(), x.float() @ weight.T, rtol=2e-2, atol=2e-2)


def test_float32_keeps_to_the_dense_weight() -> None:
    groups = linear.Groups(torch.zeros(16, 32, dtype=torch.uint8), torch.ones(16, 1), torch.ones(16, 1))
    matrix = linear.pack(torch.ones(16, 32), groups)
    assert matrix.codes is None
    assert matrix.tiles is None


def test_many_threads_take_the_dense_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, groups = few_bits(16, 32, 4)
    matrix, x = linear.pack(weight.bfloat16(), groups), torch.randn(3, 32).bfloat16()
    monkeypatch.setattr(torch, "get_num_threads", lambda: linear.THREADS + 1)
    monkeypatch.setattr(quantized, "product", None)
    torch.testing.assert_close(linear.fast(x, matrix).float(), x.float() @ weight.T, rtol=2e-2, atol=2e-2)
