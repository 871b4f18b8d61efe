from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.kernels.base import KernelError
from espalier.kernels.cut import Cut
from espalier.kernels.planned_batch import Counts, Heads, attend, padded
from espalier.kernels.planner import plan

from .forests import Forest, Node
from .test_plan_items import FORESTS

CUTS = st.builds(
    Cut, groups=st.sampled_from((1, 3, 4, 8, 24, 64)), kv_heads=st.sampled_from((1, 2, 8)), wide=st.just(64),
    exact=st.booleans())


@settings(max_examples=20)
@given(trees=FORESTS, cut=CUTS)
def test_a_step_can_be_planned_with_the_counts_that_it_is_given(trees: list[Node], cut: Cut) -> None:
    forest = Forest.of(trees, 16)
    counts = Counts.of(forest.rows, forest.segments, cut)
    whole = plan(forest.rows, forest.segments, replace(cut, counts=counts.whole, parts=max(counts.parts, 1)))
    assert len(whole.narrow) <= counts.whole[0]
    assert len(whole.wide) <= counts.whole[1]
    free = plan(forest.rows, forest.segments, cut)
    fine = plan(forest.rows, forest.segments, replace(cut, counts=counts.fine))
    assert fine == free  # as finely as if there were no bound


@settings(max_examples=20)
@given(trees=FORESTS, cut=CUTS, more=st.integers(0, 70))
def test_tokens_that_a_step_does_not_have_are_short_rows_without_keys(trees: list[Node], cut: Cut, more: int) -> None:
    forest = Forest.of(trees, 16)
    rows, segments = padded(forest.rows, forest.segments, forest.tokens + more, 77, cut)
    spare = rows[len(forest.rows):]
    assert (rows[: len(forest.rows)], rows[-1].q_end) == (forest.rows, forest.tokens + more)
    assert sum(row.q_len for row in spare) == more
    assert all((row.slot, row.kv_len) == (77, 0) for row in spare)
    assert all(cut.groups > cut.narrow or not cut.is_wide(row.q_len) for row in spare)
    plan(rows, segments, cut)  # raises for what is no forest


@pytest.mark.parametrize(("fields", "message"), [
    ({"head_dim": 512}, "heads of 512"), ({"page": 48}, "power of two"), ({"q_heads": 1024}, "512 query heads"),
    ({"dtype": torch.float32, "exact": True}, "bfloat16"),
])
def test_heads_that_no_kernel_serves_are_refused(fields: dict[str, object], message: str) -> None:
    served = {"q_heads": 32, "kv_heads": 2, "head_dim": 128, "page": 16, "dtype": torch.bfloat16, "exact": False}
    Heads(**served)  # type: ignore[arg-type]
    with pytest.raises(KernelError, match=message):
        Heads(**(served | fields))  # type: ignore[arg-type]


def test_a_batch_that_was_not_planned_is_refused() -> None:
    q = torch.zeros(1, 2, 8)
    with pytest.raises(KernelError, match="planned"):
        attend(q, q, q, object(), 1.0)  # type: ignore[arg-type]
