"""A text with more readings than are followed: only those nearest to its end stay.

What is left out narrows what may follow, and never ends an answer: the reading that its distance was told of stays.
"""

from __future__ import annotations

from numba import types

from ..binding.context import CONTEXT_TYPE, threads_of
from ..jit import inner
from .nearest import nearest

_i8 = types.int64


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _within(context, count, cost):  # type: ignore[no-untyped-def]
    """How many of threads[:count] have U <= cost."""
    found = 0
    for k in range(count):
        found += 1 if nearest(context, k, k + 1, 1) <= cost else 0
    return found


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def keep_nearest(context, count, most):  # type: ignore[no-untyped-def]
    """Keeps `most` of threads[:count], which are more, in their order; of equally near ones the first. Items that were
    written play no part. Returns `most`."""
    threads = threads_of(context)
    near, far = _i8(-1), nearest(context, 0, count, 1)  # fewer than `most` within near
    step = _i8(1)
    while _within(context, count, far) < most:
        near, far, step = far, far + step, 2 * step
    while far - near > 1:
        middle = (near + far) // 2
        if _within(context, count, middle) < most:
            near = middle
        else:
            far = middle
    ties, kept = most - _within(context, count, near), _i8(0)
    for k in range(count):
        cost = nearest(context, k, k + 1, 1)
        if cost < far or (cost == far and ties > 0):
            ties -= 1 if cost == far else 0
            for c in range(5):
                threads[kept, c] = threads[k, c]
            kept += 1
    return kept
