from __future__ import annotations

from pathlib import Path

import pytest
import torch

from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import InvalidParameter
from espalier.runtime.models.load import load_model


@pytest.mark.parametrize("fields", [
    {"device": "tpu"}, {"device": "cuda", "dtype": "float32", "exact": True}, {"dtype": "bfloat16", "exact": True},
])
def test_a_device_that_cannot_serve_is_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match=r"device|exact"):
        EngineConfig(**fields)  # type: ignore[arg-type]


def test_exact_mode_computes_in_float32_on_the_cpu_and_in_bfloat16_on_a_gpu() -> None:
    assert EngineConfig(exact=True, dtype="float32").exact
    assert EngineConfig(exact=True, device="cuda").exact


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_before_the_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="CUDA"):
        load_model(tmp_path / "none.gguf", EngineConfig(device="cuda"))
