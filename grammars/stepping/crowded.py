"""A text with more readings than are followed: only those nearest to its end stay.

What is left out narrows what may follow, and never ends an answer: the reading that its distance was told of stays.
Where items were written that others must not equal, that need not be among the nearest, and is searched first.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import TEXT
from ..binding.context import CONTEXT_TYPE, counts_of, report_of, threads_of
from ..binding.tables import FAR
from ..jit import inner
from .another import ANY, closest
from .nearest import nearest
from .walk import CLOSEST

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _within(context, low, high, cost):  # type: ignore[no-untyped-def]
    """How many of threads[low:high] have U <= cost."""
    found = 0
    for k in range(low, high):
        found += 1 if nearest(context, k, k + 1, 1) <= cost else 0
    return found


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _keep_within(context, low, high, most):  # type: ignore[no-untyped-def]
    """Keeps the `most` nearest of threads[low:high], which are more, from low on in their order; of equally near ones
    the first. Items that were written play no part. Returns their end."""
    threads, kept = threads_of(context), low
    near, far = _i8(-1), nearest(context, low, high, 1)  # fewer than `most` within near
    step = _i8(1)
    while _within(context, low, high, far) < most:
        near, far, step = far, far + step, 2 * step
    while far - near > 1:
        middle = (near + far) // 2
        if _within(context, low, high, middle) < most:
            near = middle
        else:
            far = middle
    ties = most - _within(context, low, high, near)
    for k in range(low, high):
        cost = nearest(context, k, k + 1, 1)
        if cost < far or (cost == far and ties > 0):
            ties -= 1 if cost == far else 0
            for c in range(5):
                threads[kept, c] = threads[k, c]
            kept += 1
    return kept


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _bring_living(context, count, most):  # type: ignore[no-untyped-def]
    """Puts in front of threads[:count] those that leave another item to write and are the nearest to an end: by what
    searches find, and by what distances say, when there is room for two. Returns how many, -1 in trouble."""
    threads, front = threads_of(context), 0
    for limit in (ANY - 1, ANY):
        found = closest(context, count, _i8(limit))
        if found < 0:
            return _i8(-1)
        at = _i8(report_of(context)[CLOSEST])
        if found < _FAR and front <= at and front < most:
            for c in range(5):
                threads[front, c], threads[at, c] = threads[at, c], threads[front, c]
            front += 1
    return _i8(front)


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def keep_nearest(context, count, most):  # type: ignore[no-untyped-def]
    """Keeps `most` of threads[:count], which are more. Returns how many, 0 when none can end, -1 in trouble."""
    if counts_of(context)[TEXT] == 0:
        return _keep_within(context, _i8(0), count, most)
    front = _bring_living(context, count, most)
    if front <= 0 or front == most:
        return front
    return _keep_within(context, front, count, most - front)
