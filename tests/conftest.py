from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from espalier.runtime.catalogue import resolve

# The same examples in every run of the suite, so that a failure is the change's own; `make soak` draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("soak", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The small real model, fetched once through the catalogue."""
    return resolve("smollm2-135m")
