from __future__ import annotations

import pytest
import torch

from espalier.kernels import amx, quantized

from .helpers import few_bits

pytestmark = pytest.mark.skipif(not amx.available(), reason="needs a CPU with AMX")


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 7, 16, 17, 31, 32])
def test_every_value_is_the_weights_in_bfloat16(bits: int, rows: int) -> None:
    weight, groups = few_bits(80, 160, bits)
    packed = quantized.pack(groups.codes, groups.scale, groups.offset)
    assert packed is not None
    identity = torch.eye(160).bfloat16()
    for begin in range(0, 160, rows):
        x = identity[begin : begin + rows]
        assert torch.equal(quantized.product(x, packed), weight.bfloat16().T[begin : begin + rows])


@pytest.mark.parametrize("bits", [4, 8])
def test_the_bits_of_a_row_do_not_depend_on_the_others(bits: int) -> None:
    _, groups = few_bits(32, 96, bits)
    packed = quantized.pack(groups.codes, groups.scale, groups.offset)
    assert packed is not None
    x = torch.randn(32, 96).bfloat16()
    whole = quantized.product(x, packed)
    for begin, end in ((0, 1), (3, 4), (2, 18), (15, 32), (20, 21)):
        assert torch.equal(quantized.product(x[begin:end], packed), whole[begin:end])


def test_products_of_the_library_between_ours_stay_right() -> None:
    """Both use the tiles, in shapes of their own."""
    _, groups = few_bits(64, 64, 4)
    packed = quantized.pack(groups.codes, groups.scale, groups.offset)
    assert packed is not None
    a, b = torch.randn(64, 64).bfloat16(), torch.randn(64, 64).bfloat16()
    x = torch.randn(5, 64).bfloat16()
    alone = a @ b, quantized.product(x, packed)
    for _ in range(3):
        assert torch.equal(a @ b, alone[0])
        assert torch.equal(quantized.product(x, packed), alone[1])


def test_no_rows_give_no_rows() -> None:
    _, groups = few_bits(16, 32, 4)
    packed = quantized.pack(groups.codes, groups.scale, groups.offset)
    assert packed is not None
    assert quantized.product(torch.empty(0, 32).bfloat16(), packed).shape == (0, 16)


@pytest.mark.parametrize(("n", "k", "scale"), [(15, 32, 1.0), (16, 48, 1.0), (16, 32, 1e-9), (16, 32, 1e6)])
def test_what_does_not_fit_tiles_or_float16_is_not_packed(n: int, k: int, scale: float) -> None:
    codes, scales = torch.zeros(n, k, dtype=torch.uint8), torch.full((n, k // 32), scale)
    assert quantized.pack(codes, scales, scales) is None
