"""The planner of paged attention on a GPU, Llama-3-8B shape: python -m bench.kernels.bench_plan_items

One program, so a share of a step and not of a card: there is no floor but a launch, which is measured too (a kernel
that fills one word). The steps are those of bench_paged_attention; the peer is the planner in plain ints. Then
attention with room for a quarter more items than there are, planned in the same node, beside a plan of the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from espalier.kernels import plan_items
from espalier.kernels.attention_tiles import EXACT, FAST
from espalier.kernels.cut import Cut
from espalier.kernels.items import Row, Segment
from espalier.kernels.paged import Work
from espalier.kernels.planner import plan

from .bench_paged_attention import DIM, KV_HEADS, PAGE, Q_HEADS, Copy, Tree, grown, rotation, table_cases
from .device import Ceilings, ceilings, graph_us
from .record import Record, Result, options

PLANNED = ("decode 64 x 4k", "decode 256 x 1k", "tree 8k + 256 x 256", "tree of 3 levels, 78 rows",
           "extend 8 x (512 on 8k)", "extend causal 8k")
STEPS = ("decode 64 x 4k", "decode 256 x 1k", "decode 8 x 4k", "decode 1 x 8k", "tree 8k + 64 x 256",
         "tree 8k + 256 x 256", "tree of 3 levels, 78 rows")


def steps() -> Iterator[tuple[str, tuple[Tree, ...], bool]]:
    of = {case.name: case.trees for case in table_cases()}
    for name in PLANNED:
        yield name, of[name], False
    yield "tree 8k + 256 x 256, exact", of["tree 8k + 256 x 256"], True


def step_of(trees: tuple[Tree, ...]) -> tuple[list[Row], list[Segment], torch.Tensor, torch.Tensor]:
    """Rows and segments as ints and on the device, with room for as many again, as a captured step has."""
    rows, segments, _, _ = grown(trees)
    tensors = []
    for records, room in ((rows, len(rows)), (segments, 2 * len(rows))):
        tensor = torch.zeros((room, 8), dtype=torch.int32)
        tensor[: len(records)] = torch.tensor([record.packed() for record in records])
        tensors.append(tensor.cuda())
    return rows, segments, tensors[0], tensors[1]


def measured(name: str, trees: tuple[Tree, ...], exact: bool, launch_us: float) -> Result:
    rows, segments, row_records, segment_records = step_of(trees)
    tiles = EXACT if exact else FAST
    cut = Cut(groups=Q_HEADS // KV_HEADS, kv_heads=KV_HEADS, narrow=tiles.narrow.m, wide=tiles.wide.m, exact=exact)
    work = Work.room(tokens=rows[-1].q_end, counts=(1024, 1024), q_heads=Q_HEADS, head_dim=DIM,
                     device=torch.device("cuda"))
    error = torch.zeros(1, dtype=torch.int32, device="cuda")
    us = graph_us([lambda: plan_items.on_device(row_records, segment_records, cut, work, error)])
    begin = time.perf_counter()
    plan(rows, segments, cut)
    host_us = (time.perf_counter() - begin) * 1e6
    return Result(f"plan of {name}", us, launch_us, "plain ints on the host", host_us, {
        "rows": len(rows), "segments": len(segments), "items": work.n_items.tolist(), "error": int(error)})


def attention(name: str, limits: Ceilings, pool: torch.Tensor) -> Result:
    """us: with the plan in the node. The peer: a plan of the host, of which the launch knows how many items it has."""
    case = next(case for case in table_cases() if case.name == name)
    rows, segments, _, used = grown(case.trees)
    cut = Cut(groups=Q_HEADS // KV_HEADS, kv_heads=KV_HEADS, narrow=case.tiles.narrow.m, wide=case.tiles.wide.m)
    made = plan(rows, segments, cut)
    counts = [len(bin_) and len(bin_) * 5 // 4 + 8 for bin_ in (made.narrow, made.wide)]
    work = Work.room(tokens=rows[-1].q_end, counts=(counts[0], counts[1]), q_heads=Q_HEADS, head_dim=DIM,
                     device=torch.device("cuda"))
    error = torch.zeros(1, dtype=torch.int32, device="cuda")
    host_us = graph_us([copy.call for copy in rotation(case, pool, made, plain=False)])
    case = replace(case, tiles=case.tiles.fixed(len(made.narrow) * KV_HEADS, made.part_begin[-1] > 0))
    copies = rotation(case, pool, made, plain=False, work=work)

    def planned(copy: Copy) -> None:
        plan_items.on_device(copy.step.rows, copy.step.segments, cut, work, error)
        copy.call()

    us = graph_us([lambda copy=copy: planned(copy) for copy in copies])
    floor = used * PAGE * KV_HEADS * DIM * 4 / limits.read * 1e6
    return Result(f"attention, {name}, planned on the device", us, floor, "planned on the host before", host_us, {
        "planned_before_us": graph_us([copy.call for copy in copies]), "room": counts, "items": work.n_items.tolist(),
        "error": int(error)})


def results(limits: Ceilings) -> Iterator[Callable[[], Result]]:
    word = torch.zeros(1, device="cuda")
    launch_us = graph_us([lambda: word.fill_(1.0)])
    for name, trees, exact in steps():
        yield lambda name=name, trees=trees, exact=exact: measured(name, trees, exact, launch_us)  # type: ignore[misc]
    pool = torch.randn((2, 68000, KV_HEADS, PAGE, DIM), device="cuda", dtype=torch.bfloat16)
    for name in STEPS:
        yield lambda name=name: attention(name, limits, pool)  # type: ignore[misc]


def main() -> None:
    parser = options(__doc__, "kernels_plan")
    args = parser.parse_args()
    limits = ceilings()
    record = Record.begin("kernels_plan", limits, args)
    for result in results(limits):
        if not record.add(result):
            return


if __name__ == "__main__":
    main()
