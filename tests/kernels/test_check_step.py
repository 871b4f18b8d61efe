"""Checked attention: a step that names what is not there leaves a code, and nothing is read or computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from espalier.kernels import check_step, checked, paged_attention
from espalier.kernels.attention_tiles import tiles_for
from espalier.kernels.base import KernelError
from espalier.kernels.cut import Cut
from espalier.kernels.paged import Score, Step, Work
from espalier.kernels.planner import plan

from .forests import Forest, Node

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TREES = [Node(32, (Node(1), Node(17, tokens=5))), Node(200)]


def row(index: int, column: int, value: int) -> Callable[[Step], Step]:
    def change(step: Step) -> Step:
        rows = step.rows.clone()
        rows[index, column] = value
        return replace(step, rows=rows)

    return change


def page(place: int, value: int) -> Callable[[Step], Step]:
    def change(step: Step) -> Step:
        table = step.block_table.clone()
        table[2, place] = value
        return replace(step, block_table=table)

    return change


def segment(index: int, begin: int) -> Callable[[Step], Step]:
    def change(step: Step) -> Step:
        segments = step.segments.clone()
        segments[index, 0] = begin
        return replace(step, segments=segments)

    return change


def seat(step: Step) -> Step:
    q_slot = step.q_slot.clone()
    q_slot[-1] = 5000
    return replace(step, q_slot=q_slot)


FAULTS = [
    ("a slot that is not there", row(0, 0, 99), "a row"), ("a negative slot", row(1, 0, -1), "a row"),
    ("more tokens than there are", row(1, 2, 1 << 30), "a row"), ("a negative count", row(1, 2, -1), "a row"),
    ("longer than its pages", row(2, 3, 1 << 20), "a position"), ("negative length", row(2, 3, -5), "a position"),
    ("a page behind the pool", page(0, 1 << 24), "a page"), ("a negative page", page(12, -1), "a page"),
    ("a token behind the end", seat, "a position"), ("a segment inside a page", segment(1, 33), "inside a page"),
]


def attended(change: Callable[[Step], Step], *, exact: bool = False) -> tuple[torch.Tensor, torch.Tensor, Work, Step]:
    torch.manual_seed(0)
    forest = Forest.of(TREES, 16, 0)
    q = torch.randn(forest.tokens, 4, 64, device=DEVICE)
    k, v = (forest.pool(2, 64, torch.float32, str(DEVICE)) for _ in range(2))
    step = Step.of(forest.rows, forest.segments, forest.block_table(str(DEVICE)))
    tiles = tiles_for(64, exact=exact)
    cut = Cut(groups=2, kv_heads=2, least=1, most=1, narrow=tiles.narrow.m, wide=tiles.wide.m, exact=exact)
    work = Work.of(plan(forest.rows, forest.segments, cut), q_heads=4, head_dim=64, device=DEVICE)
    error = checked.clear(DEVICE)
    out = paged_attention.attend(q, k, v, change(step), work, Score(0.125), exact=exact, tiles=tiles, error=error)
    if not int(error):
        torch.testing.assert_close(out, paged_attention.reference(q, k, v, step, Score(0.125)), rtol=2e-5, atol=2e-5)
    on_cpu = checked.clear(DEVICE)
    check_step.reference(change(step), k.shape[0], 16, on_cpu)
    assert int(on_cpu) == int(error)
    return out, error, work, step


@pytest.mark.parametrize(("change", "said"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_leaves_its_code_and_nothing_is_computed(change: Callable[[Step], Step], said: str) -> None:
    out, error, work, _ = attended(change)
    assert not out.any()
    assert work.n_items.tolist() == [0, 0]
    with pytest.raises(KernelError, match=said):
        checked.raise_error(error)


def test_a_sound_step_is_attention_as_ever() -> None:
    _, error, work, _ = attended(lambda step: step)
    checked.raise_error(error)
    assert work.n_items.sum() > 0
