from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from espalier.kernels.attention_tiles import EXACT, Tile, Tiles, tiles_for
from espalier.kernels.base import KernelError
from espalier.kernels.cut import Cut
from espalier.kernels.items import Row, Segment
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend, reference
from espalier.kernels.planner import plan

from .forests import Forest, Node

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAST = Tiles(Tile(16, 64, 4, 2), Tile(64, 64, 4, 2))

FORESTS = {
    "one token alone": [Node(1)],
    "decode, ragged": [Node(15), Node(200), Node(64), Node(17)],
    "no keys": [Node(0), Node(16), Node(0)],
    "extend": [Node(65, tokens=65), Node(63, tokens=17)],
    "extend and decode": [Node(200, tokens=40), Node(65)],
    "shared": [Node(128, (Node(1), Node(17), Node(16)))],
    "shared, extended": [Node(64, (Node(63, tokens=20), Node(17, tokens=17)))],
    "three levels": [Node(32, (Node(64, (Node(1), Node(15))), Node(16, (Node(63), Node(0, (Node(17), Node(2)))))))],
}


def run(
    trees: list[Node], *, groups: int = 2, kv_heads: int = 2, dim: int = 64, page: int = 16, programs: int = 1,
    dtype: torch.dtype = torch.float32, exact: bool = False, score: Score | None = None, seed: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ours over poisoned memory, and the reference."""
    torch.manual_seed(seed)
    forest = Forest.of(trees, page, seed)
    score = Score(dim**-0.5) if score is None else score
    q = torch.randn(forest.tokens, groups * kv_heads, dim, device=DEVICE).to(dtype)
    k, v = (forest.pool(kv_heads, dim, dtype, DEVICE) for _ in range(2))
    drafts = any(row.draft_len for row in forest.rows)
    step = Step.of(forest.rows, forest.segments, forest.block_table(DEVICE),
                   draft_bits=forest.draft_bits().to(DEVICE) if drafts else None)
    tiles = EXACT if exact else FAST
    made = plan(forest.rows, forest.segments, Cut(
        groups=groups, kv_heads=kv_heads, least=programs, most=programs, narrow=tiles.narrow.m, wide=tiles.wide.m,
        window=score.window, exact=exact))
    work = Work.of(made, q_heads=groups * kv_heads, head_dim=dim, device=torch.device(DEVICE))
    work.part_o.fill_(torch.nan)
    work.part_ml.fill_(torch.nan)
    out = torch.full_like(q, torch.nan)
    attend(q, k, v, step, work, score, out=out, exact=exact, tiles=tiles)
    return out, reference(q, k, v, step, score)


def close(ours: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = 2e-5 if ours.dtype == torch.float32 else 1.6e-2
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("exact", "programs"), [(False, 30), (True, 1)])
@pytest.mark.parametrize("trees", FORESTS.values(), ids=FORESTS)
def test_it_is_attention_over_what_each_token_sees(trees: list[Node], exact: bool, programs: int) -> None:
    close(*run(trees, exact=exact, programs=programs))


@pytest.mark.parametrize("name", ["decode, ragged", "three levels"])
def test_it_does_not_matter_how_the_work_is_cut(name: str) -> None:
    close(*run(FORESTS[name], programs=1))
    close(*run(FORESTS[name], exact=True, programs=30))


@pytest.mark.parametrize("dim", [64, 80, 96, 128, 256])
def test_every_head_size(dim: int) -> None:
    close(*run(FORESTS["shared"], dim=dim))


def test_tiles_of_large_heads_are_smaller() -> None:
    assert tiles_for(128, exact=True) is EXACT
    for coded in (False, True):
        large, usual = tiles_for(256, coded=coded), tiles_for(96, coded=coded)
        assert large.wide.m * large.wide.n < usual.wide.m * usual.wide.n
    assert tiles_for(256, exact=True, coded=True).wide.n == 64


@pytest.mark.parametrize("groups", [1, 3, 5, 8, 24])
def test_any_number_of_query_heads_shares_a_kv_head(groups: int) -> None:
    close(*run(FORESTS["extend and decode"], groups=groups, kv_heads=1))


@pytest.mark.parametrize("page", [1, 4, 64])
def test_every_page_size(page: int) -> None:
    close(*run([Node(64, (Node(17), Node(65, tokens=3)))], page=page))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["decode, ragged", "shared, extended"])
def test_half_precision_is_rounded_at_the_end(name: str, dtype: torch.dtype) -> None:
    close(*run(FORESTS[name], dtype=dtype))


@pytest.mark.parametrize(("name", "window", "exact"), [
    ("decode, ragged", 1, False), ("decode, ragged", 40, True), ("decode, ragged", 100, False), ("extend", 40, False),
    ("extend", 100, True), ("shared, extended", 1, True), ("shared, extended", 40, False),
])
def test_a_window_hides_what_lies_before_it(name: str, window: int, exact: bool) -> None:
    close(*run(FORESTS[name], score=Score(0.2, window=window), exact=exact))


@pytest.mark.parametrize("name", ["no keys", "shared, extended", "extend and decode"])
def test_scores_can_be_capped_and_sinks_take_mass(name: str) -> None:
    close(*run(FORESTS[name], score=Score(0.5, soft_cap=3.0)))
    sinks = torch.randn(4, device=DEVICE)
    close(*run(FORESTS[name], score=Score(0.125, sinks=sinks), programs=30))


DRAFTED = [Node(64, (Node(33, tokens=20, draft=17), Node(90, tokens=64, draft=64))), Node(70, tokens=1, draft=1)]


@pytest.mark.parametrize(("exact", "window"), [(False, 64), (True, 0)])
def test_draft_tokens_see_their_own_branch(exact: bool, window: int) -> None:
    close(*run(DRAFTED, exact=exact, score=Score(0.125, window=window)))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn])
def test_eight_bit_keys_and_values_have_a_scale_for_each_slot_and_head(dtype: torch.dtype, exact: bool) -> None:
    torch.manual_seed(0)
    forest = Forest.of(FORESTS["three levels"], 16)
    q = torch.randn(forest.tokens, 4, 64, device=DEVICE)
    k, v = (torch.randint(-127, 128, (forest.pages, 2, 16, 64), device=DEVICE).to(torch.int8) for _ in range(2))
    if dtype == torch.float8_e4m3fn:
        k, v = ((x / 8.0).to(dtype) for x in (k, v))
    scales = [forest.pool(2, 1, torch.float32, DEVICE)[..., 0].abs() / 64 for _ in range(2)]
    step = Step.of(forest.rows, forest.segments, forest.block_table(DEVICE))
    tiles = EXACT if exact else FAST
    made = plan(forest.rows, forest.segments, Cut(
        groups=2, kv_heads=2, narrow=tiles.narrow.m, wide=tiles.wide.m, exact=exact))
    work = Work.of(made, q_heads=4, head_dim=64, device=torch.device(DEVICE))
    score = Score(0.125, k_scale=scales[0], v_scale=scales[1])
    ours = attend(q, k, v, step, work, score, exact=exact, tiles=tiles)
    expected = reference(q, k.float(), v.float(), step, score)
    torch.testing.assert_close(ours, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("programs", [1, 100])
def test_exact_bits_do_not_depend_on_how_the_row_came_to_be(programs: int) -> None:
    """A token decoded alone, at the end of an extend, below a shared prefix and beside others: the same bits."""
    torch.manual_seed(1)
    kv_len, page, dim = 1100, 16, 64
    keys, values = torch.randn(2, kv_len, dim), torch.randn(2, kv_len, dim)
    query = torch.randn(8, 4, dim)
    alone = one_row(query, keys, values, [Node(kv_len)], page, programs)
    assert torch.equal(alone, one_row(query, keys, values, [Node(kv_len, tokens=8)], page, 1))
    shared = [Node(600 // page * page, (Node(20), Node(kv_len - 600 // page * page), Node(5)))]
    assert torch.equal(alone, one_row(query, keys, values, shared, page, programs))


def one_row(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, trees: list[Node], page: int, programs: int,
) -> torch.Tensor:
    """The last token of the row of keys.shape[1] slots."""
    forest = Forest.of(trees, page)
    k, v = (forest.pool(2, keys.shape[2], torch.float32, DEVICE) for _ in range(2))
    row = next(row for row in forest.rows if row.kv_len == keys.shape[1])
    for slot in range(row.kv_len):
        at = forest.tables[row.slot][slot // page]
        k[at, :, slot % page], v[at, :, slot % page] = keys[:, slot].to(DEVICE), values[:, slot].to(DEVICE)
    q = torch.randn(forest.tokens, 4, keys.shape[2], device=DEVICE)
    q[row.q_begin : row.q_end] = query[-row.q_len :].to(DEVICE)
    step = Step.of(forest.rows, forest.segments, forest.block_table(DEVICE))
    made = plan(forest.rows, forest.segments, Cut(
        groups=2, kv_heads=2, least=programs, most=programs, narrow=EXACT.narrow.m, wide=EXACT.wide.m, exact=True))
    work = Work.of(made, q_heads=4, head_dim=keys.shape[2], device=torch.device(DEVICE))
    return attend(q, k, v, step, work, Score(0.125), exact=True, tiles=EXACT)[row.q_end - 1].cpu()


def test_tensors_that_do_not_belong_together_are_refused() -> None:
    forest = Forest.of([Node(16)], 16)
    q, k = torch.randn(1, 4, 64), torch.randn(forest.pages, 2, 16, 64)
    step = Step.of(forest.rows, forest.segments, forest.block_table())
    made = plan(forest.rows, forest.segments, Cut(groups=2, kv_heads=2))
    work = Work.of(made, q_heads=4, head_dim=64, device=torch.device("cpu"))
    for wrong, message in (
        ((q, k, k[:, :1]), "belong together"), ((q[:, :3], k, k), "belong together"),
        ((q, k[:, :, :12], k[:, :, :12]), "power of two"),
    ):
        with pytest.raises(KernelError, match=message):
            attend(*wrong, step, work, Score(0.125))
    with pytest.raises(KernelError, match="at least 64"):
        attend(q, k, k, replace(step, drafts=True), work, Score(0.125, window=8))


def test_a_pool_of_more_than_two_to_the_31_values_is_addressed() -> None:
    """Memory that nobody touches is not there: only the last pages of the pool are."""
    torch.manual_seed(0)
    pages = (1 << 31) // (16 * 64) + 8
    pool = torch.empty((pages, 1, 16, 64), dtype=torch.int8, device=DEVICE)
    pool[-3:] = torch.randint(-100, 100, (3, 1, 16, 64), device=DEVICE).to(torch.int8)
    factors = torch.empty((pages, 1, 16), device=DEVICE)
    factors[-3:] = 0.01
    rows, segments = [Row(0, 0, 1, 40, 40, 0, 0)], [Segment(0, 40, 0, 1, -1, 0)]
    table = torch.tensor([[pages - 1, pages - 3, pages - 2]], dtype=torch.int32, device=DEVICE)
    step, q = Step.of(rows, segments, table), torch.randn(1, 2, 64, device=DEVICE)
    work = Work.of(plan(rows, segments, Cut(groups=2, kv_heads=1)), q_heads=2, head_dim=64,
                   device=torch.device(DEVICE))
    score = Score(0.125, k_scale=factors, v_scale=factors)
    ours = attend(q, pool, pool, step, work, score)
    torch.testing.assert_close(ours, reference(q, pool, pool, step, score), rtol=2e-3, atol=2e-3)
