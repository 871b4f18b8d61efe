"""Where no GPU is, kernels run interpreted. Triton reads this when a kernel's file is imported, so it is set first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import triton
from triton.language import core
from triton.runtime import interpreter


class _Standing:
    """Of a language that was replaced already: nothing is to be put back."""

    def restore(self) -> None:
        """Whoever replaced it does that."""


def _once(patch: Callable[[FunctionType], Any]) -> Callable[[FunctionType], Any]:
    """The interpreter replaces the functions of Triton's language at each call of a helper too, where a launch has done
    so before: it finds nothing to replace, and looks through four modules to see that. That was 40 % of the time of
    these tests."""

    def patched(function: FunctionType) -> Any:
        used = [value for value in function.__globals__.values() if value is triton.language or value is core]
        if used and not any(core.is_builtin(language.load) for language in used):
            return _Standing()
        return patch(function)

    return patched


if triton.knobs.runtime.interpret:
    interpreter._patch_lang = _once(interpreter._patch_lang)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tiles of 64 are no work for two: the second thread waits for the first by spinning."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
