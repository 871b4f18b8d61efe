"""What a GPU bench shares: the ceilings of the card, measured first, and times inside a captured graph."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

NODES = 20


@dataclass(frozen=True)
class Ceilings:
    """read, copy: bytes a second (copy counts both ways). matrix: bf16 FLOP a second on random data."""

    read: float
    copy: float
    matrix: float


def median_us(run: Callable[[], object], times: int = 10) -> float:
    """One call, by device events; the median of several, after one to warm up."""
    run()
    found = []
    for _ in range(times):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(found)


def graph_us(calls: Sequence[Callable[[], object]], times: int = 10) -> float:
    """One call, in us: NODES of them captured back to back, in rotation over `calls`, which should differ in data."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for node in range(NODES):
            calls[node % len(calls)]()
    return median_us(graph.replay, times) / NODES


def ceilings() -> Ceilings:
    x = torch.randn(1 << 30, device="cuda")
    y = torch.empty_like(x)
    size = x.numel() * x.element_size()
    copy = 2 * size / median_us(lambda: y.copy_(x)) * 1e6
    read = size / median_us(lambda: torch.sum(x)) * 1e6
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    matrix = 2 * 8192**3 / median_us(lambda: a @ b) * 1e6
    return Ceilings(read, copy, matrix)
