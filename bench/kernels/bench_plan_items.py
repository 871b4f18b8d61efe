"""The planner of paged attention on a GPU, Llama-3-8B shape: python -m bench.kernels.bench_plan_items

One program, so a share of a step and not of a card: there is no floor but a launch, which is measured too (a kernel
that fills one word). The steps are those of bench_paged_attention; `host` is the planner in plain ints.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from espalier.kernels import plan_items
from espalier.kernels.items import Cut, Row, Segment, plan
from espalier.kernels.paged import Work
from espalier.kernels.paged_attention import EXACT, FAST

from .bench_paged_attention import DIM, KV_HEADS, Q_HEADS, Tree, grown, table_cases
from .device import ceilings, graph_us
from .record import Record, Result

PLANNED = ("decode 64 x 4k", "decode 256 x 1k", "tree 8k + 256 x 256", "tree of 3 levels, 78 rows",
           "extend 8 x (512 on 8k)", "extend causal 8k")


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


def results() -> Iterator[Callable[[], Result]]:
    word = torch.zeros(1, device="cuda")
    launch_us = graph_us([lambda: word.fill_(1.0)])
    for name, trees, exact in steps():
        yield lambda name=name, trees=trees, exact=exact: measured(name, trees, exact, launch_us)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="ignored: all take a few seconds")
    parser.add_argument("--out", type=Path, default=Path("bench/results/kernels_plan.json"))
    parser.add_argument("--seconds", type=float, default=540, help="stops by itself")
    args = parser.parse_args()
    record = Record.begin("kernels_plan", ceilings(), args.out, args.seconds)
    for result in results():
        if not record.add(result):
            return


if __name__ == "__main__":
    main()
