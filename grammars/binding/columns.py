"""How a path through a rule moves from column to column of its distances (tables.py names the columns)."""

from __future__ import annotations

from numba import types

from ..ir import KEY, NEXT_KEY, NOTHING, OPEN_KEY
from ..jit import inner
from .flat import COUNTER
from .tables import HIGH, LOW, PLATEAU

_i8, _i44, _i4 = types.int64, types.int32[:, ::1], types.int32[::1]


@inner(_i8(_i8, _i8, _i8, _i4, _i4))
def next_column(kind, action, column, bounds, following):  # type: ignore[no-untyped-def]
    """The column after an action, or -1. bounds: the row of Tables.rules; following: its next_required."""
    low = bounds[LOW]
    if action == NOTHING:
        return column
    if kind == COUNTER:
        high, plateau = bounds[HIGH], bounds[PLATEAU]
        if column < low or (high >= 0 and column >= low and not (column == low and plateau > low)):
            last = low if high < 0 else low + high - plateau
            return column + 1 if column < last else _i8(-1)
        return column
    after = following[min(column, low)]
    if action >= KEY:
        j = action - KEY
        return j + 1 if column <= j and after >= j else _i8(-1)
    if action in (OPEN_KEY, NEXT_KEY):
        return _i8(low) if column <= low and after >= low else _i8(-1)
    return column
