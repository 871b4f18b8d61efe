from __future__ import annotations

import random

import pytest
import torch

from espalier.kernels import next_row

from .test_sample import masks_of


@pytest.mark.parametrize("seed", range(4))
def test_triton_agrees_with_the_reference(seed: int) -> None:
    draw = random.Random(seed)
    rows, vocabulary, n = 5, 70, 12
    keeps = torch.from_numpy(masks_of(torch.rand(rows - 1, vocabulary).numpy() < 0.2))
    keeps[0] = 0
    edges = [draw.sample(range(vocabulary), draw.choice((0, 3, 60))) for _ in range(rows)]
    begin = torch.tensor([0, *torch.tensor([len(e) for e in edges]).cumsum(0).tolist()], dtype=torch.int32)
    tokens = torch.tensor([t for row in edges for t in row], dtype=torch.int32)
    targets = torch.tensor([draw.randrange(rows) for _ in tokens], dtype=torch.int32)
    row = torch.tensor([draw.randrange(-1, rows) for _ in range(n)], dtype=torch.int32)
    token = torch.tensor([draw.randrange(-1, vocabulary) for _ in range(n)], dtype=torch.int32)
    ours, expected = torch.full((n,), -9, dtype=torch.int32), torch.full((n,), -9, dtype=torch.int32)
    next_row.on_device(row, token, keeps, begin, tokens, targets, ours)
    next_row.reference(row, token, keeps, begin, tokens, targets, expected)
    assert ours.tolist() == expected.tolist()


def test_a_row_may_be_replaced_in_place() -> None:
    keeps = torch.tensor([[0], [0b10]], dtype=torch.int32)
    begin, edge = torch.tensor([0, 1, 1], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    row = torch.tensor([0, 1, 1, 0], dtype=torch.int32)
    token = torch.tensor([3, 1, 0, 2], dtype=torch.int32)
    next_row.on_device(row, token, keeps, begin, edge, torch.tensor([1], dtype=torch.int32), row)
    assert row.tolist() == [1, 1, -1, -1]
