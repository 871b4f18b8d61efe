from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.kernels import plan_items
from espalier.kernels.attention_tiles import Tile, Tiles
from espalier.kernels.base import KernelError
from espalier.kernels.checked import FOREST, ROOM
from espalier.kernels.cut import Cut
from espalier.kernels.items import Item, Plan, Row, Segment
from espalier.kernels.packed_step import PackedStep
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.paged_attention import attend, reference

from .forests import Forest, Node
from .test_items import covered, token_slot

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TILES = Tiles(Tile(16, 64, 4, 2), Tile(64, 64, 4, 2))
ROWS, TOKENS = 16, 40


def leaves(slots: st.SearchStrategy[int]) -> st.SearchStrategy[Node]:
    """Decoded, extended, drafted, computed again in full, and without keys."""
    return st.builds(
        lambda slots, tokens, draft: Node(slots, tokens=min(slots, tokens) or 1, draft=min(slots, draft)),
        slots, st.sampled_from((1, 1, 1, 5, 40)), st.sampled_from((0, 0, 3)))


LEAVES = leaves(st.sampled_from((0, 1, 17, 65, 700, 1300)))
TREES = st.recursive(LEAVES, lambda below: st.builds(
    Node, st.sampled_from((0, 16, 64, 320, 1120, 17600)), st.lists(below, min_size=1, max_size=4).map(tuple)),
    max_leaves=5)
FORESTS = st.lists(TREES, min_size=1, max_size=3)
CUTS = st.builds(
    Cut, groups=st.sampled_from((1, 3, 4, 8, 24, 64)), kv_heads=st.sampled_from((1, 2, 8)),
    least=st.sampled_from((1, 60, 400)), most=st.sampled_from((1, 60, 400)), wide=st.just(64),
    window=st.sampled_from((0, 0, 64, 600)), exact=st.booleans(), parts=st.sampled_from((1 << 16, 1 << 16, 90)),
    counts=st.sampled_from(((1 << 20, 1 << 20), (12, 30))))


def packed(rows: list[Row], segments: list[Segment]) -> tuple[torch.Tensor, torch.Tensor]:
    """On the device, with room for more of both."""
    return tuple(
        torch.tensor([*(record.packed() for record in records), *[(0,) * 8] * 3], dtype=torch.int32, device=DEVICE)
        for records in (rows, segments))  # type: ignore[return-value]


def room(tokens: int, counts: tuple[int, int] = (4000, 4000)) -> tuple[Work, torch.Tensor]:
    work = Work.room(tokens=tokens, counts=counts, q_heads=4, head_dim=64, device=DEVICE, size=1 << 20)
    for scratch in (work.items, work.n_items, work.part_begin):
        scratch.fill_(-7)
    work.part_o.fill_(torch.nan)
    work.part_ml.fill_(torch.nan)
    return work, torch.zeros(1, dtype=torch.int32, device=DEVICE)


def planned(rows: list[Row], segments: list[Segment], cut: Cut, tokens: int, op: object) -> tuple[object, ...]:
    """All that an implementation writes."""
    work, error = room(tokens)
    op(*packed(rows, segments), cut, work, error)  # type: ignore[operator]
    counts = work.n_items.tolist()
    return (int(error), work.part_begin.tolist(),
            *(work.items[bin_, :count].tolist() for bin_, count in enumerate(counts)))


def checked(*args: object) -> None:
    plan_items.on_device(*args, checked=True)  # type: ignore[arg-type]


@settings(max_examples=14)
@given(trees=FORESTS, cut=CUTS)
def test_the_device_plans_what_plain_ints_plan(trees: list[Node], cut: Cut) -> None:
    forest = Forest.of(trees, 16)
    args = forest.rows, forest.segments, cut, forest.tokens + 5
    assert planned(*args, checked) == planned(*args, plan_items.reference)


@pytest.mark.parametrize("groups", [1, 4, 8, 16, 24, 32, 64, 71, 128])
def test_any_number_of_query_heads_that_a_wide_tile_holds_can_be_planned(groups: int) -> None:
    forest = Forest.of([Node(64, (Node(17, tokens=5), Node(33))), Node(700, tokens=40)], 16)
    args = forest.rows, forest.segments, Cut(groups=groups, kv_heads=1, least=10, most=30), forest.tokens + 5
    code, _, narrow, wide = ours = planned(*args, checked)
    assert ours == planned(*args, plan_items.reference)
    assert (code, bool(narrow)) == (0, groups <= 16)
    assert all((item[3] - item[2]) * groups <= 128 for item in wide)  # type: ignore[attr-defined]


@settings(max_examples=5)
@given(trees=FORESTS, cut=CUTS)
def test_every_token_meets_every_visible_slot_once(trees: list[Node], cut: Cut) -> None:
    forest = Forest.of(trees, 16)
    cut = replace(cut, parts=1 << 16, counts=(1 << 20, 1 << 20))
    error, part_begin, *bins = planned(forest.rows, forest.segments, cut, forest.tokens, plan_items.on_device)
    narrow, wide = (tuple(Item(*record) for record in found) for found in bins)  # type: ignore[attr-defined]
    seen = covered(forest, Plan(narrow, wide, part_begin))  # type: ignore[arg-type]
    assert error == 0
    assert not seen or max(seen.values()) == 1
    for row in forest.rows:
        for token in range(row.q_begin, row.q_end if row.kv_len else row.q_begin):
            last = token_slot(row, token)
            low = max(0, last + 1 - cut.window) if cut.window else 0
            assert all(seen[token, slot] for slot in range(low, last + 1)), (row, token)


