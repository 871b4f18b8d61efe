"""The planner on the device against the one in plain ints, and a step planned and computed in one captured graph."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import torch

from espalier.kernels import change_table, plan_items
from espalier.kernels.attention_tiles import EXACT, FAST
from espalier.kernels.cut import Cut
from espalier.kernels.packed_step import PackedStep
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend, reference
from tests.kernels.forests import Forest, Node

Report = Callable[[str, bool, str], None]
GROUPS, KV_HEADS, DIM, ROWS, TOKENS, WIDTH = 4, 2, 128, 64, 320, 512
# What the numbers of a forest's pages stay below.
PAGES = 1 << 14


def random_tree(draw: random.Random, depth: int) -> Node:
    if depth and draw.random() < 0.6:
        return Node(16 * draw.choice((0, 1, 5, 33, 90)), tuple(
            random_tree(draw, depth - 1) for _ in range(draw.choice((2, 3, 9)))))
    slots = draw.choice((1, 16, 63, 65, 517, 1300))
    return Node(slots, tokens=min(slots, draw.choice((1, 1, 1, 7, 40))))


def random_forest(seed: int) -> Forest:
    draw = random.Random(seed)
    while True:
        forest = Forest.of([random_tree(draw, 3) for _ in range(draw.randint(1, 5))], 16, seed)
        if len(forest.rows) < ROWS and forest.tokens < TOKENS:
            return forest


def packed(forest: Forest, buffer: PackedStep) -> None:
    buffer.fill(forest.rows, forest.segments)
    buffer.send()


def room(device: str, tokens: int = TOKENS) -> tuple[Work, torch.Tensor]:
    work = Work.room(tokens=tokens, counts=(600, 600), q_heads=GROUPS * KV_HEADS, head_dim=DIM,
                     device=torch.device(device), size=1 << 25)
    return work, torch.zeros(1, dtype=torch.int32, device=device)


def same(a: Work, b: Work) -> bool:
    counts = b.n_items.tolist()
    return torch.equal(a.n_items.cpu(), b.n_items) and torch.equal(a.part_begin.cpu(), b.part_begin) and all(
        torch.equal(a.items[bin_, :count].cpu(), b.items[bin_, :count]) for bin_, count in enumerate(counts))


def check_items(report: Report) -> None:
    buffer = PackedStep(rows=ROWS, tokens=TOKENS, changes=0, device=torch.device("cuda"))
    step = buffer.step(torch.zeros((1, 1), dtype=torch.int32, device="cuda"))
    for exact in (False, True):
        for window in (0, 100):
            wrong = 0
            for seed in range(20):
                draw = random.Random(seed)
                cut = Cut(groups=GROUPS, kv_heads=KV_HEADS, least=draw.choice((1, 60, 400)), window=window,
                          most=draw.choice((1, 60, 400)), exact=exact, parts=draw.choice((1 << 16, 1 << 16, 500)))
                packed(random_forest(seed), buffer)
                (theirs, their_error), (ours, our_error) = room("cpu"), room("cuda")
                plan_items.reference(step.rows.cpu(), step.segments.cpu(), cut, theirs, their_error)
                for scratch in (ours.items, ours.n_items, ours.part_begin):
                    scratch.fill_(-7)
                plan_items.on_device(step.rows, step.segments, cut, ours, our_error, checked=True)
                wrong += not (same(ours, theirs) and torch.equal(our_error.cpu(), their_error))
            report(f"plan, exact={exact}, window={window}", not wrong, f"{wrong} of 20 steps differ")


def check_groups(report: Report) -> None:
    """Query heads per KV head up to a wide tile's rows: the plan, and attention by it."""
    buffer = PackedStep(rows=ROWS, tokens=TOKENS, changes=0, device=torch.device("cuda"))
    for groups in (16, 24, 71, 128):
        wrong, worst = 0, 0.0
        cut = Cut(groups=groups, kv_heads=1, least=60, most=60)
        for seed in range(4):
            forest = random_forest(seed)
            packed(forest, buffer)
            step = buffer.step(forest.block_table("cuda"))
            works = [Work.room(tokens=TOKENS, counts=(4000, 4000), q_heads=groups, head_dim=DIM,
                               device=torch.device(device)) for device in ("cpu", "cuda")]
            errors = [torch.zeros(1, dtype=torch.int32, device=device) for device in ("cpu", "cuda")]
            plan_items.reference(step.rows.cpu(), step.segments.cpu(), cut, works[0], errors[0])
            plan_items.on_device(step.rows, step.segments, cut, works[1], errors[1], checked=True)
            wrong += not same(works[1], works[0]) or bool(errors[1])
            q = torch.randn((TOKENS, groups, DIM), device="cuda").bfloat16()
            k, v = (forest.pool(1, DIM, torch.bfloat16, "cuda") for _ in range(2))
            score, used = Score(DIM**-0.5), forest.tokens
            ours = attend(q, k, v, step, works[1], score, out=torch.full_like(q, torch.nan))[:used].double()
            theirs = reference(q[:used], k, v, Step.of(forest.rows, forest.segments, step.block_table), score).double()
            worst = max(worst, float(((ours - theirs).norm() / theirs.norm()).nan_to_num(1e9)))
        report(f"{groups} query heads a KV head, planned on the device", not wrong and worst < 1e-2,
               f"{wrong} of 4 plans differ, relative error {worst:.1e}")


