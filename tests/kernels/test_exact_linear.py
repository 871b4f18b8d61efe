from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from espalier.kernels.base import KernelError
from espalier.kernels.exact_linear import FEW, MANY, ROWS, SOME, Tile, chunk, linear, product, reference, tile_for
from espalier.kernels.linear import Matrix

from .helpers import close

TILES = (*FEW, *SOME, *(tile for tile, _ in MANY))
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def inside_nan(*shape: int) -> torch.Tensor:
    """Random bfloat16 with NaN before and behind it in memory."""
    size = 1
    for extent in shape:
        size *= extent
    room = torch.full((size + 8192,), torch.nan, device=DEVICE, dtype=torch.bfloat16)
    room[4096 : 4096 + size] = torch.randn(size, device=DEVICE) / (shape[-1] ** 0.5 if len(shape) > 1 else 1)
    return room[4096 : 4096 + size].view(shape)


@pytest.mark.parametrize(("n", "k"), [(33, 40), (96, 576), (70, 2056)])
@pytest.mark.parametrize("tokens", [1, 16, 17, 70])
@pytest.mark.parametrize("biased", [True, False])
def test_it_agrees_with_the_reference_and_reads_nothing_beyond_its_operands(
    n: int, k: int, tokens: int, biased: bool
) -> None:
    torch.manual_seed(n + tokens)
    x, matrix, bias = inside_nan(tokens, k), Matrix(inside_nan(n, k)), inside_nan(n) if biased else None
    close(linear(x, matrix, bias), reference(x, matrix, bias))


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("tile", [FEW[0], SOME[0], TILES[-1]])
def test_it_writes_all_of_its_output_and_nothing_else(tile: Tile, split: bool) -> None:
    torch.manual_seed(0)
    x, weight, room = inside_nan(19, 2056), inside_nan(40, 2056), inside_nan(21, 40)
    before = room.clone()
    room[1:20] = torch.nan
    product(x, weight, None, room[1:20], tile, chunk(40, 2056), split)
    close(room[1:20], reference(x, Matrix(weight)))
    assert torch.equal(room[0], before[0])
    assert torch.equal(room[20], before[20])


@pytest.mark.parametrize("split", [True, False])
def test_chunks_are_folded_from_the_left(split: bool) -> None:
    """2**24 + 1 is not a float32: with two ones behind it the order of adding can be read from the sum."""
    n, k = 32, 3072
    step = chunk(n, k)
    assert k == 3 * step
    x, weight, bias = torch.zeros(2, k), torch.zeros(n, k), torch.full((n,), -(2.0**24))
    weight[:, 0], weight[:, step], weight[:, 2 * step] = 1, 1, 1
    x[0, 0], x[0, step], x[0, 2 * step] = 2.0**24, 1, 1
    x[1, 0], x[1, step], x[1, 2 * step] = 1, 1, 2.0**24
    x, weight, bias = (tensor.bfloat16().to(DEVICE) for tensor in (x, weight, bias))
    out = torch.empty(2, n, device=DEVICE, dtype=torch.bfloat16)
    product(x, weight, bias, out, FEW[0], step, split)
    assert out[:, 0].tolist() == [0.0, 2.0]
    assert torch.equal(out, reference(x, Matrix(weight), bias))


@given(st.integers(1, 200_000), st.integers(1, 4096).map(lambda eighth: 8 * eighth))
def test_a_chunk_follows_from_the_weight_and_is_whole_steps_of_every_tile(n: int, k: int) -> None:
    assert chunk(n, k) > 0
    assert n < ROWS or chunk(n, k) >= k
    assert all(chunk(n, k) % tile.depth == 0 for tile in TILES)


@pytest.mark.parametrize(("tokens", "n", "size"), [
    (1, 4096, (16, 64)), (16, 128256, (16, 64)), (17, 4096, (32, 64)), (64, 4096, (64, 32)), (33, 6144, (64, 64)),
    (64, 28672, (64, 128)), (128, 4096, (64, 64)), (128, 6144, (128, 64)), (128, 28672, (128, 256)),
    (256, 4096, (128, 64)), (256, 6144, (128, 128)), (512, 6144, (128, 256)), (512, 28672, (128, 128)),
    (8192, 4096, (128, 256)),
])
def test_the_tile_is_the_fastest_measured(tokens: int, n: int, size: tuple[int, int]) -> None:
    tile = tile_for(tokens, n)
    assert (tile.tokens, tile.rows) == size


def test_no_rows_give_no_rows() -> None:
    matrix = Matrix(torch.randn(12, 8, device=DEVICE).bfloat16())
    assert linear(torch.empty(0, 8, device=DEVICE, dtype=torch.bfloat16), matrix).shape == (0, 12)


@pytest.mark.parametrize(("x", "weight", "bias", "message"), [
    ((3, 16), (4, 24), None, "belong together"), ((3, 16), (4, 16), (5,), "belong together"),
    ((3, 12), (4, 12), None, "multiple of 8"),
])
def test_what_does_not_fit_is_refused(
    x: tuple[int, int], weight: tuple[int, int], bias: tuple[int] | None, message: str
) -> None:
    made = [None if shape is None else torch.zeros(shape, dtype=torch.bfloat16) for shape in (x, weight, bias)]
    with pytest.raises(KernelError, match=message):
        linear(made[0], Matrix(made[1]), made[2])


def test_strides_are_refused() -> None:
    with pytest.raises(KernelError, match="contiguous"):
        linear(torch.zeros(16, 8, dtype=torch.bfloat16).t(), Matrix(torch.zeros(4, 16, dtype=torch.bfloat16)))
