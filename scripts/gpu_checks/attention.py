"""Paged attention on the device: against float64 over poisoned memory, and bit for bit in exact mode."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from espalier.kernels.items import Cut, plan
from espalier.kernels.jit import Arg, constexpr, dot, jit, tl
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import EXACT, FAST, FP8, Tiles, attend, reference
from tests.kernels.forests import Forest, Node

Report = Callable[[str, bool, str], None]
GROUPS, KV_HEADS, DIM = 4, 2, 128


def random_tree(draw: random.Random, depth: int) -> Node:
    if depth and draw.random() < 0.6:
        return Node(16 * draw.choice((0, 1, 5, 33, 90)), tuple(random_tree(draw, depth - 1) for _ in range(draw.choice(
            (2, 3, 9)))))
    slots = draw.choice((1, 16, 63, 65, 517, 1300))
    return Node(slots, tokens=min(slots, draw.choice((1, 1, 1, 7, 70))))


def stepped(forest: Forest) -> Step:
    bits = forest.draft_bits().to("cuda") if any(row.draft_len for row in forest.rows) else None
    return Step.of(forest.rows, forest.segments, forest.block_table("cuda"), draft_bits=bits)


def attended(
    forest: Forest, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score: Score, *, exact: bool, programs: int,
    tiles: Tiles = FAST,
) -> torch.Tensor:
    tiles = EXACT if exact else tiles
    made = plan(forest.rows, forest.segments, Cut(
        groups=GROUPS, kv_heads=KV_HEADS, least=programs, most=programs, narrow=tiles.narrow.m, wide=tiles.wide.m,
        window=score.window, exact=exact))
    work = Work.of(made, q_heads=GROUPS * KV_HEADS, head_dim=DIM, device=q.device)
    for scratch in (work.part_o, work.part_ml):
        scratch.fill_(torch.nan)
    step = stepped(forest)
    out = torch.full_like(q, torch.nan)
    return attend(q, k, v, step, work, score, out=out, exact=exact, side=torch.cuda.Stream(), tiles=tiles)


def check_forests(report: Report) -> None:
    for exact in (False, True):
        for window in (0, 200):
            worst = 0.0
            for seed in range(3):
                draw = random.Random(seed)
                forest = Forest.of([random_tree(draw, 3) for _ in range(3)], 16, seed)
                q = torch.randn(forest.tokens, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()
                k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
                score = Score(DIM**-0.5, window=window)
                step = Step.of(forest.rows, forest.segments, forest.block_table("cuda"))
                expected = reference(q, k, v, step, score).double()
                ours = attended(forest, q, k, v, score, exact=exact, programs=draw.choice((1, 300))).double()
                worst = max(worst, float(((ours - expected).norm() / expected.norm()).nan_to_num(1e9)))
            report(f"paged attention, exact={exact}, window={window}", worst < 1e-2, f"relative error {worst:.1e}")


def check_fp8(report: Report) -> None:
    for exact in (False, True):
        draw = random.Random(7)
        forest = Forest.of([random_tree(draw, 3) for _ in range(3)], 16, 7)
        q = torch.randn(forest.tokens, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()
        k, v = ((forest.pool(KV_HEADS, DIM, torch.float32, "cuda") * 40).to(torch.float8_e4m3fn) for _ in range(2))
        factors = [forest.pool(KV_HEADS, 1, torch.float32, "cuda")[..., 0].abs() / 40 for _ in range(2)]
        score = Score(DIM**-0.5, k_scale=factors[0], v_scale=factors[1])
        step = Step.of(forest.rows, forest.segments, forest.block_table("cuda"))
        expected = reference(q, k.float(), v.float(), step, score).double()
        ours = attended(forest, q, k, v, score, exact=exact, programs=300, tiles=FP8).double()
        error = float(((ours - expected).norm() / expected.norm()).nan_to_num(1e9))
        report(f"paged attention, fp8, exact={exact}", error < 1e-2, f"relative error {error:.1e}")


def check_drafts(report: Report) -> None:
    trees = [Node(640, (Node(33, tokens=20, draft=17), Node(190, tokens=64, draft=64))), Node(70, draft=1), Node(9)]
    forest = Forest.of(trees, 16)
    q = torch.randn(forest.tokens, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()
    k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
    score = Score(DIM**-0.5, window=300, soft_cap=20.0, sinks=torch.randn(GROUPS * KV_HEADS, device="cuda"))
    expected = reference(q, k, v, stepped(forest), score).double()
    for exact in (False, True):
        ours = attended(forest, q, k, v, score, exact=exact, programs=300).double()
        error = float(((ours - expected).norm() / expected.norm()).nan_to_num(1e9))
        report(f"drafts, window, cap and sinks, exact={exact}", error < 1e-2, f"relative error {error:.1e}")


def check_bits(report: Report) -> None:
    """The last token of one row: alone, extended, below shared prefixes, beside others, cut finely or not."""
    length, page = 2222, 16
    keys, values = (torch.randn(KV_HEADS, length, DIM, device="cuda").bfloat16() for _ in range(2))
    queries = torch.randn(64, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()

    def last(trees: list[Node], programs: int) -> torch.Tensor:
        forest = Forest.of(trees, page)
        k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
        row = next(row for row in forest.rows if row.kv_len == length)
        for begin in range(0, length, page):
            end, at = min(begin + page, length), forest.tables[row.slot][begin // page]
            k[at, :, : end - begin], v[at, :, : end - begin] = keys[:, begin:end], values[:, begin:end]
        q = torch.randn(forest.tokens, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()
        q[row.q_begin : row.q_end] = queries[-row.q_len :]
        return attended(forest, q, k, v, Score(DIM**-0.5), exact=True, programs=programs)[row.q_end - 1]

    alone = last([Node(length)], 1)
    others = {
        "cut finely": last([Node(length)], 1000), "extended by 64": last([Node(length, tokens=64)], 1),
        "below a prefix": last([Node(1600, (Node(20), Node(length - 1600), Node(5)))], 1000),
        "two levels": last([Node(48, (Node(9), Node(1008, (Node(length - 1056), Node(40, tokens=9)))))], 1),
        "beside others": last([Node(700)] * 9 + [Node(length)] + [Node(64, (Node(100),) * 30)], 500),
        "in a crowd": last([Node(700)] * 120 + [Node(length)], 500),
    }
    for name, bits in others.items():
        report(f"exact bits: {name}", torch.equal(bits, alone), "")


@jit
def _product(
    a: Arg, b: Arg, out: Arg, M: constexpr, N: constexpr, K: constexpr
) -> None:
    m, n, k = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + n[:, None] * K + k[None, :])
    tl.store(out + m[:, None] * N + n[None, :], dot(left, tl.trans(right)))


def check_instructions(report: Report) -> None:
    """Exact mode rests on this: a product of 16 rows (mma.sync) has the bits of one of 64 or 128 (wgmma)."""
    for k in (16, 64, 128):
        for spread in (0, 12):
            a, b = (torch.randn(16384, k, device="cuda") for _ in range(2))
            a, b = ((x * torch.exp2(torch.randn_like(x) * spread)).bfloat16() for x in (a, b[:64]))
            found = [torch.full((16384, 64), torch.nan, device="cuda") for _ in range(3)]
            for out, m in zip(found, (16, 64, 128), strict=True):
                _product[(16384 // m,)](a, b, out, M=m, N=64, K=k, num_warps=8 if m == 128 else 4)
            other = sum(int((out.view(torch.int32) != found[0].view(torch.int32)).sum()) for out in found[1:])
            report(f"bits of 16, 64 and 128 rows, K = {k}, spread {spread}", other == 0, f"{other} values differ")


def run(report: Report) -> None:
    torch.manual_seed(0)
    check_forests(report)
    check_fp8(report)
    check_drafts(report)
    check_bits(report)
    check_instructions(report)
