"""Arrays in a context: compiled code finds them where they lie, and none of another kind is handed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from espalier.grammars.binding.context import FINISHED, Context
from espalier.grammars.masks.finished import _Arrays


def arrays() -> _Arrays:
    """Of the part FINISHED."""
    return _Arrays(np.zeros((3, 7), np.int64), np.zeros(5, np.int64), np.zeros(4, np.int32), np.zeros((0, 2), np.int32),
                   np.zeros(2, np.int64), np.zeros(6, np.int64))


def told(context: Context) -> list[list[int]]:
    """(address, lengths) of each array."""
    return np.asarray(context._numbers[: FINISHED.end]).reshape(-1, 3).tolist()  # type: ignore[no-any-return]


def test_addresses_and_lengths_are_those_of_the_arrays() -> None:
    context, parts = Context(FINISHED.end), arrays()
    context.put(FINISHED, parts)
    assert told(context) == [[part.ctypes.data, *part.shape, 0][:3] for part in parts]


def test_an_array_that_must_not_be_written_to_is_told_the_same() -> None:
    context, parts = Context(FINISHED.end), arrays()
    context.put(FINISHED, parts)
    before = told(context)
    parts.signed.setflags(write=False)
    context.put(FINISHED, parts)
    assert told(context) == before


@pytest.mark.parametrize("wrong", [
    np.zeros((3, 7), np.int32),  # numbers of another width
    np.zeros((3, 6), np.int64),  # other columns
    np.zeros(21, np.int64),  # other axes
    np.zeros((3, 14), np.int64)[:, ::2],  # not in one piece
])
def test_another_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="context must"):
        Context(FINISHED.end).put(FINISHED, arrays()._replace(kept=wrong))


def test_too_few_arrays_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Context(FINISHED.end).put(FINISHED, arrays()[:-1])
