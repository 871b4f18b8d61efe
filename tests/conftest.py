from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from espalier.runtime.catalogue import resolve

# The same examples in every run of the suite, so that a failure is the change's own; `make soak` draws new ones.
settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("soak", deadline=None)
settings.load_profile("suite")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite has a process for each core, at most four (each takes up to 2 GB); a file that is named runs in
    this one, which starts sooner and may be looked into by a debugger."""
    if any(".py" in name for name in config.option.file_or_dir):
        return 0
    return min(4, len(os.sched_getaffinity(0)))


def pytest_xdist_setupnodes() -> None:
    """Of torch's threads each process has one, and so have the engines that it starts: more would wait for the other
    process's by spinning."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The small real model, fetched once through the catalogue."""
    return resolve("smollm2-135m")
