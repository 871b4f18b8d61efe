"""Where the weights of a model come from: tensors by the names that GGUF gives them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...kernels.linear import Groups
from ..errors import WeightsError
from ..gguf import GGUFFile
from ..weights import llama_tensor, permuted_heads, unpermute_rows
from .config import LlamaConfig
from .few_bits import few_bits
from .shards import Shards, published


class Source(Protocol):
    """Tensors by the names that GGUF gives them, q and k rows in the order of half-rotation RoPE."""

    def tensor(self, name: str) -> NDArray[np.float32]: ...

    def groups(self, name: str) -> Groups | None:
        """The tensor in 4 or 8 bits when it is stored so that these hold it without loss, else None."""


class GGUFSource:
    def __init__(self, gguf: GGUFFile, config: LlamaConfig) -> None:
        self._gguf = gguf
        self._config = config

    def tensor(self, name: str) -> NDArray[np.float32]:
        return llama_tensor(self._gguf, name)

    def groups(self, name: str) -> Groups | None:
        info = self._gguf.info(name)
        rows = self._gguf.raw(name).reshape(info.shape[0], -1)
        heads = permuted_heads(self._gguf, self._config, name)
        return few_bits(info.type, unpermute_rows(rows, heads) if heads else rows)


class FolderSource:
    """Shards whose tensors were checked."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Its own memory: a mapped file may change. Raises WeightsError when a value is not finite."""
        theirs = published(name)
        values: NDArray[np.float32] = self._shards.tensor(theirs).to(torch.float32, copy=True).numpy()
        if not np.isfinite(values).all():
            raise WeightsError("it holds values that are not finite", where=f"tensor {theirs}",
                               fix="The file is broken: fetch it again.")
        return values

    def groups(self, name: str) -> Groups | None:
        return None
