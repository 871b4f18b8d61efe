"""Norm, gates, rotation with the KV write and copies on the device, against their references on real shapes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from espalier.kernels import checked, copy_slots, gated_silu, gather_rows, rms_norm, rope_write
from espalier.kernels.layout import Batch, PagedCache, Span
from espalier.kernels.rope_scaling import Llama3, Scaling, Yarn

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


def pool_of(pages: int, heads: int, dim: int, dtype: torch.dtype, layers: int = 2) -> PagedCache:
    """A pool of poison."""
    cache = PagedCache.allocate(
        layers=layers, pages=pages, kv_heads=heads, page=16, head_dim=dim, dtype=dtype, device=CUDA)
    for tensor in cache.tensors:
        tensor.view(torch.uint8).fill_(0xFF)
    return cache


def _same(ours: PagedCache, expected: PagedCache, limit: float) -> bool:
    pairs = zip(ours.tensors, expected.tensors, strict=True)
    wide = ((a.float(), b.float()) for a, b in pairs)
    return all(torch.equal(a.isnan(), b.isnan()) and error(a.nan_to_num(), b.nan_to_num()) < limit for a, b in wide)


def _codes_off(ours: PagedCache, expected: PagedCache) -> tuple[float, int]:
    """Share of codes that differ, and by how many steps at most."""
    gaps = []
    for mine, other in zip((*ours.k, *ours.v), (*expected.k, *expected.v), strict=True):
        a, b = (x.view(torch.int8).int() for x in (mine, other))
        if mine.dtype.is_floating_point:
            a, b = (torch.where(x < 0, -(x & 127), x) for x in (a, b))
        gaps.append((a - b).abs().flatten())
    every = torch.cat(gaps)
    return float((every != 0).float().mean()), int(every.max())


@dataclass(frozen=True)
class Turn:
    heads: int
    kv: int
    dim: int
    rotary: int
    interleaved: bool = False
    norm: bool = False
    scaling: Scaling | None = None
    kind: torch.dtype | None = None

    def name(self) -> str:
        more = [type(self.scaling).__name__] if self.scaling else []
        more += [word for word in ("interleaved", "norm") if getattr(self, word)]
        kind = [str(self.kind)[6:]] if self.kind else []
        return " ".join((f"{self.heads}/{self.kv} x {self.dim}:{self.rotary}", *more, *kind))


TURNS = (
    Turn(32, 8, 128, 128), Turn(9, 3, 64, 64, interleaved=True), Turn(8, 4, 80, 32, norm=True),
    Turn(32, 8, 128, 128, scaling=Llama3(8.0, 8192)), Turn(16, 2, 96, 48, scaling=Yarn(4.0, 4096)),
    Turn(8, 4, 256, 256, norm=True, scaling=Yarn(8.0, 8192)), Turn(32, 8, 128, 128, kind=torch.float8_e4m3fn),
    Turn(32, 8, 128, 128, kind=torch.int8), Turn(8, 4, 80, 32, True, True, Llama3(8.0, 512), torch.float8_e4m3fn),
    Turn(16, 16, 256, 64, norm=True, kind=torch.int8),
)


def check_rotation(report: Report, turn: Turn, dtype: torch.dtype, limit: float) -> None:
    numbers = list(range(200))
    random.Random(turn.dim).shuffle(numbers)
    spans = [Span(0, 1, 300, tuple(numbers[:30])), Span(1, 500, 7, tuple(numbers[30:70]))]
    batch = Batch.of(spans, page=16, pages=200, device=CUDA)
    qkv = torch.randn(batch.tokens, (turn.heads + 2 * turn.kv) * turn.dim, device=CUDA).to(dtype)
    cos, sin = (x.to(CUDA) for x in rope_write.rope_table(1024, turn.rotary, 5e5, turn.scaling))
    weights = (torch.rand(2, turn.dim, device=CUDA) + 0.5).to(dtype)
    how = {"interleaved": turn.interleaved,
           "norms": rope_write.HeadNorms(weights[0], weights[1], 1e-5) if turn.norm else None}
    ours, expected = (pool_of(200, turn.kv, turn.dim, turn.kind or dtype) for _ in range(2))
    fault = checked.clear(CUDA)

    def written(on: Callable[..., torch.Tensor], cache: PagedCache, **more: object) -> torch.Tensor:
        scales = (cache.k_scale[0], cache.v_scale[0]) if turn.kind else None
        return on(qkv, cos, sin, cache.k[0], cache.v[0], batch, scales=scales, **how, **more)

    gap = error(written(rope_write.on_device, ours), written(rope_write.reference, expected))
    if turn.kind:
        off, steps = _codes_off(ours, expected)
        good = _same(replace(ours, k=(), v=()), replace(expected, k=(), v=()), 1e-6) and off < 1e-3 and steps <= 1
        report(f"rope_write {turn.name()} {str(dtype)[6:]}", good and gap < limit, f"codes off {off:.0e} by {steps}")
    else:
        report(f"rope_write {turn.name()} {str(dtype)[6:]}", gap < limit and _same(ours, expected, limit), f"{gap:.0e}")
    again = pool_of(200, turn.kv, turn.dim, turn.kind or dtype)
    written(rope_write.on_device, again, error=fault)
    bits = all(torch.equal(a.view(torch.uint8), b.view(torch.uint8))
               for a, b in zip(ours.tensors, again.tensors, strict=True))
    report("  checked: the same bits, no code", bits and int(fault) == 0, "")


def check_alone(report: Report) -> None:
    """A token's bits are the same alone, in a step of 7 and in one of 3,000."""
    pages = 3000 // 16 + 1
    qkv = torch.randn(3000, 48 * 128, device=CUDA).to(torch.bfloat16)
    cos, sin = (x.to(CUDA) for x in rope_write.rope_table(4096, 128, 5e5))
    weights = torch.rand(128, device=CUDA).to(torch.bfloat16)
    for name, norms in (("plain", None), ("norm", rope_write.HeadNorms(weights, weights, 1e-5))):
        found = []
        for first, count in ((0, 3000), (993, 1), (990, 7)):
            span = Span(0, count, first, tuple(range(pages)))
            cache = pool_of(pages, 8, 128, torch.bfloat16, 1)
            q = rope_write.on_device(qkv[first : first + count].contiguous(), cos, sin, cache.k[0], cache.v[0],
                                     Batch.of([span], page=16, pages=pages, device=CUDA), norms=norms)
            found.append((q[993 - first], cache.k[0][993 // 16, :, 993 % 16]))
        good = all(torch.equal(a, b) for others in found[1:] for a, b in zip(others, found[0], strict=True))
        report(f"rope_write {name}: the same bits in every step", good, "")


def check_copies(report: Report) -> None:
    """Captured once, replayed with other copies: they are read on the device."""
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        ours, expected = (pool_of(64, 8, 128, dtype, layers=8) for _ in range(2))
        for a, b in zip(ours.tensors, expected.tensors, strict=True):
            a.view(torch.uint8).random_(0, 256)
            b.view(torch.uint8).copy_(a.view(torch.uint8))
        copies = torch.zeros((8, 3), dtype=torch.int32, device=CUDA)
        copy_slots.on_device(ours, copies)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            copy_slots.on_device(ours, copies)
        good = True
        for found in ([(3, 40, 9)], [(1, 50, 16), (1, 51, 1), (2, 52, 15)], []):
            copies.zero_()
            copies[: len(found)] = copy_slots.copies_of(found, CUDA)
            graph.replay()
            copy_slots.reference(expected, copy_slots.copies_of(found, CUDA))
            good &= all(torch.equal(a.view(torch.uint8), b.view(torch.uint8))
                        for a, b in zip(ours.tensors, expected.tensors, strict=True))
        report(f"copy_slots, captured {str(dtype)[6:]}", good, "")


def check_far(report: Report) -> None:
    """Rows whose offsets pass 2^31, and more rows than the second axis of a grid holds."""
    rows, width = 80000, 2 * 14336
    x = torch.empty((rows, width), dtype=torch.bfloat16, device=CUDA)
    x[-64:] = torch.randn(64, width, device=CUDA).to(torch.bfloat16)
    report("gated_silu past 2^31", error(gated_silu.on_device(x)[-64:], gated_silu.reference(x[-64:])) < 5e-3, "")
    at = torch.arange(rows - 1, rows - 70001, -1, device=CUDA).clamp_min(rows - 64)
    report("gather_rows past 2^31", torch.equal(gather_rows.on_device(x, at)[:64], x[at[:64]]), "")
    weight = torch.ones(width, device=CUDA, dtype=torch.bfloat16)
    expected = rms_norm.reference(x[-64:].clone(), None, weight, 1e-5)
    report("rms_norm past 2^31", error(rms_norm.on_device(x, None, weight, 1e-5)[-64:], expected) < 5e-3, "")


def run(report: Report) -> None:
    torch.manual_seed(random.randrange(1 << 30))
    check_norms_and_gates(report)
    for dtype, limit in ((torch.float32, 1e-6), (torch.bfloat16, 5e-3)):
        for turn in TURNS:
            check_rotation(report, turn, dtype, limit)
    check_alone(report)
    check_copies(report)
    check_far(report)
