"""Weights for a model of any shape, of which nothing is stored."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from espalier.kernels.linear import Groups
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.weights import llama_shapes


class RandomWeights:
    """Each tensor is drawn when it is asked for, the same for the same name."""

    def __init__(self, shape: LlamaConfig) -> None:
        self._shapes = llama_shapes(shape)

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        shape = self._shapes[name]
        values = np.random.default_rng([ord(letter) for letter in name]).standard_normal(shape, np.float32)
        return values / np.float32(shape[-1] ** 0.5) if len(shape) == 2 else values * np.float32(0.1) + 1

    def groups(self, name: str) -> Groups | None:
        return None
