"""Random batches over a poisoned pool: every slot that no row owns holds NaN."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from espalier.kernels.layout import Batch, PagedCache, Span
from espalier.kernels.linear import Groups
from espalier.kernels.quantized import GROUP

CPU = torch.device("cpu")


def poisoned_cache(*, pages: int, kv_heads: int, page: int, head_dim: int, dtype: torch.dtype, layers: int = 1,
                   ) -> PagedCache:
    cache = PagedCache.allocate(
        layers=layers, pages=pages, kv_heads=kv_heads, page=page, head_dim=head_dim, dtype=dtype, device=CPU
    )
    for tensor in cache.tensors:
        if tensor.dtype == torch.int8:
            tensor.fill_(-128)
        else:
            tensor.fill_(torch.nan)
    return cache


def filled_cache(*, pages: int, kv_heads: int, page: int, head_dim: int, dtype: torch.dtype, layers: int, seed: int = 0,
                 ) -> PagedCache:
    """A pool of random bytes, NaN among them."""
    cache = PagedCache.allocate(
        layers=layers, pages=pages, kv_heads=kv_heads, page=page, head_dim=head_dim, dtype=dtype, device=CPU
    )
    draw = torch.Generator().manual_seed(seed)
    for tensor in cache.tensors:
        raw = tensor.view(torch.uint8)
        raw.copy_(torch.randint(256, raw.shape, dtype=torch.uint8, generator=draw))
    return cache


def bits_of(cache: PagedCache) -> list[bytes]:
    return [tensor.view(torch.uint8).numpy().tobytes() for tensor in cache.tensors]


def scattered_spans(shapes: Sequence[tuple[int, int]], page: int, seed: int = 0) -> tuple[list[Span], int]:
    """Spans of (new tokens, tokens before them) over shuffled pages, and the number of pages in all."""
    needs = [-(-(count + start) // page) for count, start in shapes]
    pages = list(range(sum(needs) + 3))
    random.Random(seed).shuffle(pages)
    spans, begin = [], 0
    for (count, start), need in zip(shapes, needs, strict=True):
        spans.append(Span(begin, count, start, tuple(pages.pop() for _ in range(need))))
        begin += count
    return spans, sum(needs) + 3


def filled(shapes: Sequence[tuple[int, int]], *, kv_heads: int, page: int, head_dim: int, dtype: torch.dtype,
           ) -> tuple[PagedCache, Batch]:
    """A pool in which exactly the slots that the rows may see hold numbers."""
    spans, pages = scattered_spans(shapes, page)
    cache = poisoned_cache(pages=pages, kv_heads=kv_heads, page=page, head_dim=head_dim, dtype=dtype)
    for span in spans:
        for position in range(span.start + span.count):
            at = span.pages[position // page], slice(None), position % page
            cache.k[0][at] = torch.randn(kv_heads, head_dim).to(dtype)
            cache.v[0][at] = torch.randn(kv_heads, head_dim).to(dtype)
    return cache, Batch.of(spans, page=page, pages=pages, device=CPU)


def close(ours: torch.Tensor, reference: torch.Tensor) -> None:
    """Within rounding of the dtype: both round a float32 result once."""
    tolerance = 2e-5 if ours.dtype == torch.float32 else 1.6e-2
    torch.testing.assert_close(ours, reference, rtol=tolerance, atol=tolerance)


def few_bits(n: int, k: int, bits: int, times: int = 1) -> tuple[torch.Tensor, Groups]:
    """A random weight of [n, k] in float32, and the same as codes. Scales are a float16 times an integer up to `times`,
    at most 31: a product with a code is then exact."""
    torch.manual_seed(n + k + bits)
    codes = torch.randint(0, 2**bits, (n, k), dtype=torch.uint8)
    scale = (torch.rand(n, k // GROUP) * 0.32 / 2**bits).half().float()
    offset = (torch.randn(n, k // GROUP) * 0.02).half().float()
    if times > 1:
        scale *= torch.randint(1, times + 1, scale.shape)
    wide_scale, wide_offset = (x.repeat_interleave(GROUP, 1) for x in (scale, offset))
    return wide_scale * codes + wide_offset, Groups(codes, scale, offset)
