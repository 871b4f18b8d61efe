"""Time to the first token with nothing and with 90 % of the prompt cached, and host time per step.

    python -m bench.latency [--model NAME_OR_PATH]

One request at a time, engine in a thread, one torch thread.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from espalier.runtime.branch import GenerateSpec, TokenIds
from espalier.runtime.config import EngineConfig
from espalier.runtime.runtime import Runtime

from .report import Measure, save

PROMPT, CACHED, REPEATS, BATCH, STEPS = 500, 450, 5, 8, 64


def prompt(salt: int, shared: int) -> tuple[int, ...]:
    """PROMPT ids; the first `shared` are the same whatever the salt."""
    return tuple((17 + 31 * i + (0 if i < shared else 101 * salt + 7)) % 40_000 + 100 for i in range(PROMPT))


async def first_token(runtime: Runtime, ids: tuple[int, ...]) -> float:
    """Seconds from the request to its first token."""
    session = runtime.session()
    try:
        branch = session.branch()
        session.extend(branch, [TokenIds(ids)])
        start = time.perf_counter()
        async for _ in session.generate(branch, GenerateSpec(max_tokens=1, temperature=0, ignore_end=True)):
            break
        return time.perf_counter() - start
    finally:
        session.close()


async def first_tokens(runtime: Runtime, shared: int, base: int) -> float:
    """Median over REPEATS prompts, after one that warms the tree."""
    taken = [await first_token(runtime, prompt(base + i, shared)) for i in range(REPEATS + 1)]
    return statistics.median(taken[1:])


async def decode(runtime: Runtime) -> None:
    """BATCH requests at once, STEPS tokens each."""
    session = runtime.session()
    try:
        async def one(row: int) -> None:
            branch = session.branch()
            session.extend(branch, [TokenIds(prompt(9000 + row, 0)[:32])])
            async for _ in session.generate(branch, GenerateSpec(max_tokens=STEPS, temperature=0, ignore_end=True)):
                pass

        await asyncio.gather(*(one(row) for row in range(BATCH)))
    finally:
        session.close()


async def measure(model: str) -> list[Measure]:
    runtime = Runtime.load(model, EngineConfig(threads=1))
    try:
        cold = await first_tokens(runtime, 0, 0)
        warm = await first_tokens(runtime, CACHED, 100_000)
        before = await runtime.stats()
        await decode(runtime)
        after = await runtime.stats()
    finally:
        runtime.close()
    steps = after.steps - before.steps
    return [
        Measure(f"first token, {PROMPT} tokens, none cached", "ms", 1e3 * cold),
        Measure(f"first token, {PROMPT} tokens, {CACHED / PROMPT:.0%} cached", "ms", 1e3 * warm),
        Measure("the same, cached against not", "ratio", warm / cold),
        Measure(f"host time a step, {BATCH} requests", "ms", 1e3 * (after.host_s - before.host_s) / steps),
        Measure(f"model time a step, {BATCH} requests", "ms", 1e3 * (after.model_s - before.model_s) / steps),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    save("latency", asyncio.run(measure(parser.parse_args().model)))
