from __future__ import annotations

import pytest
import torch

from espalier.kernels.base import KernelError
from espalier.kernels.copy_slots import copies_of
from espalier.kernels.copy_slots import reference as copy_slots
from espalier.kernels.layout import FEW, Batch, Span, gather_slots

from .helpers import CPU, filled, poisoned_cache, scattered_spans


def test_a_batch_says_where_every_token_lies() -> None:
    batch = Batch.of([Span(0, 3, 4, (7, 2)), Span(3, 9, 0, (5, 1))], page=5, pages=8, device=CPU)
    pages, slots = batch.places()
    assert batch.positions.tolist() == [4, 5, 6, *range(9)]
    assert batch.rows.tolist() == [0] * 3 + [1] * 9
    assert pages.tolist() == [7, 2, 2, *[5] * 5, *[1] * 4]
    assert slots.tolist() == [4, 0, 1, *(p % 5 for p in range(9))]


def test_every_token_is_of_a_row_that_walks_or_of_a_long_one() -> None:
    shapes = [(FEW, 9000), (FEW + 1, 9000), (64, 0), (65, 0), (1, 0)]
    spans, pages = scattered_spans(shapes, 16)
    batch = Batch.of(spans, page=16, pages=pages, device=CPU)
    assert [span.walks for span in spans] == [True, False, True, False, True]
    long = [span.begin + i for span in batch.long for i in range(span.count)]
    assert sorted(batch.few.tolist() + long) == list(range(batch.tokens))


@pytest.mark.parametrize("span", [
    Span(0, 1, 16, (0,)), Span(0, 17, 0, (0,)), Span(0, 1, 0, (9,)), Span(0, 1, 0, (-1,)), Span(0, 0, 0, (0,)),
    Span(0, 1, -1, (0,)),
])
def test_a_row_outside_its_pages_or_the_pool_is_refused(span: Span) -> None:
    with pytest.raises(KernelError):
        Batch.of([span], page=16, pages=9, device=CPU)


@pytest.mark.parametrize(("begin", "end"), [(0, 1), (3, 4), (3, 17), (5, 10), (0, 20)])
def test_gathered_slots_are_the_positions_of_the_row(begin: int, end: int) -> None:
    cache, batch = filled([(2, 18), (1, 3)], kv_heads=2, page=5, head_dim=4, dtype=torch.float32)
    span, k = batch.spans[0], cache.k[0]
    expected = torch.stack([k[span.pages[p // 5], :, p % 5] for p in range(begin, end)], dim=1)
    assert torch.equal(gather_slots(k, span, begin, end), expected)


def test_a_copy_moves_the_first_slots_in_every_layer_and_leaves_the_rest() -> None:
    cache = poisoned_cache(pages=4, kv_heads=2, page=6, head_dim=3, dtype=torch.float32, layers=2)
    for layer, tensor in enumerate((*cache.k, *cache.v)):
        tensor[1] = layer
    copy_slots(cache, copies_of([(1, 3, 4)], CPU))
    for layer, tensor in enumerate((*cache.k, *cache.v)):
        assert (tensor[3, :, :4] == layer).all()
        assert tensor[3, :, 4:].isnan().all()
        assert tensor[[0, 2]].isnan().all()


@pytest.mark.parametrize(("source", "target", "count"), [(4, 0, 1), (0, 4, 1), (-1, 0, 1), (0, 1, 7), (0, 1, -1)])
def test_a_copy_outside_the_pool_is_refused(source: int, target: int, count: int) -> None:
    cache = poisoned_cache(pages=4, kv_heads=1, page=6, head_dim=2, dtype=torch.float32)
    with pytest.raises(KernelError):
        copy_slots(cache, copies_of([(source, target, count)], CPU))
