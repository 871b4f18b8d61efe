"""Paged attention on a GPU, Llama-3-8B shape, bf16, random pages of 16: python -m bench.kernels.bench_paged_attention

Decode, extend and prefix trees, fast and exact, against the floor of this card: bytes read once over its read
bandwidth, or operations over its matrix rate, whichever takes longer. Every time is the median of one node among 20 in
a graph, in rotation over data several times the L2; planning is not in it, for ours and for the peer. JSON is written
as it goes. Peers in the same run on the same pages: FlashInfer where it is installed, torch's dense attention.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from espalier.kernels.attention_tiles import EXACT, FAST, FP8, Tile, Tiles
from espalier.kernels.cut import Cut
from espalier.kernels.items import Plan, Row, Segment
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend
from espalier.kernels.planner import plan

from .device import Ceilings, ceilings, graph_us
from .peer_attention import Paged, Peer, dense_us, flashinfer, levels_of
from .record import Record, Result, options

Q_HEADS, KV_HEADS, DIM, PAGE = 32, 8, 128, 16
L2 = 60 << 20


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


@dataclass(frozen=True)
class Copy:
    """One of the rotation: its rows lie on pages of their own."""

    call: Callable[[], torch.Tensor]
    paged: Paged
    step: Step


def rotation(case: Case, pool: torch.Tensor, made: Plan, plain: bool, work: Work | None = None) -> list[Copy]:
    """work: where the plan is made, if not on the host."""
    rows, segments, runs, used = grown(case.trees)
    copies = max(1, min(pool.shape[1] // used, -(-4 * L2 // (used * PAGE * KV_HEADS * DIM * 4)) + 1, 16))
    work = work or Work.of(made, q_heads=Q_HEADS, head_dim=DIM, device=torch.device("cuda"))
    keys = pool.to(torch.float8_e4m3fn) if case.fp8 else pool
    factors = tuple(scales(pool.shape[1]) for _ in range(2)) if case.fp8 else (None, None)
    score = Score(DIM**-0.5, k_scale=factors[0], v_scale=factors[1])
    side = torch.cuda.Stream(priority=-1) if made.narrow and made.wide else None
    found: list[Copy] = []
    order = torch.randperm(pool.shape[1], dtype=torch.int32)
    for copy in range(copies):
        own = order[copy * used :]
        width = max(sum(pages for _, pages in path) for path in runs)
        table = torch.zeros((len(runs), width), dtype=torch.int32)
        for row, path in enumerate(runs):
            pages = torch.cat([torch.arange(first, first + count) for first, count in path])
            table[row, : len(pages)] = own[pages]
        step = Step.of(rows, segments, table.cuda())
        q = torch.randn((rows[-1].q_end, Q_HEADS, DIM), device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(q)
        levels = [] if case.fp8 or case.exact else levels_of(segments, runs, own, PAGE)
        found.append(Copy(
            lambda q=q, step=step, out=out: attend(
                q, keys[0], keys[1], step, work, score, out=out, exact=case.exact, side=side, tiles=case.tiles,
                overlap=case.overlap and not plain),
            Paged(q, keys[0], keys[1], levels, rows[0].q_len), step))
    return found


def compared(copies: list[Copy], name: str) -> tuple[Peer | None, float]:
    """The peer on the same copies, and how far its result is from ours, relative, in norm."""
    peer = flashinfer([copy.paged for copy in copies])
    if peer is None:
        return None, 0.0
    ours = copies[0].call().float()
    gap = float((ours - peer.out.float()).norm() / ours.norm())
    if not gap < 2e-2:
        print(f"  {name}: {peer.name} computes something else, by {gap:.1e}", flush=True)
    return peer, gap


def measure(case: Case, limits: Ceilings, pool: torch.Tensor, plain: bool) -> Result:
    rows, segments, _, used = grown(case.trees)
    cut = Cut(groups=Q_HEADS // KV_HEADS, kv_heads=KV_HEADS, least=case.least, most=case.most,
              narrow=case.tiles.narrow.m, wide=case.tiles.wide.m, exact=case.exact, parts=1 << 19)
    begin = time.perf_counter()
    made = plan(rows, segments, cut)
    plan_us = (time.perf_counter() - begin) * 1e6
    copies = rotation(case, pool, made, plain)
    us = graph_us([copy.call for copy in copies])
    peer, gap = compared(copies, case.name)
    size = used * PAGE * KV_HEADS * DIM * 2 * (1 if case.fp8 else 2)
    flops = operations(rows)
    floor = max(size / limits.read, flops / limits.matrix) * 1e6
    more = {"bytes": size, "tflops": round(flops / us / 1e6, 1), "items": (len(made.narrow), len(made.wide)),
            "parts": made.part_begin[-1], "plan_us": round(plan_us)}
    if peer is not None:
        more |= {"peer_plan_us": round(peer.plan_us), "peer_gap": gap, "peer_tflops": round(flops / peer.us / 1e6, 1)}
    return Result(case.name, us, floor, peer and peer.name, peer and peer.us, more)


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
        for wide in ((128, 64, 8, 5), (128, 64, 8, 4), (64, 64, 4, 4)):
            yield case(name, few, wide, exact=True)
    tall = ((64, 64, 4, 5), (64, 64, 4, 4), (16, 64, 1, 5))
    for narrow in (*tall, *((16, 64, warps, stages) for warps in (2, 4) for stages in (4, 5, 7))):
        for name in ("decode 8 x 4k", "decode 1 x 8k", "decode 256 x 1k", "decode 64 x 4k"):
            yield case(name, narrow, (128, 64, 8, 5), exact=True)


def dense(limits: Ceilings) -> Iterator[Callable[[], Result]]:
    """Dense causal attention of 8k by torch's own kernels."""
    flops = operations([Row(0, 0, 8192, 8192, 0, 0, 0)])
    for name, us in dense_us(Q_HEADS, KV_HEADS, DIM, 8192).items():
        yield lambda name=name, us=us: Result(
            f"{name}: causal 8k, dense", us, flops / limits.matrix * 1e6, more={"tflops": round(flops / us / 1e6, 1)})


def main() -> None:
    parser = options(__doc__, "kernels_attention")
    parser.add_argument("--sweep", action="store_true", help="tile shapes and numbers of programs")
    parser.add_argument("--plain", action="store_true", help="no kernel starts before the one before it has ended")
    args = parser.parse_args()
    limits = ceilings()
    record = Record.begin("kernels_attention", limits, args)
    pool = torch.randn((2, 68000, KV_HEADS, PAGE, DIM), device="cuda", dtype=torch.bfloat16)
    cases = list(sweep_cases() if args.sweep else table_cases())
    if not args.sweep:
        cases += [replace(case, name=f"{case.name}, exact", exact=True, tiles=EXACT) for case in cases if not case.fp8]
    for case in (case for case in cases if args.only in case.name):
        if not record.add(lambda case=case: measure(case, limits, pool, args.plain)):
            return
    for result in dense(limits) if args.only in "causal 8k, dense" and not args.sweep else ():
        if not record.add(result):
            return


if __name__ == "__main__":
    main()
