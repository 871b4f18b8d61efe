"""Frequencies of RoPE stretched to longer contexts than a model was first trained for. Two bases are two tables.

Llama3: as Llama 3.1 does it, by wavelength. Yarn: Peng et al. 2023, section 3.3 and 3.4. Divided: as a file states it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Llama3:
    """Wavelengths above context / low are stretched by factor, below context / high left alone, between them blended.
    context: positions of the first training."""

    factor: float
    context: int
    low: float = 1.0
    high: float = 4.0

    def applied(self, frequencies: torch.Tensor, theta: float) -> tuple[torch.Tensor, float]:
        """(frequencies, factor of cos and sin)."""
        turns = self.context * frequencies / (2 * math.pi)
        keep = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequencies / self.factor * (1 - keep) + frequencies * keep, 1.0


@dataclass(frozen=True, slots=True)
class Yarn:
    """Pairs that turn less than `slow` times in the first context are stretched by factor, more than `fast` times left
    alone, with a ramp over the pairs between them. attention: factor of cos and sin; None for 0.1 log(factor) + 1."""

    factor: float
    context: int
    fast: float = 32.0
    slow: float = 1.0
    attention: float | None = None

    def applied(self, frequencies: torch.Tensor, theta: float) -> tuple[torch.Tensor, float]:
        """(frequencies, factor of cos and sin)."""
        pairs = len(frequencies)

        def pair_of(turns: float) -> float:
            return pairs * math.log(self.context / (turns * 2 * math.pi)) / math.log(theta)

        first = max(math.floor(pair_of(self.fast)), 0)
        last = min(math.ceil(pair_of(self.slow)), 2 * pairs - 1)
        stretch = ((torch.arange(pairs).float() - first) / max(last - first, 0.001)).clamp(0, 1)
        scale = 0.1 * math.log(self.factor) + 1 if self.attention is None and self.factor > 1 else self.attention
        return frequencies / self.factor * stretch + frequencies * (1 - stretch), 1.0 if scale is None else scale


@dataclass(frozen=True, slots=True)
class Divided:
    """The frequency of each pair is divided by a number of its own. divisors: [pairs]."""

    divisors: tuple[float, ...]

    def applied(self, frequencies: torch.Tensor, theta: float) -> tuple[torch.Tensor, float]:
        """(frequencies, factor of cos and sin)."""
        return frequencies / torch.tensor(self.divisors), 1.0


Scaling = Llama3 | Yarn | Divided
