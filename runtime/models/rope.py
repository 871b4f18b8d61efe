"""How the frequencies of RoPE are stretched to longer contexts than a model was first trained for: for each pair of a
head, what its frequency is divided by. In plain floats, as a config is read without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

Divisors = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Llama3:
    """As Llama 3.1 states it: pairs of wavelengths above context / low are divided by factor, below context / high by
    1, and between them by what blends the two frequencies linearly. context: positions of the first training."""

    factor: float
    context: int
    low: float
    high: float

    def divisors(self, pairs: int, theta: float) -> Divisors:
        found: list[float] = []
        for pair in range(pairs):
            turns = self.context * theta ** (-pair / pairs) / (2 * math.pi)
            found.append(_blended(self.factor, (turns - self.low) / (self.high - self.low)))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN (Peng et al. 2023), sections 3.2 and 3.4, with the bounds of the ramp rounded to whole pairs as its authors'
    code does: pairs that turn less than `slow` times in the first context are divided by factor, those that turn more
    than `fast` times by 1, with a ramp over the pairs between. context: positions of the first training. attention: cos
    and sin are multiplied by it; None for what section 3.4 recommends."""

    factor: float
    context: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float | None = None

    @property
    def scale(self) -> float:
        """Of cos and sin: sqrt(1 / t) = 0.1 ln(factor) + 1."""
        return 0.1 * math.log(self.factor) + 1 if self.attention is None else self.attention

    def divisors(self, pairs: int, theta: float) -> Divisors:
        """theta: above 1."""

        def pair_of(turns: float) -> float:
            return pairs * math.log(self.context / (turns * 2 * math.pi)) / math.log(theta)

        first = max(math.floor(pair_of(self.fast)), 0)
        last = min(math.ceil(pair_of(self.slow)), 2 * pairs - 1)
        width = max(last - first, 0.001)
        return tuple(_blended(self.factor, 1 - (pair - first) / width) for pair in range(pairs))


def _blended(factor: float, keep: float) -> float:
    """keep: how much of the frequency stays as it is; below 0 and above 1 as these."""
    kept = min(max(keep, 0.0), 1.0)
    return 1 / ((1 - kept) / factor + kept)
