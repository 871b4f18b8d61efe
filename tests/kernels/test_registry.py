from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from espalier.kernels.base import FLOATS, Device, KernelError, Mode
from espalier.kernels.registry import TABLE, Kernels, choose, kernels


@pytest.mark.parametrize(("device", "dtype", "mode"), [
    ("cpu", torch.float32, "fast"), ("cpu", torch.bfloat16, "fast"), ("cpu", torch.float32, "exact"),
    ("cuda", torch.float32, "fast"), ("cuda", torch.bfloat16, "fast"), ("cuda", torch.bfloat16, "exact"),
])
def test_every_op_is_there_for_what_is_supported(device: Device, dtype: torch.dtype, mode: Mode) -> None:
    chosen = kernels(device, dtype, mode)
    assert all(callable(getattr(chosen, op.name)) for op in fields(Kernels))


@pytest.mark.parametrize(("dtype", "mode"), [(torch.bfloat16, "exact"), (torch.float16, "fast")])
def test_what_no_implementation_serves_is_refused_by_name(dtype: torch.dtype, mode: Mode) -> None:
    with pytest.raises(KernelError, match="attend"):
        choose("attend", "cpu", dtype, mode)


def test_the_table_and_the_face_name_the_same_ops() -> None:
    assert {row.op for row in TABLE} == {op.name for op in fields(Kernels)}


def test_no_case_is_served_twice() -> None:
    for row in TABLE:
        for device in row.devices:
            for dtype in FLOATS:
                for mode in row.modes:
                    assert sum(other.serves(row.op, device, dtype, mode) for other in TABLE) <= 1
