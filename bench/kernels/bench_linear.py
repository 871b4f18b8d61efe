"""Exact products on a GPU, Llama-3-8B's weights in bf16: python -m bench.kernels.bench_linear [--sweep]

The peer is cuBLAS (torch.nn.functional.linear) in the same run. The floor is the weight read once at the read bandwidth
of this card, or the operations at its matrix rate, whichever takes longer. Every time is the median of one product
among 20 in a graph, in rotation over weights several times the L2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from espalier.kernels.exact_linear import Tile, linear, product
from espalier.kernels.linear import Matrix

from .device import Ceilings, ceilings, graph_us
from .record import Record, Result, options

WEIGHTS = {"qkv": (6144, 4096), "out": (4096, 4096), "gate, up": (28672, 4096), "down": (4096, 14336),
           "head": (128256, 4096)}
LAYER = ("qkv", "out", "gate, up", "down")
TOKENS = (1, 8, 64, 8192)
L2 = 60 << 20


def operands(n: int, k: int, tokens: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Weights and rows, several times the L2 of them."""
    copies = max(2, -(-4 * L2 // (n * k * 2)))
    weights = [(torch.randn(n, k, device="cuda") / k**0.5).bfloat16() for _ in range(copies)]
    return weights, [torch.randn(tokens, k, device="cuda").bfloat16() for _ in range(copies)]


def both(n: int, k: int, tokens: int) -> tuple[float, float]:
    """us of ours and of cuBLAS."""
    weights, several = operands(n, k, tokens)
    times = 3 if tokens * n > 1 << 28 else 10
    calls: tuple[list[Callable[[], object]], ...] = (
        [lambda x=x, w=w: linear(x, Matrix(w)) for x, w in zip(several, weights, strict=True)],
        [lambda x=x, w=w: torch.nn.functional.linear(x, w) for x, w in zip(several, weights, strict=True)],
    )
    ours, cublas = (graph_us(each, times) for each in calls)
    return ours, cublas


def floor_us(n: int, k: int, tokens: int, limits: Ceilings) -> float:
    return max(2 * n * k / limits.read, 2 * n * k * tokens / limits.matrix) * 1e6


def label(name: str, tokens: int) -> str:
    return f"exact linear {name} {WEIGHTS[name][0]} x {WEIGHTS[name][1]}, {tokens} rows"


def measure(name: str, tokens: int, limits: Ceilings) -> Result:
    n, k = WEIGHTS[name]
    ours, cublas = both(n, k, tokens)
    floor = floor_us(n, k, tokens, limits)
    return Result(label(name, tokens), ours, floor, "cuBLAS", cublas,
                  {"bytes": 2 * n * k, "share_of_cublas": cublas / ours})


def layer(rows: list[Result], tokens: int) -> Result:
    """The four products of a layer, added."""
    names = {label(name, tokens) for name in LAYER}
    mine = [row for row in rows if row.work in names]
    us, floor = sum(row.us for row in mine), sum(row.floor_us for row in mine)
    cublas = sum(row.peer_us or 0.0 for row in mine)
    return Result(f"exact linear, these four, {tokens} rows", us, floor, "cuBLAS", cublas,
                  {"share_of_cublas": cublas / us})


SWEPT = {
    8: ((16, 64, 256, 4, 4, True), (16, 64, 128, 4, 5, True), (16, 128, 128, 8, 4, True), (16, 32, 256, 4, 5, False)),
    64: ((64, 32, 128, 4, 5, False), (64, 64, 128, 4, 4, True), (64, 64, 128, 4, 3, False), (64, 128, 128, 8, 4, True)),
    8192: ((128, 256, 64, 8, 4, True), (256, 128, 64, 8, 4, True), (256, 128, 64, 8, 4, False),
           (128, 128, 64, 4, 4, False)),
}


def swept(name: str, tokens: int, tile: tuple[int, int, int, int, int, bool], chunks: int, limits: Ceilings) -> Result:
    """tile: the fields of a Tile. chunks: how many, each in a program of its own where tokens are few."""
    n, k = WEIGHTS[name]
    step, split = -(-k // chunks // 256) * 256, tokens <= 64
    weights, several = operands(n, k, tokens)
    out = torch.empty(tokens, n, device="cuda", dtype=torch.bfloat16)
    us = graph_us([lambda x=x, w=w: product(x, w, None, out, Tile(*tile), step, split)
                   for x, w in zip(several, weights, strict=True)], 3)
    return Result(f"{label(name, tokens)} {tile} {chunks}", us, floor_us(n, k, tokens, limits))


def sweep() -> Iterator[tuple[str, int, tuple[int, int, int, int, int, bool], int]]:
    """What the constants of exact_linear were chosen from."""
    for tokens, tiles in SWEPT.items():
        for name in LAYER:
            yield from ((name, tokens, tile, chunks) for tile in tiles for chunks in (1, 2, 4))


def main() -> None:
    parser = options(__doc__, "kernels_linear")
    parser.add_argument("--sweep", action="store_true", help="tiles and numbers of chunks")
    args = parser.parse_args()
    limits = ceilings()
    record = Record.begin("kernels_linear", limits, args)
    for case in sweep() if args.sweep else ():
        if not record.add(lambda case=case: swept(*case, limits)):
            return
    for tokens in TOKENS if not args.sweep else ():
        for name in (name for name in WEIGHTS if args.only in label(name, tokens)):
            if not record.add(lambda name=name, tokens=tokens: measure(name, tokens, limits)):
                return
        if not args.only:
            record.add(lambda tokens=tokens: layer(record.rows, tokens))


if __name__ == "__main__":
    main()
