"""How the tests of the engine drive it: requests of a fixed prompt, a bench with its leases."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.runtime.messages import Define, Generate, Sampling
from tests.runtime.harness import Bench
from tests.runtime.set_grammar import encode_texts

GREEDY = Sampling(temperature=0.0, ignore_end=True)
PROMPT = tuple(n % 7 for n in range(30))


def generate(request: int, lease: int, tokens: Sequence[int] = PROMPT, max_tokens: int = 4,
             sampling: Sampling = GREEDY, constraint: int | None = None) -> Generate:
    return Generate(request, lease, tuple(tokens), max_tokens, sampling, constraint)


def bench_with_leases(count: int, *, page: int = 4, pages: int = 64, step_tokens: int = 16, max_waiting: int = 4096,
                      context: int = 1 << 20) -> Bench:
    bench = Bench(page=page, pages=pages, step_tokens=step_tokens, max_waiting=max_waiting, context=context)
    for lease in range(1, count + 1):
        bench.lease(lease)
    return bench


def define(bench: Bench, texts: list[list[int]], constraint: int = 1) -> None:
    bench.send(Define(constraint, encode_texts(texts)))
