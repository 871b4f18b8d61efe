"""Norm, rotation with the KV write, gate and gather on a GPU, Llama-3-8B shape, bf16.

    python -m bench.kernels.bench_rows [--sweep]

At 8,192 rows the floor is the bytes moved at the copy bandwidth of this card; at 64 rows launches are all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from espalier.kernels import gated_silu, gather_rows, rms_norm, rope_write
from espalier.kernels.layout import Batch, Span

from .device import Ceilings, ceilings, graph_us
from .record import Record, Result, options

WIDTH, FFN, Q_HEADS, KV_HEADS, DIM, PAGE = 4096, 14336, 32, 8, 128, 16
Call = Callable[[], object]


@dataclass(frozen=True)
class Work:
    name: str
    bytes: int
    calls: list[Call]
    peer: str | None = None
    peer_calls: list[Call] | None = None


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def norm(rows: int, copies: int) -> Work:
    weight = _random(WIDTH)
    pairs = [(_random(rows, WIDTH), _random(rows, WIDTH)) for _ in range(copies)]

    def plain(x: torch.Tensor, delta: torch.Tensor) -> torch.Tensor:
        x += delta
        return torch.nn.functional.rms_norm(x, (WIDTH,), weight, 1e-5)

    return Work(
        "rms_norm with residual", rows * WIDTH * 8,
        [lambda x=x, d=d: rms_norm.on_device(x, d, weight, 1e-5) for x, d in pairs], "torch",
        [lambda x=x, d=d: plain(x, d) for x, d in pairs],
    )


def gate(rows: int, copies: int) -> Work:
    several = [_random(rows, 2 * FFN) for _ in range(copies)]
    return Work("gated silu", rows * FFN * 6, [lambda x=x: gated_silu.on_device(x) for x in several], "torch", [
        lambda x=x: torch.nn.functional.silu(x[:, :FFN]) * x[:, FFN:] for x in several
    ])


def rotation(
    rows: int, copies: int, kind: torch.dtype = torch.bfloat16, shape: rope_write.Shape | None = None
) -> Work:
    each = 128 if rows > 128 else 1
    pages = -(-(each + 1000) // PAGE)
    order = torch.randperm(rows // each * pages).tolist()
    spans = [Span(i * each, each, 1000, tuple(order[i * pages : (i + 1) * pages])) for i in range(rows // each)]
    batch = Batch.of(spans, page=PAGE, pages=len(order), device=torch.device("cuda"))
    table = [x.cuda() for x in rope_write.rope_table(2048, DIM, 5e5)]
    k, v = (torch.empty(len(order), KV_HEADS, PAGE, DIM, device="cuda", dtype=kind) for _ in range(2))
    scales = tuple(torch.empty(k.shape[:3], device="cuda") for _ in range(2)) if kind.itemsize == 1 else None
    width = (Q_HEADS + 2 * KV_HEADS) * DIM
    several = [_random(rows, width) for _ in range(copies)]
    written = Q_HEADS * DIM * 2 + 2 * KV_HEADS * (DIM * kind.itemsize + (4 if scales else 0))
    return Work("rope with KV write" + (f", {str(kind)[6:]}" if scales else ""), rows * (width * 2 + written),
                [lambda x=x: rope_write.on_device(x, *table, k, v, batch, scales=scales, shape=shape) for x in several])


def coded_rotation(rows: int, copies: int) -> Work:
    return rotation(rows, copies, torch.float8_e4m3fn)


def gather(rows: int, copies: int) -> Work:
    at = torch.randint(8192, (rows,), device="cuda")
    several = [_random(8192, WIDTH) for _ in range(copies)]
    return Work("gather of rows", rows * WIDTH * 4, [lambda x=x: gather_rows.on_device(x, at) for x in several],
                "torch", [lambda x=x: x.index_select(0, at) for x in several])


def sweep(limits: Ceilings) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Shapes of a program of rope_write."""
    for kind in (torch.bfloat16, torch.float8_e4m3fn):
        for rows, copies in ((8192, 5), (64, 20)):
            for shape in (rope_write.Shape(heads, warps) for heads in (8, 16, 32) for warps in (1, 2, 4, 8)):
                def measured(
                    kind: torch.dtype = kind, rows: int = rows, copies: int = copies, shape: rope_write.Shape = shape
                ) -> Result:
                    work = rotation(rows, copies, kind, shape)
                    return Result(f"{work.name}, {rows} rows, {shape.heads} heads {shape.warps} warps",
                                  graph_us(work.calls), work.bytes / limits.copy * 1e6)

                yield f"{kind} {rows}", measured


def results(limits: Ceilings) -> Iterator[tuple[str, Callable[[], Result]]]:
    for rows, copies in ((8192, 5), (64, 20)):
        for make in (norm, rotation, coded_rotation, gate, gather):
            def measured(make: Callable[[int, int], Work] = make, rows: int = rows, copies: int = copies) -> Result:
                work = make(rows, copies)
                us, floor = graph_us(work.calls), work.bytes / limits.copy * 1e6
                peer = graph_us(work.peer_calls) if work.peer_calls else None
                return Result(f"{work.name}, {rows} rows", us, floor, work.peer, peer,
                              {"bytes": work.bytes, "share_of_copy": floor / us})

            yield f"{make.__name__} {rows}", measured


def main() -> None:
    parser = options(__doc__, "kernels_rows")
    parser.add_argument("--sweep", action="store_true", help="shapes of programs")
    args = parser.parse_args()
    limits = ceilings()
    record = Record.begin("kernels_rows", limits, args)
    for name, measured in sweep(limits) if args.sweep else results(limits):
        if args.only in name and not record.add(measured):
            return


if __name__ == "__main__":
    main()
