from __future__ import annotations

import numpy as np
import pytest
import torch

from espalier.kernels import change_table
from espalier.kernels.base import KernelError
from espalier.kernels.checked import TABLE
from espalier.kernels.packed_step import PackedStep
from espalier.kernels.paged import Step

from .forests import Forest, Node

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DRAFTED = [Node(32, (Node(33, tokens=9, draft=5), Node(1))), Node(0)]


def buffer(*, rows: int = 8, tokens: int = 16, changes: int = 3) -> PackedStep:
    return PackedStep(rows=rows, tokens=tokens, changes=changes, device=DEVICE)


def test_the_device_sees_the_step_that_was_sent() -> None:
    packed, table = buffer(), torch.zeros((8, 4), dtype=torch.int32, device=DEVICE)
    step = packed.step(table, drafts=True)
    for trees in (DRAFTED, [Node(70, tokens=12)]):
        forest = Forest.of(trees, 16)
        packed.fill(forest.rows, forest.segments, draft_bits=forest.draft_bits().numpy())
        packed.send()
        expected = Step.of(forest.rows, forest.segments, table, draft_bits=forest.draft_bits())
        used = forest.tokens
        for ours, theirs in ((step.q_slot[:used], expected.q_slot), (step.pos[:used], expected.pos),
                             (step.draft_bits[:used], expected.draft_bits),
                             (step.rows[: len(forest.rows)], expected.rows),
                             (step.segments[: len(forest.segments)], expected.segments)):
            assert torch.equal(ours.cpu(), theirs.cpu())


def test_a_row_without_keys_has_the_tokens_that_are_left() -> None:
    forest, packed = Forest.of([Node(70, tokens=12)], 16), buffer()
    packed.fill(forest.rows, forest.segments)
    packed.send()
    step = packed.step(torch.zeros((8, 4), dtype=torch.int32, device=DEVICE))
    assert step.rows[1].tolist() == [0, 12, 4, 0, 0, 0, 1, 0]
    assert step.segments[1].tolist() == [0, 0, 1, 2, -1, 0, 0, 0]
    assert not step.rows[2:].any()
    assert not step.segments[2:].any()
    assert step.q_slot[12:].tolist() == [-1] * 4


@pytest.mark.parametrize(("sizes", "message"), [
    ({"rows": 2}, "a step of 4 rows, there is room for 2"), ({"tokens": 8}, "a step of 11 tokens"),
    ({"changes": 1}, "a step of 2 changes"),
])
def test_a_step_that_has_no_room_is_refused(sizes: dict[str, int], message: str) -> None:
    forest = Forest.of(DRAFTED, 16)
    with pytest.raises(KernelError, match=message):
        buffer(**sizes).fill(forest.rows, forest.segments, [(0, 0, 1), (0, 1, 2)])


@pytest.mark.parametrize("op", [change_table.reference, change_table.on_device])
def test_changes_put_pages_into_the_table(op: object) -> None:
    packed, table = buffer(changes=600), torch.full((50, 20), 7, dtype=torch.int32, device=DEVICE)
    changes = np.stack(np.unravel_index(np.random.default_rng(0).permutation(1000)[:500], (50, 20)), 1).tolist()
    packed.fill([], [], [(slot, index, 100 + i) for i, (slot, index) in enumerate(changes)])
    packed.send()
    op(table, packed.changes)  # type: ignore[operator]
    expected = np.full((50, 20), 7)
    for i, (slot, index) in enumerate(changes):
        expected[slot, index] = 100 + i
    assert table.tolist() == expected.tolist()


@pytest.mark.parametrize("change", [(2, 0, 5), (0, 3, 5), (0, -1, 5), (-2, 0, 5)])
def test_a_change_outside_the_table_is_not_made(change: tuple[int, int, int]) -> None:
    table, error = (torch.zeros(shape, dtype=torch.int32, device=DEVICE) for shape in ((2, 3), (1,)))
    changes = torch.tensor([(1, 1, 4), change], dtype=torch.int32, device=DEVICE)
    with pytest.raises(KernelError, match="outside the block table"):
        change_table.reference(table, changes)
    change_table.on_device(table, changes, error=error)
    assert table.tolist() == [[0, 0, 0], [0, 4, 0]]
    assert int(error) == TABLE
