"""Checked mode: codes instead of reads outside a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from espalier.kernels import checked, next_row
from espalier.kernels.base import KernelError
from espalier.kernels.sampling import launch
from espalier.kernels.sampling.check import Fault
from espalier.kernels.sampling.edit import Edits, edit
from espalier.kernels.sampling.work import Ask, Columns, Workspace

from .test_sample import masks_of, picks_of

VOCABULARY = 100


def codes(rows: list[dict[str, Any]], *, flat: bool = False, lists: bool = False) -> tuple[list[int], list[int]]:
    """(error, token) of draws from three rows, the last of which holds a NaN, under the masks: all, none, only token 3
    (whose logit is -inf)."""
    logits = torch.randn(3, VOCABULARY)
    logits[:, 3], logits[2, 9] = -torch.inf, torch.nan
    allowed = np.zeros((2, VOCABULARY), bool)
    allowed[1, 3] = True
    defaults = {"row": 0, "mask": 0, "target": -1, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    picks = picks_of(len(rows), **{name: [row.get(name, value) for row in rows] for name, value in defaults.items()})
    made = {name: getattr(picks, name) for name in picks.__slots__}
    columns = Columns.of(made | {"flat": launch.flat_of(made)}, logits.device)
    work = Workspace.allocate(len(rows), VOCABULARY, logits.device)
    work.error.fill_(-1)
    launch.draw(logits, torch.from_numpy(masks_of(allowed)), columns, work, Ask(lists, flat, checked=True))
    return work.error.tolist(), work.token.tolist()


@pytest.mark.parametrize(("row", "fault"), [
    ({"row": 3}, Fault.ROW), ({"row": -1}, Fault.ROW), ({"mask": 3}, Fault.MASK), ({"mask": -9}, Fault.MASK),
    ({"target": 100}, Fault.TOKEN), ({"mask": 1}, Fault.EMPTY_MASK | Fault.NO_TOKEN), ({"mask": 2}, Fault.NO_TOKEN),
    ({"temperature": -1.0}, Fault.PARAMETER), ({"temperature": np.nan}, Fault.PARAMETER),
    ({"temperature": np.inf}, Fault.PARAMETER), ({"top_p": 1.5}, Fault.PARAMETER), ({"top_p": np.nan}, Fault.PARAMETER),
    ({"min_p": -0.1}, Fault.PARAMETER), ({"top_k": -2}, Fault.PARAMETER),
    ({"row": 7, "mask": 9}, Fault.ROW | Fault.MASK),
])
def test_a_fault_is_a_code_and_spoils_its_row_alone(row: dict[str, Any], fault: Fault) -> None:
    error, token = codes([{}, row, {"row": 2}], flat=True, lists=True)
    assert error == [0, fault, Fault.NAN]
    assert token[1] == -1
    assert min(token[0], token[2]) >= 0


def test_padding_bits_allow_nothing() -> None:
    logits, masks = torch.zeros(1, 33), torch.tensor([[-1, 1], [0, -2]], dtype=torch.int32)
    picks = picks_of(1, mask=1)
    columns = Columns.of({name: getattr(picks, name) for name in picks.__slots__} | {"flat": np.zeros(1, np.int32)},
                         logits.device)
    work = Workspace.allocate(1, 33, logits.device)
    launch.draw(logits, masks, columns, work, Ask(False, False, checked=True))
    assert work.error.tolist() == [Fault.EMPTY_MASK | Fault.NO_TOKEN]


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


@pytest.mark.parametrize(("row", "token", "named"), [(2, 0, "row"), (0, 64, "token"), (-1, -1, "")])
def test_a_transition_outside_its_table_is_for_the_host_and_named(row: int, token: int, named: str) -> None:
    error, out = checked.clear(torch.device("cpu")), ints(-9, -9)
    keeps = torch.full((2, 2), -1, dtype=torch.int32)
    next_row.on_device(ints(row, 1), ints(token, 63), keeps, ints(0, 0, 0), ints(0), ints(0), out, error=error)
    assert out.tolist() == [-1, 1]
    if named:
        with pytest.raises(KernelError, match=f"a {named} is outside"):
            checked.raise_error(error)
    else:
        checked.raise_error(error)


@pytest.mark.parametrize("token", [100, -1, 10**9])
def test_an_edit_outside_the_vocabulary_changes_nothing_and_is_named(token: int) -> None:
    logits, error, one = torch.randn(2, 100), checked.clear(torch.device("cpu")), torch.ones(2)
    none = ints(0, 0)
    edits = Edits(ints(0, 1, 2), ints(token, 7), torch.tensor([5.0, 5.0]), none, none, one, 0 * one, 0 * one)
    edited = edit(logits, ints(0, 1), edits, error=error)
    logits[1, 7] += 5
    assert torch.equal(edited, logits)
    with pytest.raises(KernelError, match="a token is outside the vocabulary"):
        checked.raise_error(error)
