from __future__ import annotations

import pytest
import torch

from espalier.kernels import amx, quantized

from .helpers import few_bits

pytestmark = pytest.mark.skipif(not amx.available(), reason="needs a CPU with AMX")


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("times", [1, 31])
@pytest.mark.parametrize("rows", [1, 7, 16, 17, 31, 32])
def test_every_value_is_the_weights_in_bfloat16(bits: int, times: int, rows: int) -> None:
    weight, groups = few_bits(80, 160, bits, times)
    packed = quantized.pack(groups.codes, groups.scale, groups.offset)
    assert packed is not None
    assert packed.shape[-1] == 64 * bits + (quantized.HALF_HEAD if times == 1 else quantized.HEAD)
    identity = torch.eye(160).bfloat16()
    for begin in range(0, 160, rows):
        x = identity[begin : begin + rows]
        assert torch.equal(quantized.product(x, packed), weight.bfloat16().T[begin : begin + rows])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("times", [1, 31])
def test_the_bits_of_a_row_do_not_depend_on_the_others(bits: int, times: int) -> None:
    _, groups = few_bits(32, 96, bits, times)
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


@pytest.mark.parametrize(("n", "k"), [(15, 32), (16, 48)])
def test_what_does_not_fit_tiles_is_not_packed(n: int, k: int) -> None:
    codes, scales = torch.zeros(n, k, dtype=torch.uint8), torch.ones(n, k // 32)
    assert quantized.pack(codes, scales, scales) is None


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e6, 1 + 2**-20])
def test_scales_of_any_size_are_kept(scale: float) -> None:
    codes, scales = torch.ones(16, 32, dtype=torch.uint8), torch.full((16, 1), scale)
    packed = quantized.pack(codes, scales, torch.zeros(16, 1))
    assert packed is not None
    expected = scales.bfloat16().T
    assert torch.equal(quantized.product(torch.eye(32)[:1].bfloat16(), packed), expected)
