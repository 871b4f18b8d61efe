"""Paged attention on the device, fast: against float64 over poisoned memory. The checks of exact mode are beside it."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from espalier.kernels.attention_tiles import tiles_for
from espalier.kernels.cut import Cut
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend, reference
from espalier.kernels.planner import plan
from tests.kernels.forests import Forest, Node

Report = Callable[[str, bool, str], None]
GROUPS, KV_HEADS, DIM = 4, 2, 128


def random_tree(draw: random.Random, depth: int) -> Node:
    if depth and draw.random() < 0.6:
        return Node(16 * draw.choice((0, 1, 5, 33, 90)), tuple(random_tree(draw, depth - 1) for _ in range(draw.choice(
            (2, 3, 9)))))
    slots = draw.choice((1, 16, 63, 65, 517, 1300))
    return Node(slots, tokens=min(slots, draw.choice((1, 1, 1, 7, 70))))


def stepped(forest: Forest, device: str) -> Step:
    bits = forest.draft_bits().to(device) if any(row.draft_len for row in forest.rows) else None
    return Step.of(forest.rows, forest.segments, forest.block_table(device), draft_bits=bits)


def attended(
    forest: Forest, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score: Score, *, exact: bool, programs: int,
    overlap: bool = False,
) -> torch.Tensor:
    tiles = tiles_for(q.shape[2], exact=exact, coded=k.element_size() == 1)
    made = plan(forest.rows, forest.segments, Cut(
        groups=GROUPS, kv_heads=KV_HEADS, least=programs, most=programs, narrow=tiles.narrow.m, wide=tiles.wide.m,
        window=score.window, exact=exact))
    work = Work.of(made, q_heads=GROUPS * KV_HEADS, head_dim=q.shape[2], device=q.device)
    for scratch in (work.part_o, work.part_ml):
        scratch.fill_(torch.nan)
    side = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
    return attend(
        q, k, v, stepped(forest, "cuda"), work, score, out=torch.full_like(q, torch.nan), exact=exact,
        side=side, tiles=tiles, overlap=overlap)


def error_of(ours: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative, in norm; NaN counts as very far."""
    return float(((ours.double() - expected.double()).norm() / expected.double().norm()).nan_to_num(1e9))


def queries(forest: Forest, dim: int = DIM) -> torch.Tensor:
    return torch.randn(forest.tokens, GROUPS * KV_HEADS, dim, device="cuda").bfloat16()


def check_forests(report: Report, *, exact: bool, window: int) -> None:
    worst = 0.0
    for seed in (0, 3):
        draw = random.Random(seed)
        forest = Forest.of([random_tree(draw, 3) for _ in range(3)], 16, seed)
        q, score = queries(forest), Score(DIM**-0.5, window=window)
        k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
        expected = reference(q, k, v, stepped(forest, "cpu"), score)
        for programs in (1, 300):
            ours = attended(forest, q, k, v, score, exact=exact, programs=programs)
            worst = max(worst, error_of(ours, expected))
    report(f"paged attention, exact={exact}, window={window}", worst < 1e-2, f"relative error {worst:.1e}")


def check_fp8(report: Report, *, exact: bool, dim: int = DIM) -> None:
    draw = random.Random(3)
    forest = Forest.of([random_tree(draw, 3) for _ in range(3)], 16, 3)
    q = queries(forest, dim)
    k, v = ((forest.pool(KV_HEADS, dim, torch.float32, "cuda") * 40).to(torch.float8_e4m3fn) for _ in range(2))
    factors = [forest.pool(KV_HEADS, 1, torch.float32, "cuda")[..., 0].abs() / 40 for _ in range(2)]
    score = Score(dim**-0.5, k_scale=factors[0], v_scale=factors[1])
    expected = reference(q, k.float(), v.float(), stepped(forest, "cpu"), score)
    error = error_of(attended(forest, q, k, v, score, exact=exact, programs=300), expected)
    report(f"paged attention, fp8, heads of {dim}, exact={exact}", error < 1e-2, f"relative error {error:.1e}")


def check_drafts(report: Report, *, exact: bool) -> None:
    trees = [Node(640, (Node(33, tokens=20, draft=17), Node(190, tokens=64, draft=64))), Node(70, draft=1), Node(9)]
    forest = Forest.of(trees, 16)
    q = queries(forest)
    k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
    score = Score(DIM**-0.5, window=300, soft_cap=20.0, sinks=torch.randn(GROUPS * KV_HEADS, device="cuda"))
    expected = reference(q, k, v, stepped(forest, "cpu"), score)
    error = error_of(attended(forest, q, k, v, score, exact=exact, programs=300), expected)
    report(f"drafts, window, cap and sinks, exact={exact}", error < 1e-2, f"relative error {error:.1e}")


def check_heads(report: Report, *, exact: bool, dims: tuple[int, ...]) -> None:
    trees = [Node(656, (Node(17), Node(190, tokens=70), Node(32, (Node(1), Node(100))))), Node(1300)]
    for dim in dims:
        forest = Forest.of(trees, 16)
        q, score = queries(forest, dim), Score(dim**-0.5)
        k, v = (forest.pool(KV_HEADS, dim, torch.bfloat16, "cuda") for _ in range(2))
        expected = reference(q, k, v, stepped(forest, "cpu"), score)
        error = error_of(attended(forest, q, k, v, score, exact=exact, programs=20), expected)
        report(f"heads of {dim}, exact={exact}", error < 1e-2, f"relative error {error:.1e}")


def check_overlap(report: Report) -> None:
    """A merge that is set up while the items run gives what one that starts after them does."""
    forest = Forest.of([Node(2000)] * 5, 16)
    q, score = queries(forest), Score(DIM**-0.5)
    k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
    found = [attended(forest, q, k, v, score, exact=False, programs=100, overlap=overlap) for overlap in (False, True)]
    report("merge set up beforehand", torch.equal(*found), "")


def run(report: Report) -> None:
    torch.manual_seed(0)
    check_forests(report, exact=False, window=0)
    check_overlap(report)
    check_forests(report, exact=False, window=200)
    check_fp8(report, exact=False)
    check_fp8(report, exact=False, dim=256)
    check_drafts(report, exact=False)
    check_heads(report, exact=False, dims=(64, 80, 96, 256))
