"""Copies in Triton: rows that go to the head, slots of a page in every layer."""

from __future__ import annotations

import pytest
import torch

from espalier.kernels import copy_slots, gather_rows
from espalier.kernels.base import FLOATS, KernelError

from .helpers import poisoned_cache


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("tokens", "width", "index"), [(5, 33, [4, 0, 0]), (3, 5000, [2]), (2, 8, [])])
def test_rows_are_gathered_bit_for_bit(dtype: torch.dtype, tokens: int, width: int, index: list[int]) -> None:
    x = torch.randn(tokens, width).to(dtype)
    at = torch.tensor(index, dtype=torch.int64)
    assert torch.equal(gather_rows.on_device(x, at), gather_rows.reference(x, at))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [0, 3, 7])
def test_slots_of_a_page_are_copied_in_every_layer_and_no_others(dtype: torch.dtype, count: int) -> None:
    cache = poisoned_cache(pages=5, kv_heads=2, page=7, head_dim=6, dtype=dtype, layers=3)
    expected = poisoned_cache(pages=5, kv_heads=2, page=7, head_dim=6, dtype=dtype, layers=3)
    for mine, other in zip((*cache.k, *cache.v), (*expected.k, *expected.v), strict=True):
        other[1] = mine[1] = torch.randn(2, 7, 6).to(dtype)
    copy_slots.on_device(cache, 1, 3, count)
    copy_slots.reference(expected, 1, 3, count)
    for mine, other in zip((*cache.k, *cache.v), (*expected.k, *expected.v), strict=True):
        assert torch.equal(mine.isnan(), other.isnan())
        assert torch.equal(mine.nan_to_num(), other.nan_to_num())


def test_a_page_outside_the_pool_is_refused() -> None:
    cache = poisoned_cache(pages=2, kv_heads=1, page=4, head_dim=4, dtype=torch.float32)
    with pytest.raises(KernelError):
        copy_slots.on_device(cache, 0, 2, 1)
