"""Parking on the device: bit for bit there and back while other work runs on the pool, and nothing waits for it."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from espalier.kernels.layout import PagedCache
from espalier.kernels.park_pages import HostPages, Lane, park, restore

from .rows import CUDA, pool_of

Report = Callable[[str, bool, str], None]


def filled(pages: int, layers: int, dtype: torch.dtype) -> PagedCache:
    cache = pool_of(pages, 8, 128, dtype, layers)
    for tensor in cache.tensors:
        tensor.view(torch.uint8).random_(0, 256)
    return cache


def check_round_trip(report: Report, dtype: torch.dtype) -> None:
    """Pages are parked, overwritten as soon as they were read, and brought back elsewhere; meanwhile the current stream
    works. Staging holds 3 pages, so that a move takes several rounds."""
    cache = filled(64, 8, dtype)
    host = HostPages.allocate(cache, 48)
    lane = Lane.of(cache, host, size=3 * host.data.shape[1] * 4)
    before = [tensor.view(torch.uint8).clone() for tensor in cache.tensors]
    pages, places = random.sample(range(32), 20), random.sample(range(48), 20)
    a = torch.randn(4096, 4096, device=CUDA)
    torch.cuda.synchronize()
    parked = park(cache, host, pages, places, lane)
    for _ in range(20):
        a = (a @ a).tanh()
    assert parked.read is not None  # of a lane
    parked.read.wait()
    for tensor in cache.tensors:
        tensor.view(torch.uint8)[:32] = 7
    parked.wait()
    back = restore(cache, host, places, list(range(40, 60)), lane)
    for _ in range(20):
        a = (a @ a).tanh()
    back.wait()
    good = all(
        torch.equal(tensor.view(torch.uint8)[40:60], old[pages]) and bool((tensor.view(torch.uint8)[:32] == 7).all())
        and torch.equal(tensor.view(torch.uint8)[32:40], old[32:40])
        for tensor, old in zip(cache.tensors, before, strict=True))
    report(f"parked and restored {str(dtype)[6:]}", good and bool(a.isfinite().all()), "")


def check_host_does_not_wait(report: Report) -> None:
    cache = filled(64, 32, torch.bfloat16)
    host = HostPages.allocate(cache, 64)
    lane = Lane.of(cache, host)
    park(cache, host, [0], [0], lane)
    torch.cuda.synchronize()
    moved = park(cache, host, list(range(64)), list(range(64)), lane)
    early = moved.done is not None and not moved.done.query()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    report("park returns before it is done", early, "")


def run(report: Report) -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for _ in range(3):
            check_round_trip(report, dtype)
    check_host_does_not_wait(report)
