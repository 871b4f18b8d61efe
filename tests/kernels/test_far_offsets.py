"""Offsets past 2^31 values. But for their last rows the tensors are never touched: no memory is there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from espalier.kernels import copy_slots, gather_rows, park_pages, rope_write, sample
from espalier.kernels.copy_slots import copies_of
from espalier.kernels.cut import Cut
from espalier.kernels.items import Row, Segment
from espalier.kernels.layout import Batch, PagedCache, Span
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend, reference
from espalier.kernels.planner import plan

from .helpers import CPU

FAR = 1 << 31


def last_pages(dtype: torch.dtype) -> PagedCache:
    """A pool of more than 2^31 values in k, of which its last 3 pages are filled."""
    cache = PagedCache.allocate(layers=1, pages=FAR // (16 * 64) + 8, kv_heads=1, page=16, head_dim=64, dtype=dtype,
                                device=CPU)
    for tensor in cache.tensors:
        end = tensor[-3:].view(torch.uint8)
        end.copy_(torch.randint(64, end.shape, dtype=torch.uint8))
    return cache


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16])
def test_copies_reach_the_last_pages(dtype: torch.dtype) -> None:
    cache = last_pages(dtype)
    last = cache.pages - 1
    copy_slots.on_device(cache, copies_of([(last, last - 2, 9)], CPU))
    for tensor in cache.tensors:
        found = tensor.view(torch.uint8)
        assert torch.equal(found[last - 2, :, :9], found[last, :, :9])
        assert not torch.equal(found[last - 2, :, 9:], found[last, :, 9:])


def test_parking_gathers_the_last_pages() -> None:
    cache = last_pages(torch.bfloat16)
    host = park_pages.HostPages.allocate(cache, 2)
    pages = [cache.pages - 1, cache.pages - 3]
    park_pages.park_on_cpu(cache, host, pages, [0, 1])
    staging = torch.zeros_like(host.data)
    park_pages._move(cache, staging, torch.tensor(pages, dtype=torch.int32), gather=True)
    assert torch.equal(staging, host.data)


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16])
def test_keys_are_written_to_the_last_pages(dtype: torch.dtype) -> None:
    cache = last_pages(dtype)
    batch = Batch.of([Span(0, 3, 30, (cache.pages - 3, cache.pages - 1, cache.pages - 2))], page=16,
                     pages=cache.pages, device=CPU)
    scales = (cache.k_scale[0], cache.v_scale[0]) if cache.k_scale else None
    qkv, table = torch.randn(3, 3 * 64).bfloat16(), rope_write.rope_table(64, 64, 1e4)
    rope_write.on_device(qkv, *table, cache.k[0], cache.v[0], batch, scales=scales)
    page, slot = batch.places()
    ours = [tensor[page, :, slot].clone() for tensor in cache.tensors]
    rope_write.reference(qkv, *table, cache.k[0], cache.v[0], batch, scales=scales)
    for mine, tensor in zip(ours, cache.tensors, strict=True):
        # A step of a code, or of bfloat16, which the interpreter does not round to nearest.
        relative, absolute = (0.0, 1.0) if tensor.dtype == torch.int8 else (8e-3, 0.0)
        torch.testing.assert_close(mine.float(), tensor[page, :, slot].float(), rtol=relative, atol=absolute)


def test_attention_reads_the_last_pages() -> None:
    cache = last_pages(torch.bfloat16)
    k, v = (x[0] for x in (cache.k, cache.v))
    for pages in (k, v):
        pages[-3:] = torch.randn(3, 1, 16, 64).bfloat16()
    rows, segments = [Row(0, 0, 2, 40, 40, 0, 0)], [Segment(0, 40, 0, 1, -1, 0)]
    last = cache.pages - 1
    step = Step.of(rows, segments, torch.tensor([[last, last - 2, last - 1]], dtype=torch.int32))
    work = Work.of(plan(rows, segments, Cut(groups=2, kv_heads=1)), q_heads=2, head_dim=64, device=CPU)
    q, score = torch.randn(2, 2, 64).bfloat16(), Score(0.125)
    torch.testing.assert_close(
        attend(q, k, v, step, work, score).float(), reference(q, k, v, step, score).float(), rtol=1.6e-2, atol=1.6e-2)


def test_the_last_rows_are_gathered() -> None:
    x = torch.empty((FAR // 512 + 3, 512), dtype=torch.bfloat16)
    x[-2:] = torch.randn(2, 512).to(torch.bfloat16)
    at = torch.tensor([x.shape[0] - 1, x.shape[0] - 2])
    assert torch.equal(gather_rows.on_device(x, at), x[at])


def test_a_draw_reads_the_last_row_of_logits() -> None:
    vocabulary = 4099
    logits = torch.empty((FAR // vocabulary + 2, vocabulary), dtype=torch.bfloat16)
    logits[-1] = torch.randn(vocabulary).to(torch.bfloat16)
    one, seed = np.ones(1, np.float32), np.array([5], np.uint64)
    picks = sample.Picks(
        row=np.array([len(logits) - 1]), mask=np.array([0]), target=np.array([-1]), temperature=one,
        top_k=np.array([0]), top_p=one, min_p=0 * one, seed=seed, position=seed)
    masks = np.full((1, 129), -1, np.int32)
    alone = sample.reference(logits[-1:], masks, replace(picks, row=np.array([0])))
    assert sample.on_device(logits, masks, picks).token[0] == alone.token[0]
