"""Norm, gates, rotation with the KV write and copies on the device, against their references on real shapes."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from espalier.kernels import copy_slots, gated_silu, gather_rows, rms_norm, rope_write
from espalier.kernels.layout import Batch, PagedCache, Span

Report = Callable[[str, bool, str], None]
CUDA = torch.device("cuda")


def error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative, in norm; 1e9 where a value is not a number or was not written."""
    gap = (ours.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)
    return float(gap.nan_to_num(1e9))


def check_norms_and_gates(report: Report) -> None:
    for dtype, limit in ((torch.float32, 1e-6), (torch.bfloat16, 5e-3)):
        for width in (576, 4096, 5120, 14336):
            x, delta = (torch.randn(300, width, device=CUDA).to(dtype) for _ in range(2))
            weight, other = torch.randn(width, device=CUDA).to(dtype), x.clone()
            ours = rms_norm.on_device(x, delta, weight, 1e-5, 1.0)
            gap = max(error(ours, rms_norm.reference(other, delta, weight, 1e-5, 1.0)), error(x, other))
            alone = rms_norm.on_device(x[7:8].clone(), None, weight, 1e-5, 1.0)
            report(f"rms_norm {str(dtype)[6:]} {width}", gap < limit and torch.equal(alone[0], ours[7]), f"{gap:.0e}")
        both = torch.randn(300, 2 * 14336, device=CUDA).to(dtype) * 3
        gap = max(error(gated_silu.on_device(both), gated_silu.reference(both)),
                  error(gated_silu.gelu_on_device(both), gated_silu.gelu_reference(both)))
        report(f"gated silu, gelu {str(dtype)[6:]}", gap < limit, f"{gap:.0e}")
        at = torch.randint(300, (64,), device=CUDA)
        report(f"gather_rows {str(dtype)[6:]}",
               torch.equal(gather_rows.on_device(both, at), gather_rows.reference(both, at)), "")


def _pool(pages: int, heads: int, dim: int, dtype: torch.dtype) -> PagedCache:
    cache = PagedCache.allocate(layers=2, pages=pages, kv_heads=heads, page=16, head_dim=dim, dtype=dtype, device=CUDA)
    for layer in (*cache.k, *cache.v):
        layer.fill_(torch.nan)
    return cache


def _same(ours: PagedCache, expected: PagedCache, limit: float) -> bool:
    pairs = zip((*ours.k, *ours.v), (*expected.k, *expected.v), strict=True)
    return all(torch.equal(a.isnan(), b.isnan()) and error(a.nan_to_num(), b.nan_to_num()) < limit
               for a, b in pairs)


def check_rotation(report: Report) -> None:
    shapes = ((32, 8, 128, 128, False, False), (9, 3, 64, 64, True, False), (8, 4, 80, 32, False, True))
    for dtype, limit in ((torch.float32, 1e-6), (torch.bfloat16, 5e-3)):
        for heads, kv, dim, rotary, interleaved, norm in shapes:
            numbers = list(range(200))
            random.Random(dim).shuffle(numbers)
            spans = [Span(0, 1, 300, tuple(numbers[:30])), Span(1, 500, 7, tuple(numbers[30:70]))]
            batch = Batch.of(spans, page=16, pages=200, device=CUDA)
            qkv = torch.randn(batch.tokens, (heads + 2 * kv) * dim, device=CUDA).to(dtype)
            cos, sin = (x[:, : rotary // 2].contiguous().to(CUDA) for x in rope_write.rope_table(1024, dim, 5e5))
            weights = (torch.rand(2, dim, device=CUDA) + 0.5).to(dtype)
            norms = rope_write.HeadNorms(weights[0], weights[1], 1e-5) if norm else None
            ours, expected = _pool(200, kv, dim, dtype), _pool(200, kv, dim, dtype)
            how = {"interleaved": interleaved, "norms": norms}
            q = rope_write.on_device(qkv, cos, sin, ours.k[0], ours.v[0], batch, **how)
            other = rope_write.reference(qkv, cos, sin, expected.k[0], expected.v[0], batch, **how)
            gap = error(q, other)
            copy_slots.on_device(ours, numbers[3], 199, 9)
            copy_slots.reference(expected, numbers[3], 199, 9)
            report(f"rope_write, copy_slots {str(dtype)[6:]} {heads}/{kv} x {dim}",
                   gap < limit and _same(ours, expected, limit), f"{gap:.0e}")


def run(report: Report) -> None:
    torch.manual_seed(random.randrange(1 << 30))
    check_norms_and_gates(report)
    check_rotation(report)