def differing(exact: bool) -> tuple[int, int]:
    """Captured once, replayed over other rows: how many of 19 steps have other bits than with a plan of the host."""
    tiles = EXACT if exact else FAST
    cut = Cut(groups=GROUPS, kv_heads=KV_HEADS, narrow=tiles.narrow.m, wide=tiles.wide.m, exact=exact)
    k, v = (torch.randn((PAGES, KV_HEADS, 16, DIM), device="cuda").bfloat16() for _ in range(2))
    q = torch.randn((TOKENS, GROUPS * KV_HEADS, DIM), device="cuda").bfloat16()
    buffer = PackedStep(rows=ROWS, tokens=TOKENS, changes=ROWS * WIDTH, device=torch.device("cuda"))
    table = torch.zeros((ROWS, WIDTH), dtype=torch.int32, device="cuda")
    step = buffer.step(table)
    (work, error), out, score = room("cuda"), torch.empty_like(q), Score(DIM**-0.5)
    side = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]

    def compute() -> None:
        buffer.send()
        change_table.on_device(table, buffer.changes, error=error)
        plan_items.on_device(step.rows, step.segments, cut, work, error, checked=True)
        attend(q, k, v, step, work, score, out=out, exact=exact, side=side, tiles=tiles)

    compute()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        compute()
    wrong = 0
    for seed in range(1, 20):
        forest = random_forest(seed)
        changes = [(slot, index, page) for slot, pages_of in enumerate(forest.tables)
                   for index, page in enumerate(pages_of)]
        buffer.fill(forest.rows, forest.segments, changes)
        out.fill_(torch.nan)
        graph.replay()
        host, host_error = room("cpu")
        plan_items.reference(step.rows.cpu(), step.segments.cpu(), cut, host, host_error)
        narrow, wide = host.n_items.tolist()
        fresh = replace(work, items=host.items.cuda(), n_items=host.n_items.cuda(), counts=(narrow, wide),
                        part_begin=host.part_begin.cuda())
        expected = attend(q, k, v, step, fresh, score, exact=exact, tiles=tiles, out=torch.full_like(q, torch.nan))
        wrong += not torch.equal(out, expected) or bool(out.isnan().any())
    return wrong, int(error)


def check_graph(report: Report) -> None:
    for exact in (False, True):
        wrong, error = differing(exact)
        report(f"copy, plan and attention in a graph, exact={exact}", not wrong and not error,
               f"{wrong} of 19 differ, code {error}")


def run(report: Report) -> None:
    torch.manual_seed(0)
    check_items(report)
    check_groups(report)
    check_graph(report)
