"""One uniform number per (seed, position): Philox 4x32-10 (Salmon et al. 2011), key = seed, counter = position.

The number depends on nothing else, so a draw is the same in every batch and on every device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import strict

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF


def reference(seed: int, position: int) -> float:
    """In [0, 1), a multiple of 2**-53. seed, position: taken modulo 2**64."""
    k0, k1 = seed & _LOW, seed >> 32 & _LOW
    c0, c1, c2, c3 = position & _LOW, position >> 32 & _LOW, 0, 0
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & _LOW, p0 >> 32 ^ c3 ^ k1, p0 & _LOW
        k0, k1 = k0 + _W0 & _LOW, k1 + _W1 & _LOW
    return ((c0 >> 5) * 2**26 + (c1 >> 6)) / 2**53


@strict
def uniform(seed: Any, position: Any) -> Any:
    """The same in compiled code. seed, position: uint64."""
    low, high = np.uint64(_LOW), np.uint64(32)
    k0, k1 = seed & low, seed >> high
    c0, c1, c2, c3 = position & low, position >> high, np.uint64(0), np.uint64(0)
    for _ in range(10):
        p0, p1 = c0 * np.uint64(_M0), c2 * np.uint64(_M1)
        c0, c1, c2, c3 = (p1 >> high) ^ c1 ^ k0, p1 & low, (p0 >> high) ^ c3 ^ k1, p0 & low
        k0, k1 = (k0 + np.uint64(_W0)) & low, (k1 + np.uint64(_W1)) & low
    return np.float64((c0 >> np.uint64(5)) * np.uint64(2**26) + (c1 >> np.uint64(6))) / np.float64(2.0**53)