def test_one_bin_is_cut_more_coarsely_where_the_other_is_whole() -> None:
    forest = Forest.of([Node(17), Node(1300, tokens=40)], page=16)
    cut = Cut(groups=1, kv_heads=1, least=1, most=400, wide=64, exact=True, parts=90)
    args = forest.rows, forest.segments, cut, 41
    code, part_begin, *_ = ours = planned(*args, plan_items.on_device)
    assert ours == planned(*args, plan_items.reference)
    assert (code, part_begin[-1]) == (0, 80)  # type: ignore[index]


def test_where_parts_have_no_room_nothing_is_planned() -> None:
    forest = Forest.of([Node(64, (Node(16), Node(16)))], page=16)
    cut = Cut(groups=1, kv_heads=1, least=1, parts=3)
    for op in (plan_items.on_device, plan_items.reference):
        assert planned(forest.rows, forest.segments, cut, 2, op) == (ROOM, [0, 0, 0], [], [])


@pytest.mark.parametrize(("rows", "segments"), [
    ([Row(0, 0, 1, 16, 0, 0, 0)], [Segment(0, 32, 0, 1, -1, 0)]),
    ([Row(0, 0, 1, 16, 0, 0, 0), Row(1, 2, 1, 16, 0, 0, 1)],
     [Segment(0, 16, 0, 1, -1, 0), Segment(0, 16, 1, 2, -1, 1)]),
    ([Row(0, 0, 1, 100, 0, 65, 0)], [Segment(0, 100, 0, 1, -1, 0)]),
    ([Row(0, 0, 1, 48, 0, 0, 1)], [Segment(0, 16, 0, 1, -1, 0), Segment(32, 48, 0, 1, 0, 0)]),
    ([Row(0, 0, 1, 16, 0, 0, 0)], [Segment(0, 16, 0, 1, 0, 0)]),
    ([Row(0, 0, 1, 20, 0, 0, 1)], [Segment(0, 9, 0, 1, -1, 0), Segment(9, 20, 0, 1, 0, 0)]),
], ids=["ends elsewhere", "a token between rows", "65 drafts", "a gap below the parent", "its own parent",
        "inside a page"])
def test_what_is_no_forest_is_found_where_it_is_looked_for(rows: list[Row], segments: list[Segment]) -> None:
    cut = Cut(groups=1, kv_heads=1, least=1, page=16)
    for op in (checked, plan_items.reference):
        assert planned(rows, segments, cut, 3, op) == (FOREST, [0, 0, 0, 0], [], [])


def test_sizes_that_do_not_fit_together_are_refused() -> None:
    rows, segments = packed([Row(0, 0, 1, 16, 0, 0, 0)], [Segment(0, 16, 0, 1, -1, 0)])
    work, error = room(1)
    for changed, message in (
        ((rows[:, :7], segments, Cut(groups=1, kv_heads=1), work, error), "8 words"),
        ((rows, segments, Cut(groups=129, kv_heads=1), work, error), "129 query heads share a KV head, .* 1 to 128"),
    ):
        with pytest.raises(KernelError, match=message):
            plan_items.on_device(*changed)


STEPS = {
    "decode": [Node(15), Node(200), Node(64), Node(17)],
    "a tree, extended": [Node(64, (Node(63, tokens=20), Node(17, tokens=17), Node(0)))],
}


def test_a_step_over_other_rows_needs_nothing_of_the_host_but_their_ints() -> None:
    """The same tensors, sizes and grid for every step, as in a captured graph; zeros where no row is."""
    torch.manual_seed(0)
    buffer = PackedStep(rows=ROWS, tokens=TOKENS, changes=8, device=DEVICE)
    table = torch.zeros((ROWS, 32), dtype=torch.int32, device=DEVICE)
    work, error = room(TOKENS, (8, 5))
    cut = Cut(groups=2, kv_heads=2, narrow=16, wide=64, least=40, most=20)
    for trees in STEPS.values():
        forest = Forest.of(trees, 16)
        table[: len(forest.rows), : forest.block_table().shape[1]] = forest.block_table()
        buffer.fill(forest.rows, forest.segments)
        buffer.send()
        step = buffer.step(table)
        q = torch.randn(TOKENS, 4, 64, device=DEVICE)
        k, v = (forest.pool(2, 64, torch.float32, str(DEVICE)) for _ in range(2))
        out = torch.full_like(q, torch.nan)
        plan_items.on_device(step.rows, step.segments, cut, work, error)
        attend(q, k, v, step, work, Score(0.125), out=out, tiles=TILES)
        used = Step.of(forest.rows, forest.segments, table)
        expected = reference(q[: forest.tokens], k, v, used, Score(0.125))
        torch.testing.assert_close(out[: forest.tokens], expected, rtol=2e-5, atol=2e-5)
        assert not out[forest.tokens :].any()
    assert not int(error)
