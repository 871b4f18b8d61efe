"""A small Llama with random weights, and plans over it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from espalier.kernels.linear import Groups
from espalier.kernels.registry import kernels
from espalier.runtime.config import EngineConfig
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.llama import Llama
from espalier.runtime.models.load import DTYPES, build_llama
from espalier.runtime.plan import Pick, Plan, Row
from espalier.runtime.torch_executor import TorchExecutor
from espalier.runtime.weights import llama_shapes

SHAPE = LlamaConfig(
    layers=2, width=48, heads=6, kv_heads=2, head_dim=8, ffn=80, vocab=101, context=512, rope_theta=1e4, rms_eps=1e-5,
    tied=True,
)
GREEDY = Pick(0, temperature=0.0)


def tiny_config(**fields: object) -> EngineConfig:
    return EngineConfig(**({"page": 8, "pages": 96, "dtype": "float32", "exact": True, "threads": 1} | fields))  # type: ignore[arg-type]


class RandomWeights:
    """A source whose matrices are not stored in 4 bits."""

    def __init__(self, seed: int, shape: LlamaConfig = SHAPE) -> None:
        rng = np.random.default_rng(seed)
        self._shapes = llama_shapes(shape)
        self._values = {name: rng.normal(0, 1, shape) for name, shape in self._shapes.items()}

    def tensor(self, name: str) -> NDArray[np.float32]:
        values, shape = self._values[name], self._shapes[name]
        return (values / shape[-1] ** 0.5 if len(shape) == 2 else values * 0.1 + 1).astype(np.float32)

    def groups(self, name: str) -> Groups | None:
        return None


def tiny_llama(config: EngineConfig, seed: int = 0, shape: LlamaConfig = SHAPE, device: str = "cpu") -> Llama:
    """With the kernels of config.device, which without a GPU are interpreted."""
    dtype = DTYPES[config.dtype]
    ops = kernels(config.device, dtype, "exact" if config.exact else "fast")
    return build_llama(shape, RandomWeights(seed, shape), ops, dtype, torch.device(device))


class Driver:
    """Runs rows on an executor and hands out pages; every page is given out once."""

    def __init__(self, executor: TorchExecutor, page: int) -> None:
        self.executor = executor
        self._page = page
        self._free = itertools.count()
        self._step = itertools.count()

    def pages(self, tokens: int) -> tuple[int, ...]:
        return tuple(itertools.islice(self._free, -(-tokens // self._page)))

    def logits(self, rows: Sequence[Row]) -> torch.Tensor:
        """The logits that a plan asks for; the ticket is then done with."""
        ticket = self.executor.forward(Plan(next(self._step), tuple(rows)))
        logits = self.executor._logits[ticket].clone()
        self.executor.sample(ticket, [])
        self.executor.result(ticket)
        return logits

    def chunks(self, tokens: Sequence[int], cuts: Sequence[int], pages: tuple[int, ...]) -> Iterator[Row]:
        """Rows that compute `tokens` from 0, cut at `cuts`, with the logits of every token."""
        edges = sorted({0, len(tokens), *(cut for cut in cuts if cut < len(tokens))})
        for begin, end in itertools.pairwise(edges):
            yield Row(tuple(tokens[begin:end]), begin, pages, tuple(range(end - begin)))

    def whole(self, tokens: Sequence[int], cuts: Sequence[int] = ()) -> torch.Tensor:
        """Logits of every position, one plan a chunk."""
        return torch.cat([self.logits([row]) for row in self.chunks(tokens, cuts, self.pages(len(tokens)))])
