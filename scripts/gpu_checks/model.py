"""The model of SmolLM2-135M's shape with random weights: the executor on the GPU against the one on the CPU. Once as it
is, once with the biases of Qwen 2 and the norms of Qwen 3."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from espalier.kernels.registry import kernels
from espalier.runtime.config import Device, EngineConfig
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.load import DTYPES, build_llama
from espalier.runtime.paged_executor import PagedExecutor
from espalier.runtime.plan import PageCopy, Pick, Plan, Row, Sampled
from espalier.runtime.torch_executor import TorchExecutor

from ..random_weights import RandomWeights

Report = Callable[[str, bool, str], None]
SHAPE = LlamaConfig(layers=30, width=576, heads=9, kv_heads=3, head_dim=64, ffn=1536, vocab=49152, context=2048,
                    rope_theta=1e5, rms_eps=1e-5, tied=True)
SHAPES = {"llama": SHAPE, "qwen": replace(SHAPE, biases=True, head_norms=True)}


def carried_out(
    executor: TorchExecutor | PagedExecutor, plan: Plan, picks: list[Pick]
) -> tuple[torch.Tensor, list[Sampled]]:
    """The logits of the plan, and what was drawn from them."""
    ticket = executor.forward(plan)
    held = executor._logits
    logits = held[ticket] if isinstance(held, dict) else held[1]  # type: ignore[index]
    logits = logits[: sum(len(row.logits_at) for row in plan.rows)].float().cpu()
    executor.sample(ticket, picks)
    return logits, executor.result(ticket)


def executor(shape: LlamaConfig, device: Device, dtype: str) -> TorchExecutor | PagedExecutor:
    config = EngineConfig(dtype=dtype, device=device, pages=64, threads=8)  # type: ignore[arg-type]
    model = build_llama(shape, RandomWeights(shape), kernels(device, DTYPES[dtype], "fast"), DTYPES[dtype],
                        torch.device(device))
    return PagedExecutor(model, config) if device == "cuda" else TorchExecutor(model, config)


def steps(first_pick: Pick) -> list[tuple[Plan, list[Pick]]]:
    """A prompt; its continuation beside a fork of it (one page copied) and a new prompt; one token each."""
    tokens = [tuple(int(t) for t in np.random.default_rng(i).integers(0, SHAPE.vocab, 300)) for i in range(2)]
    first, forked, other = tuple(range(10)), (0, 1, 2, 3, 4, 5, 20), tuple(range(30, 50))
    return [
        (Plan(0, (Row(tokens[0][:100], 0, first, (50, 99)),)), [first_pick]),
        (Plan(1, (
            Row((0,), 100, first, (0,), sampled_from=0), Row((7, 8, 9), 100, forked, (2,)),
            Row(tokens[1], 0, other, (299,)),
        ), (PageCopy(6, 20, 4),)), [Pick(0, temperature=0.0), Pick(1, top_k=20, seed=3), Pick(2, top_p=0.9, seed=4)]),
        (Plan(2, (Row((5,), 101, first, (0,)), Row((6,), 103, forked, (0,)), Row((7,), 300, other, (0,)))),
         [Pick(0, target=9), Pick(1, seed=1, top_logprobs=3), Pick(2, min_p=0.2, seed=2)]),
    ]


def run(report: Report) -> None:
    for (name, shape), (dtype, limit) in itertools.product(SHAPES.items(), (("float32", 1e-4), ("bfloat16", 6e-2))):
        cpu, cuda = executor(shape, "cpu", dtype), executor(shape, "cuda", dtype)
        # In bfloat16 the best token may be another one on the other device: what follows is then given.
        first_pick = Pick(1, temperature=0.0, target=None if dtype == "float32" else 1234)
        for number, (plan, picks) in enumerate(steps(first_pick)):
            (expected, theirs), (ours, mine) = (carried_out(one, plan, picks) for one in (cpu, cuda))
            gap = float(((ours - expected).norm() / expected.norm()).nan_to_num(1e9))
            same = sum(a.token == b.token for a, b in zip(mine, theirs, strict=True))
            good = gap < limit and (dtype != "float32" or same == len(picks))
            report(f"model {name}, {dtype}, step {number}", good,
                   f"logits {gap:.0e}, {same} of {len(picks)} tokens the same")
