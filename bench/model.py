"""The model alone, one thread: prefill of 512 tokens, decode at batch 1, 8 and 32.

    python -m bench.model [--model NAME_OR_PATH] [--dtype bfloat16|float32] [--exact]

Decode starts at 64 tokens a row and takes 32 steps; greedy sampling included. Peer: transformers'
`generate` in bfloat16, one thread, this model, measured beside results/model.json on the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from espalier.runtime.catalogue import resolve
from espalier.runtime.config import EngineConfig
from espalier.runtime.models.load import load_model
from espalier.runtime.plan import Pick, Plan, Row
from espalier.runtime.torch_executor import TorchExecutor

from .report import Measure, save

PROMPT, CONTEXT, STEPS, REPEATS = 512, 64, 32, 5
PEERS = {"prefill 512": ("transformers 5.24 bf16", 1304.0), "decode batch 1": ("transformers 5.24 bf16", 16.2),
         "decode batch 8": ("transformers 5.24 bf16", 97.1)}


@dataclass(frozen=True)
class Speed:
    wall: float
    cpu: float


def timed(work: Callable[[], int]) -> Speed:
    """work returns how many tokens it did; the median of REPEATS runs after one to warm up."""
    work()
    wall, cpu = [], []
    for _ in range(REPEATS):
        before = time.perf_counter(), time.thread_time()
        tokens = work()
        wall.append(tokens / (time.perf_counter() - before[0]))
        cpu.append(tokens / (time.thread_time() - before[1]))
    return Speed(statistics.median(wall), statistics.median(cpu))


def prompt(length: int, row: int = 0) -> tuple[int, ...]:
    return tuple((17 + 31 * i + 101 * row) % 40_000 + 100 for i in range(length))


def prefill(executor: TorchExecutor, config: EngineConfig) -> Callable[[], int]:
    pages = tuple(range(-(-PROMPT // config.page)))

    def work() -> int:
        ticket = executor.forward(Plan(0, (Row(prompt(PROMPT), 0, pages, (PROMPT - 1,)),)))
        executor.sample(ticket, [Pick(0, temperature=0.0)])
        executor.result(ticket)
        return PROMPT

    return work


def decode(executor: TorchExecutor, config: EngineConfig, batch: int) -> Callable[[], int]:
    each = -(-(CONTEXT + STEPS + 1) // config.page)
    pages = [tuple(range(row * each, (row + 1) * each)) for row in range(batch)]
    picks = [Pick(row, temperature=0.0) for row in range(batch)]
    fill = executor.forward(Plan(0, tuple(Row(prompt(CONTEXT, i), 0, pages[i], (CONTEXT - 1,)) for i in range(batch))))
    executor.sample(fill, picks)
    executor.result(fill)

    def work() -> int:
        for step in range(STEPS):
            rows = tuple(Row((0,), CONTEXT + step, pages[i], (0,), sampled_from=i) for i in range(batch))
            ticket = executor.forward(Plan(step, rows))
            executor.sample(ticket, picks)
            executor.result(ticket)
        return STEPS * batch

    return work


def measure(model: str, config: EngineConfig | None = None) -> list[Measure]:
    config = config or EngineConfig(threads=1)
    executor = TorchExecutor(load_model(resolve(model), config), config)
    makers: dict[str, Callable[[], Callable[[], int]]] = {"prefill 512": lambda: prefill(executor, config)}
    makers |= {f"decode batch {batch}": partial(decode, executor, config, batch) for batch in (1, 8, 32)}
    rows = []
    for name, make in makers.items():
        speed = timed(make())
        peer, value = PEERS.get(name, (None, None))
        rows.append(Measure(f"{name}, {config.dtype}", "tok/s", speed.wall, peer=peer, peer_value=value))
        rows.append(Measure(f"{name}, {config.dtype}", "tok/CPU-s", speed.cpu))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--exact", action="store_true")
    arguments = parser.parse_args()
    config = EngineConfig(dtype=arguments.dtype, exact=arguments.exact, threads=1)
    save("model", measure(arguments.model, config))


if __name__ == "__main__":
    main()
