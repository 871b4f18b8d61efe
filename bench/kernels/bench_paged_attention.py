"""Paged attention on a GPU, Llama-3-8B shape, bf16, random pages of 16: python -m bench.kernels.bench_paged_attention

Decode, extend and prefix trees, fast and exact, against the floor of this card: bytes read once over its read
bandwidth, or operations over its matrix rate, whichever takes longer. Every time is the median of one node among 20 in
a graph, in rotation over data several times the L2; planning is not in it. JSON is written as it goes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import triton
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from espalier.kernels.items import Cut, Row, Segment, plan
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import EXACT, FAST, FP8, Tile, Tiles, attend

from .device import Ceilings, ceilings, graph_us
from .record import row_of

Q_HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16
L2 = 60 << 20
PEERS = {
    "decode 64 x 4k": ("FlashInfer 0.6.13", 251), "decode 256 x 1k": ("FlashInfer 0.6.13", 263),
    "decode 8 x 4k": ("FlashInfer 0.6.13", 42), "decode 1 x 8k": ("FlashInfer 0.6.13", 15),
    "tree 8k + 64 x 256": ("FlashInfer cascade", 221), "tree 8k + 256 x 256": ("FlashInfer cascade", 510),
}


@dataclass(frozen=True)
class Tree:
    """A node of a forest: slots, and at a leaf how many of them are computed in this step."""

    slots: int
    below: tuple[Tree, ...] = ()
    tokens: int = 1


@dataclass(frozen=True)
class Case:
    name: str
    trees: tuple[Tree, ...]
    tiles: Tiles = FAST
    least: int = 198
    most: int = 132
    exact: bool = False
    fp8: bool = False
    overlap: bool = True


@dataclass(frozen=True)
class Result:
    work: str
    us: float
    floor_us: float
    bytes: int
    tflops: float
    items: tuple[int, int]
    parts: int
    plan_us: float
    peer: str | None = None
    peer_us: float | None = None

    def line(self) -> str:
        peer = f"  {self.peer} {self.peer_us}" if self.peer else ""
        return (f"{self.work:44}{self.us:9.1f} us  floor {self.floor_us:7.1f}  x{self.us / self.floor_us:5.2f}  "
                f"{self.tflops:5.0f} TF  items {self.items} parts {self.parts}{peer}")


def grown(trees: Iterable[Tree]) -> tuple[list[Row], list[Segment], list[list[tuple[int, int]]], int]:
    """Rows, segments, per row the (first page, pages) runs of its path, and the pages in all."""
    rows: list[Row] = []
    segments: list[Segment] = []
    runs: list[list[tuple[int, int]]] = []
    used = 0

    def grow(tree: Tree, parent: int, begin: int, path: list[tuple[int, int]]) -> None:
        nonlocal used
        index, first, end = len(segments), len(rows), begin + tree.slots
        pages = -(-tree.slots // PAGE)
        path, used = [*path, (used, pages)], used + pages
        segments.append(Segment(begin, end, first, first, parent, len(runs)))
        for child in tree.below:
            grow(child, index, end, path)
        if not tree.below:
            rows.append(Row(len(runs), rows[-1].q_end if rows else 0, tree.tokens, end, end, 0, index))
            runs.append(path)
        segments[index] = replace(segments[index], row_end=len(rows))

    for tree in trees:
        grow(tree, -1, 0, [])
    return rows, segments, runs, used


def operations(rows: Iterable[Row]) -> int:
    pairs = sum(row.q_len * (row.kv_len - row.q_len) + row.q_len * (row.q_len + 1) // 2 for row in rows)
    return 4 * Q_HEADS * DIM * pairs


def scales(pages: int) -> torch.Tensor:
    return torch.rand((pages, KV_HEADS, PAGE), device="cuda") * 0.02 + 0.001


def measure(case: Case, limits: Ceilings, pool: torch.Tensor, plain: bool) -> Result:
    rows, segments, runs, used = grown(case.trees)
    copies = max(1, min(pool.shape[1] // used, -(-4 * L2 // (used * PAGE * KV_HEADS * DIM * 4)) + 1, 16))
    cut = Cut(groups=Q_HEADS // KV_HEADS, kv_heads=KV_HEADS, least=case.least, most=case.most,
              narrow=case.tiles.narrow.m, wide=case.tiles.wide.m, exact=case.exact, parts=1 << 19)
    begin = time.perf_counter()
    made = plan(rows, segments, cut)
    plan_us = (time.perf_counter() - begin) * 1e6
    work = Work.of(made, q_heads=Q_HEADS, head_dim=DIM, device=torch.device("cuda"))
    keys = pool.to(torch.float8_e4m3fn) if case.fp8 else pool
    factors = tuple(scales(pool.shape[1]) for _ in range(2)) if case.fp8 else (None, None)
    score = Score(DIM**-0.5, k_scale=factors[0], v_scale=factors[1])
    side = torch.cuda.Stream() if made.narrow and made.wide else None
    calls: list[Callable[[], object]] = []
    order = torch.randperm(pool.shape[1], dtype=torch.int32)
    for copy in range(copies):
        width = max(sum(pages for _, pages in path) for path in runs)
        table = torch.zeros((len(runs), width), dtype=torch.int32)
        for row, path in enumerate(runs):
            pages = torch.cat([torch.arange(first, first + count) for first, count in path]) + copy * used
            table[row, : len(pages)] = order[pages]
        step = Step.of(rows, segments, table.cuda())
        q = torch.randn((rows[-1].q_end, Q_HEADS, DIM), device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(q)
        calls.append(lambda q=q, step=step, out=out: attend(
            q, keys[0], keys[1], step, work, score, out=out, exact=case.exact, side=side, tiles=case.tiles,
            overlap=case.overlap and not plain))
    us = graph_us(calls)
    size = used * PAGE * KV_HEADS * DIM * 2 * (1 if case.fp8 else 2)
    flops = operations(rows)
    floor = max(size / limits.read, flops / limits.matrix) * 1e6
    return Result(case.name, us, floor, size, flops / us / 1e6, (len(made.narrow), len(made.wide)),
                  made.part_begin[-1], plan_us, *PEERS.get(case.name, (None, None)))


def table_cases() -> Iterator[Case]:
    """The rows that are promised, and each in exact mode."""
    yield Case("decode 64 x 4k", (Tree(4096),) * 64)
    yield Case("decode 256 x 1k", (Tree(1024),) * 256)
    yield Case("decode 8 x 4k", (Tree(4096),) * 8)
    yield Case("decode 1 x 8k", (Tree(8192),))
    yield Case("decode 64, ragged 1:16, mean 4k", tuple(Tree(482 * (1 + i % 16)) for i in range(64)))
    yield Case("tree 8k + 64 x 256", (Tree(8192, (Tree(256),) * 64),))
    yield Case("tree 8k + 256 x 256", (Tree(8192, (Tree(256),) * 256),))
    branches = tuple(
        Tree(512 * (1 + i % 3), tuple(Tree(64 + 32 * j) for j in range(2 + 3 * (i % 4)))) for i in range(12)
    )
    yield Case("tree of 3 levels, 78 rows", (Tree(4096, branches),))
    yield Case("extend causal 8k", (Tree(8192, tokens=8192),))
    yield Case("extend 8 x (512 on 8k)", (Tree(8704, tokens=512),) * 8)
    yield Case("decode 64 x 4k, fp8", (Tree(4096),) * 64, FP8, fp8=True)


def sweep_cases() -> Iterator[Case]:
    picked = {case.name: case for case in table_cases()}

    def case(name: str, narrow: tuple[int, int, int, int], wide: tuple[int, int, int, int], **changes: Any) -> Case:
        tiles = Tiles(Tile(*narrow), Tile(*wide))
        label = " ".join(f"{key}={value}" for key, value in changes.items())
        return replace(picked[name], name=f"{name} {narrow} {wide} {label}", tiles=tiles, **changes)

    few, many = (16, 64, 2, 5), (128, 128, 8, 5)
    for narrow in ((16, 64, 2, 5), (16, 64, 2, 7), (16, 64, 2, 9), (16, 128, 4, 5), (16, 64, 4, 7), (16, 32, 1, 5)):
        yield case("decode 64 x 4k, fp8", narrow, many)
    for narrow in ((16, 32, 1, 5), (16, 32, 1, 9), (16, 32, 2, 7)):
        for name in ("decode 64 x 4k", "decode 8 x 4k", "decode 1 x 8k"):
            yield case(name, narrow, many)
    for least in (132, 264):
        yield case("decode 1 x 8k", few, many, least=least)
    for wide, most in (((64, 64, 4, 5), 264), ((128, 64, 8, 5), 132), ((128, 128, 8, 5), 132), ((128, 128, 8, 5), 264)):
        for name in ("tree 8k + 64 x 256", "tree 8k + 256 x 256", "tree of 3 levels, 78 rows"):
            yield case(name, few, wide, most=most)
    for name in ("extend causal 8k", "extend 8 x (512 on 8k)"):
        for wide in ((128, 64, 8, 5), (128, 128, 8, 4), (128, 64, 8, 7)):
            yield case(name, few, wide)
        yield case(name, (64, 64, 4, 5), (128, 64, 8, 7), exact=True)
    yield case("decode 256 x 1k", (16, 64, 4, 5), (128, 64, 8, 5), exact=True)
    yield case("decode 8 x 4k", (16, 64, 4, 5), (128, 64, 8, 5), exact=True)


def peers() -> dict[str, float]:
    """Dense causal attention of 8k by torch's own kernels, TFLOP/s."""
    shape = (1, Q_HEADS, 8192, DIM)
    q = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn((1, KV_HEADS, 8192, DIM), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    flops, found = operations([Row(0, 0, 8192, 8192, 0, 0, 0)]), {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            us = graph_us([lambda: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)])
        found[name] = flops / us / 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names to measure")
    parser.add_argument("--sweep", action="store_true", help="tile shapes and numbers of programs")
    parser.add_argument("--exact", action="store_true", help="every case in exact mode too")
    parser.add_argument("--plain", action="store_true", help="no kernel starts before the one before it has ended")
    parser.add_argument("--out", type=Path, default=Path("bench/results/kernels_attention.json"))
    parser.add_argument("--seconds", type=float, default=540, help="stops by itself")
    args = parser.parse_args()
    begin = time.monotonic()
    limits = ceilings()
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    record = {
        "name": "kernels_attention", "device": torch.cuda.get_device_name(), "commit": commit.stdout.strip(),
        "versions": {"torch": torch.__version__, "triton": triton.__version__}, "date": time.strftime("%Y-%m-%d"),
        "ceilings": asdict(limits), "peers_tflops_causal_8k": peers() if not args.only and not args.sweep else {},
        "rows": (rows := []),
    }
    print(f"read {limits.read / 1e12:.2f}, copy {limits.copy / 1e12:.2f} TB/s, {limits.matrix / 1e12:.0f} TFLOP/s")
    print(record["peers_tflops_causal_8k"], flush=True)
    pool = torch.randn((2, 68000, KV_HEADS, PAGE, DIM), device="cuda", dtype=torch.bfloat16)
    cases = list(sweep_cases() if args.sweep else table_cases())
    if args.exact:
        cases += [replace(case, name=f"{case.name}, exact", exact=True, tiles=EXACT) for case in cases if not case.fp8]
    for case in (case for case in cases if args.only in case.name):
        if time.monotonic() - begin > args.seconds:
            print("out of time")
            break
        result = measure(case, limits, pool, args.plain)
        print(result.line(), flush=True)
        rows.append(row_of(asdict(result)))
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
