from __future__ import annotations

from pathlib import Path

import pytest

from espalier.runtime.catalogue import resolve


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The small real model, fetched once through the catalogue."""
    return resolve("smollm2-135m")
