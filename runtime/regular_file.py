"""Files of a model are opened without waiting, and only when they are regular ones."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import WeightsError


@contextmanager
def opened(path: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its bytes. Raises WeightsError when it is not regular or cannot be read."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise WeightsError("not a regular file", where=str(path))
            yield file, found.st_size
    except OSError as error:
        raise WeightsError(f"the file cannot be read: {error.strerror}", where=str(path)) from error


def _without_waiting(path: str, flags: int) -> int:
    """A pipe without a writer must be refused, not waited for."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
