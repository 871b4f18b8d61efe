from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from espalier.runtime.gguf import GGUFFile
from espalier.runtime.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """What another implementation computes with the small model."""
    path = Path(__file__).parents[1] / "data" / "smollm2_reference.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(GGUFFile.open(smollm2_path))
