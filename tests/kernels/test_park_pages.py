"""Parking: what comes back is what went, bit for bit, and no other page changes. Kernels run interpreted; streams and
pinned memory are the device's (scripts/gpu_checks/parking.py)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from espalier.kernels import park_pages
from espalier.kernels.base import FLOATS, KernelError
from espalier.kernels.layout import PagedCache
from espalier.kernels.park_pages import HostPages, park_on_cpu, restore_on_cpu

from .helpers import bits_of, filled_cache

PAGES, PLACES = 7, 5


def pool(dtype: torch.dtype) -> PagedCache:
    return filled_cache(pages=PAGES, kv_heads=2, page=4, head_dim=8, dtype=dtype, layers=2)


moves = st.lists(st.tuples(st.integers(0, PAGES - 1), st.integers(0, PLACES - 1)), max_size=PLACES,
                 unique_by=(lambda pair: pair[0], lambda pair: pair[1]))


@given(moves, st.permutations(range(PAGES)), st.sampled_from([*FLOATS, torch.float8_e4m3fn, torch.int8]))
def test_what_comes_back_is_what_was_parked_wherever_it_goes(
    moves: list[tuple[int, int]], targets: list[int], dtype: torch.dtype
) -> None:
    cache, places = pool(dtype), [place for _, place in moves]
    host = HostPages.allocate(cache, PLACES)
    park_on_cpu(cache, host, [page for page, _ in moves], places).wait()
    other = filled_cache(pages=PAGES, kv_heads=2, page=4, head_dim=8, dtype=dtype, layers=2, seed=1)
    expected = [tensor.view(torch.uint8).clone() for tensor in other.tensors]
    for tensor, source in zip(expected, cache.tensors, strict=True):
        for (page, _), target in zip(moves, targets, strict=False):
            tensor[target] = source.view(torch.uint8)[page]
    restore_on_cpu(other, host, places, targets[: len(moves)])
    assert bits_of(other) == [tensor.numpy().tobytes() for tensor in expected]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_the_staging_buffer_looks_as_parked_pages_do(dtype: torch.dtype) -> None:
    cache, pages = pool(dtype), [5, 0, 3]
    host = HostPages.allocate(cache, PLACES)
    park_on_cpu(cache, host, pages, [0, 1, 2])
    staging = torch.zeros_like(host.data)
    park_pages._move(cache, staging, torch.tensor(pages, dtype=torch.int32), gather=True)
    assert torch.equal(staging[:3], host.data[:3])
    other = filled_cache(pages=PAGES, kv_heads=2, page=4, head_dim=8, dtype=dtype, layers=2, seed=1)
    park_pages._move(other, staging, torch.tensor(pages, dtype=torch.int32), gather=False)
    again = HostPages.allocate(other, PLACES)
    park_on_cpu(other, again, pages, [0, 1, 2])
    assert torch.equal(again.data[:3], host.data[:3])


@pytest.mark.parametrize(("places", "runs"), [
    ([], []), ([4], [(0, 1, 4)]), ([2, 3, 4, 9, 8], [(0, 3, 2), (3, 1, 9), (4, 1, 8)]),
])
def test_neighbouring_places_are_one_copy(places: list[int], runs: list[tuple[int, int, int]]) -> None:
    assert list(park_pages._runs(places)) == runs


@pytest.mark.parametrize(("pages", "places"), [([0, 0], [1, 2]), ([0], [PLACES]), ([-1], [0]), ([0, 1], [2])])
def test_a_page_or_place_that_is_not_there_or_named_twice_is_refused(pages: list[int], places: list[int]) -> None:
    cache = pool(torch.float32)
    with pytest.raises(KernelError):
        park_on_cpu(cache, HostPages.allocate(cache, PLACES), pages, places)
