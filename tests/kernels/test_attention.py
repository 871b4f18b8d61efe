from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.kernels import attention
from espalier.kernels.base import FLOATS
from espalier.kernels.layout import FEW, Batch, Span

from .helpers import CPU, close, filled

CASES = [
    ([(1, 0)], 16),
    ([(1, 127), (1, 128), (1, 129)], 16),
    ([(FEW, 1030), (FEW + 1, 1030), (64, 0), (65, 0)], 16),
    ([(20, 3), (1, 77), (30, 300)], 16),
    ([(90, 0), (2, 15), (65, 16)], 5),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shapes", "page"), CASES)
@pytest.mark.parametrize("heads", [(9, 3, 64), (4, 4, 128), (4, 1, 6)])
def test_fast_agrees_with_the_reference(
    dtype: torch.dtype, shapes: list[tuple[int, int]], page: int, heads: tuple[int, int, int]
) -> None:
    torch.manual_seed(0)
    q_heads, kv_heads, head_dim = heads
    cache, batch = filled(shapes, kv_heads=kv_heads, page=page, head_dim=head_dim, dtype=dtype)
    q = (torch.randn(batch.tokens, q_heads, head_dim) * 2).to(dtype)
    arguments = q, cache.k[0], cache.v[0], batch, head_dim**-0.5
    close(attention.fast(*arguments), attention.reference(*arguments))


@pytest.mark.parametrize(("shapes", "page"), CASES)
def test_exact_agrees_with_the_reference(shapes: list[tuple[int, int]], page: int) -> None:
    torch.manual_seed(0)
    cache, batch = filled(shapes, kv_heads=2, page=page, head_dim=32, dtype=torch.float32)
    arguments = torch.randn(batch.tokens, 6, 32), cache.k[0], cache.v[0], batch, 32**-0.5
    close(attention.exact(*arguments), attention.reference(*arguments))


def test_a_long_prefix_is_joined_block_by_block() -> None:
    torch.manual_seed(0)
    start = 2 * attention.BLOCK + 37
    cache, batch = filled([(attention.QUERIES + 20, start)], kv_heads=1, page=16, head_dim=8, dtype=torch.float32)
    arguments = torch.randn(batch.tokens, 2, 8), cache.k[0], cache.v[0], batch, 1.0
    close(attention.fast(*arguments), attention.reference(*arguments))


@given(cuts=st.lists(st.integers(1, 39), max_size=4), page=st.sampled_from([3, 16]))
@settings(max_examples=25, deadline=None)
def test_exact_bits_do_not_depend_on_how_a_row_is_chunked(cuts: list[int], page: int) -> None:
    torch.manual_seed(0)
    start, count = 110, 40
    cache, batch = filled([(count, start)], kv_heads=2, page=page, head_dim=16, dtype=torch.float32)
    q = torch.randn(count, 4, 16)
    whole = attention.exact(q, cache.k[0], cache.v[0], batch, 0.25)
    edges = sorted({0, count, *cuts})
    parts = []
    for begin, end in pairwise(edges):
        span = Span(0, end - begin, start + begin, batch.spans[0].pages)
        part = Batch.of([span], page=page, pages=cache.pages, device=CPU)
        parts.append(attention.exact(q[begin:end].contiguous(), cache.k[0], cache.v[0], part, 0.25))
    assert torch.equal(whole, torch.cat(parts))


def test_exact_bits_do_not_depend_on_pages_or_neighbours() -> None:
    torch.manual_seed(0)
    cache, batch = filled([(3, 40), (12, 0), (1, 200)], kv_heads=2, page=16, head_dim=16, dtype=torch.float32)
    q = torch.randn(batch.tokens, 4, 16)
    together = attention.exact(q, cache.k[0], cache.v[0], batch, 0.25)
    for span in batch.spans:
        rows = slice(span.begin, span.begin + span.count)
        moved = tuple(range(len(span.pages)))
        k, v = (x[list(span.pages)].contiguous() for x in (cache.k[0], cache.v[0]))
        alone = Batch.of([Span(0, span.count, span.start, moved)], page=16, pages=len(moved), device=CPU)
        assert torch.equal(attention.exact(q[rows].contiguous(), k, v, alone, 0.25), together[rows])


def test_large_scores_do_not_overflow() -> None:
    cache, batch = filled([(2, 150)], kv_heads=1, page=16, head_dim=8, dtype=torch.float32)
    arguments = torch.randn(2, 1, 8) * 1e4, cache.k[0], cache.v[0], batch, 1.0
    assert attention.exact(*arguments).isfinite().all()
    close(attention.exact(*arguments), attention.reference(*arguments))
