"""Copies in Triton: rows that go to the head, slots of a page in every layer."""

from __future__ import annotations

import pytest
import torch

from espalier.kernels import checked, copy_slots, gather_rows
from espalier.kernels.base import FLOATS, KernelError
from espalier.kernels.copy_slots import copies_of
from espalier.kernels.layout import PagedCache

from .helpers import CPU, bits_of, filled_cache

POOLS = [*FLOATS, torch.float8_e4m3fn, torch.int8]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "width", "index"), [(5, 33, [4, 0, 0]), (3, 5000, [2]), (2, 8, [])])
def test_rows_are_gathered_bit_for_bit(dtype: torch.dtype, tokens: int, width: int, index: list[int]) -> None:
    x = torch.randn(tokens, width).to(dtype)
    at = torch.tensor(index, dtype=torch.int64)
    assert torch.equal(gather_rows.on_device(x, at), gather_rows.reference(x, at))


def test_a_checked_gather_names_the_fault_and_reads_nothing_there() -> None:
    error, x = checked.clear(CPU), torch.randn(3, 8)
    rows = gather_rows.on_device(x, torch.tensor([2, 3, -1]), error=error)
    assert torch.equal(rows, torch.stack((x[2], torch.zeros(8), torch.zeros(8))))
    with pytest.raises(KernelError, match="a row is outside"):
        checked.raise_error(error)


def pool(dtype: torch.dtype) -> PagedCache:
    return filled_cache(pages=6, kv_heads=2, page=7, head_dim=12, dtype=dtype, layers=3)


@pytest.mark.parametrize("dtype", POOLS)
@pytest.mark.parametrize("copies", [[(1, 3, 0)], [(1, 3, 3)], [(1, 3, 7), (0, 0, 0), (1, 4, 2)], []])
def test_slots_of_a_page_are_copied_in_every_layer_and_no_others(
    dtype: torch.dtype, copies: list[tuple[int, int, int]]
) -> None:
    ours, expected = pool(dtype), pool(dtype)
    copy_slots.on_device(ours, copies_of(copies, CPU))
    copy_slots.reference(expected, copies_of(copies, CPU))
    assert bits_of(ours) == bits_of(expected)
    assert not copies or (bits_of(ours) == bits_of(pool(dtype))) == (copies[0][2] == 0)


@pytest.mark.parametrize(("fault", "says"), [
    ((0, 6, 1), "outside the pool"), ((-1, 2, 1), "outside the pool"), ((0, 2, 8), "fewer slots"),
])
def test_a_copy_outside_the_pool_is_refused_or_left_out_with_a_code(fault: tuple[int, int, int], says: str) -> None:
    copies, error = copies_of([(1, 3, 2), fault], CPU), checked.clear(CPU)
    with pytest.raises(KernelError, match="cannot copy"):
        copy_slots.reference(pool(torch.float32), copies)
    ours, expected = pool(torch.float32), pool(torch.float32)
    copy_slots.on_device(ours, copies, error=error)
    copy_slots.reference(expected, copies[:1])
    assert bits_of(ours) == bits_of(expected)
    with pytest.raises(KernelError, match=says):
        checked.raise_error(error)
