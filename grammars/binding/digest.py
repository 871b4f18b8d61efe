"""A short name of a mask's content, so that equal masks are one row without being compared."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numba import types

from ..jit import entry

_LANES = 4

_u8, _i8 = types.uint64[::1], types.int64


@entry(types.void(_u8, _i8, _u8, _u8))
def _digest(pairs, last, secret, lanes):  # type: ignore[no-untyped-def]
    """Lane n: the sum of the products of both halves of pairs[k], after secret[k + n] was added to each of them."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a = b = c = d = np.uint64(0)
    for k in range(pairs.size):
        left, right = pairs[k], pairs[k] >> half
        a += ((left + secret[k]) & low) * ((right + (secret[k] >> half)) & low)
        b += ((left + secret[k + 1]) & low) * ((right + (secret[k + 1] >> half)) & low)
        c += ((left + secret[k + 2]) & low) * ((right + (secret[k + 2] >> half)) & low)
        d += ((left + secret[k + 3]) & low) * ((right + (secret[k + 3] >> half)) & low)
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
    for n in range(_LANES):
        more = secret[pairs.size + n]
        lanes[n] += ((np.uint64(last) + more) & low) * (more >> half)


class Digest:
    """Names rows of `words` words. Two rows that differ get one name with a probability of 2^-128, over the secret
    numbers of this object (NH of UMAC: Black, Halevi, Krawczyk, Krovetz, Rogaway 1999, section 4; four lanes)."""

    def __init__(self, words: int) -> None:
        self._even = words - words % 2
        self._secret = np.frombuffer(bytearray(os.urandom(8 * (words // 2 + _LANES))), np.uint64)
        self._lanes = np.zeros(_LANES, np.uint64)
        self._words, self._pairs = np.zeros(0, np.uint32), np.zeros(0, np.uint64)  # the last ones, and the same by twos

    def of(self, words: Any) -> bytes:
        """words: uint32, contiguous. Not to be called by two threads at once."""
        if words is not self._words:
            self._words, self._pairs = words, words[: self._even].view(np.uint64)
        last = int(words[-1]) if self._even < len(words) else 0
        _digest(self._pairs, last, self._secret, self._lanes)
        return self._lanes.tobytes()
