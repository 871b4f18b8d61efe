"""Exact attention on the device: what it rests on, its bits in any batch, and its results against float64."""

from __future__ import annotations

from collections.abc import Callable

import torch

from espalier.kernels.jit import Arg, constexpr, dot, jit, tl
from espalier.kernels.paged import Score
from tests.kernels.forests import Forest, Node

from .attention import DIM, GROUPS, KV_HEADS, attended, check_drafts, check_forests, check_fp8, check_heads, queries

Report = Callable[[str, bool, str], None]


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


def check_bits(report: Report) -> None:
    """The last token of one row: alone, extended, below shared prefixes, beside others, cut finely or not."""
    length, page = 2222, 16
    keys, values = (torch.randn(KV_HEADS, length, DIM, device="cuda").bfloat16() for _ in range(2))
    asked = torch.randn(64, GROUPS * KV_HEADS, DIM, device="cuda").bfloat16()

    def last(trees: list[Node], programs: int) -> torch.Tensor:
        forest = Forest.of(trees, page)
        k, v = (forest.pool(KV_HEADS, DIM, torch.bfloat16, "cuda") for _ in range(2))
        row = next(row for row in forest.rows if row.kv_len == length)
        for begin in range(0, length, page):
            end, at = min(begin + page, length), forest.tables[row.slot][begin // page]
            k[at, :, : end - begin], v[at, :, : end - begin] = keys[:, begin:end], values[:, begin:end]
        q = queries(forest)
        q[row.q_begin : row.q_end] = asked[-row.q_len :]
        return attended(forest, q, k, v, Score(DIM**-0.5), exact=True, programs=programs)[row.q_end - 1]

    alone = last([Node(length)], 1)
    others = {
        "cut finely": last([Node(length)], 1000), "extended by 64": last([Node(length, tokens=64)], 1),
        "below a prefix": last([Node(1600, (Node(20), Node(length - 1600), Node(5)))], 1000),
        "two levels": last([Node(48, (Node(9), Node(1008, (Node(length - 1056), Node(40, tokens=9)))))], 1),
        "beside others": last([Node(700)] * 9 + [Node(length)] + [Node(64, (Node(100),) * 30)], 500),
        "in a crowd": last([Node(700)] * 240 + [Node(length)], 1),
        "in a crowd, cut": last([Node(700)] * 240 + [Node(length)], 1000),
    }
    for name, bits in others.items():
        report(f"exact bits: {name}", torch.equal(bits, alone), "")


def run(report: Report) -> None:
    torch.manual_seed(0)
    check_instructions(report)
    check_bits(report)
    check_forests(report, exact=True, window=0)
    check_fp8(report, exact=True)
    check_drafts(report, exact=True)
    check_heads(report, exact=True, dims=(64, 256))
