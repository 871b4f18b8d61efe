from __future__ import annotations

import pytest
import torch

from espalier.kernels.merge_parts import MANY, launch, reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def parts_of(counts: list[int], heads: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    begin = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)
    part_o, mass = torch.randn(int(begin[-1]), heads, dim), torch.rand(int(begin[-1]), heads) + 0.1
    top = torch.randn(int(begin[-1]), heads) * 5
    empty = torch.rand(int(begin[-1]), heads) < 0.3
    top[empty], mass[empty], part_o[empty] = -torch.inf, 0.0, 0.0
    return part_o.to(DEVICE), torch.stack((top, mass), -1).to(DEVICE), begin.to(DEVICE)


@pytest.mark.parametrize(("counts", "dim"), [([2, 0, 5, 1], 64), ([17], 80), ([3, 3], 256)])
def test_parts_are_weighted_by_their_masses(counts: list[int], dim: int) -> None:
    torch.manual_seed(0)
    parts = parts_of(counts, 3, dim)
    ours, expected = (torch.full((len(counts), 3, dim), torch.nan, device=DEVICE) for _ in range(2))
    launch(*parts, ours)
    reference(*parts, expected)
    torch.testing.assert_close(ours, expected, equal_nan=True)
    assert ours[1:].isnan().any() == (0 in counts), "a token without parts is left to who writes it"


def test_parts_that_saw_nothing_change_no_bit() -> None:
    torch.manual_seed(0)
    part_o, part_ml, _ = parts_of([3], 1, 64)
    part_ml[..., 0], part_ml[..., 1] = torch.randn(3, 1), 1.0
    alone, among = torch.empty(1, 1, 64, device=DEVICE), torch.empty(1, 1, 64, device=DEVICE)
    launch(part_o[:2], part_ml[:2], torch.tensor([0, 2], dtype=torch.int32, device=DEVICE), alone)
    empty_o, empty_ml = torch.zeros(1, 1, 64, device=DEVICE), torch.tensor([[[-torch.inf, 0.0]]], device=DEVICE)
    launch(torch.cat((empty_o, part_o[:1], empty_o, part_o[1:2], empty_o)),
           torch.cat((empty_ml, part_ml[:1], empty_ml, part_ml[1:2], empty_ml)),
           torch.tensor([0, 5], dtype=torch.int32, device=DEVICE), among)
    assert torch.equal(alone, among)


def test_many_tokens_share_a_program_for_their_heads() -> None:
    torch.manual_seed(0)
    counts = [0] * MANY + [2, 3]
    parts = parts_of(counts, 2, 64)
    ours, expected = (torch.zeros(len(counts), 2, 64, device=DEVICE) for _ in range(2))
    launch(*parts, ours)
    reference(*parts, expected)
    torch.testing.assert_close(ours, expected)
