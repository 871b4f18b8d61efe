"""What a constraint costs when it is compiled in a process that can be killed, against a thread of this one; and what
a hostile one costs everybody else: how late a thread wakes that sleeps a millisecond at a time.

    python -m bench --only compiling
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import AnyObject, Choices, Constraint, JsonSchema, Regex
from espalier.grammars.errors import ConstraintTooLarge
from espalier.grammars.limits import Limits
from espalier.runtime.compile_process import CompileProcess
from espalier.runtime.loading import compile_grammar

from .report import Measure

Compile = Callable[[Constraint], bytes]

REPEATS = 500
SCHEMA = (
    '{"type":"object","properties":{"name%d":{"type":"string"},"age":{"type":"integer","minimum":0},'
    '"kind":{"enum":["cat","dog"]}},"required":["age"]}'
)
# An automaton of 2^20 states, ended by the clock.
HOSTILE = Regex("(.*a.{19})")
HOSTILE_LIMITS = Limits(seconds=3.0, states=1 << 40)


def measure() -> list[Measure]:
    start = time.perf_counter()
    with closing(CompileProcess()) as pool:
        called = time.perf_counter()
        pool.compile(AnyObject())
        ready = time.perf_counter()
        rows = [
            Measure("the call that starts a worker", "ms", 1e3 * (called - start)),
            Measure("until it has compiled its first constraint", "ms", 1e3 * (ready - start)),
        ]
        for name, make in (("two choices", choice), ("a schema of three properties", schema)):
            contained, beside = side_by_side(pool.compile, compile_grammar, make)
            rows += against(name, contained, beside)
    with closing(CompileProcess(limits=HOSTILE_LIMITS)) as pool:
        pool.compile(AnyObject())
        contained = late(lambda: pool.compile(HOSTILE))
        beside = late(lambda: compile_constraint(HOSTILE, HOSTILE_LIMITS))
    return rows + against("a thread wakes late, hostile regex", contained, beside)


def against(name: str, contained: list[float], beside: list[float]) -> list[Measure]:
    return [
        Measure(f"{name}, {quantile}", "ms", at(contained, share), peer="in a thread", peer_value=at(beside, share))
        for quantile, share in (("p50", 0.5), ("p99", 0.99))
    ]


def choice(n: int) -> Constraint:
    return Choices((f"yes {n}", "no"))


def schema(n: int) -> Constraint:
    return JsonSchema(SCHEMA % n)


def side_by_side(one: Compile, other: Compile, make: Callable[[int], Constraint]) -> tuple[list[float], list[float]]:
    """Milliseconds of each compilation, turn by turn, so that both meet the same machine."""
    found: tuple[list[float], list[float]] = ([], [])
    for n in range(REPEATS):
        for compile, taken in zip((one, other), found, strict=True):
            start = time.perf_counter()
            compile(make(n))
            taken.append(1e3 * (time.perf_counter() - start))
    return found


def late(hostile: Callable[[], object]) -> list[float]:
    """Milliseconds by which each sleep of one took longer while the compilation ran."""

    def run() -> None:
        with suppress(ConstraintTooLarge):
            hostile()

    thread = threading.Thread(target=run)
    thread.start()
    found = []
    while thread.is_alive():
        start = time.perf_counter()
        time.sleep(0.001)
        found.append(1e3 * (time.perf_counter() - start) - 1)
    return found


def at(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]
