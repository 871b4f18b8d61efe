"""The engine on a GPU, Llama-3.1-8B's shape in bfloat16 with random weights: prefill, decode, a shared prefix.

    python -m bench.engine_gpu [--exact] [--small] [--peer | --sweep] [--commit NAME]

The floor of decode is the bytes of the weights and of the keys and values of a step over the bandwidth measured in the
same run; that of prefill its products over the rate measured. Peer: transformers' forward pass with its own cache.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from espalier.kernels.linear import Matrix
from espalier.kernels.registry import kernels
from espalier.kernels.rope_write import rope_table
from espalier.runtime.config import EngineConfig
from espalier.runtime.engine import Engine
from espalier.runtime.messages import Command, Finished, Generate, OpenLease, OpenSession, Sampling, Tokens
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.llama import Block, Llama
from espalier.runtime.paged_executor import PagedExecutor

from .kernels.device import Ceilings, ceilings
from .report import Measure, save

LLAMA_8B = LlamaConfig(layers=32, width=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocab=128256,
                       context=16384, rope_theta=5e5, rms_eps=1e-5, tied=False)
SMALL = LlamaConfig(layers=2, width=512, heads=8, kv_heads=2, head_dim=64, ffn=1024, vocab=4096, context=16384,
                    rope_theta=5e5, rms_eps=1e-5, tied=False)
GREEDY = Sampling(temperature=0.0, ignore_end=True)
PROMPT, CONTEXT, STEPS, SHARED = 8192, 1024, 64, 4096


@dataclass(frozen=True)
class Speed:
    """tokens: of the work. seconds: all of it; host_s: of these, in the engine and not in the executor."""

    tokens: int
    seconds: float
    host_s: float
    steps: int


def random_llama(shape: LlamaConfig, exact: bool, device: torch.device) -> Llama:
    def matrix(n: int, k: int) -> Matrix:
        return Matrix((torch.randn(n, k, device=device) / k**0.5).bfloat16())

    def ones() -> torch.Tensor:
        return torch.ones(shape.width, dtype=torch.bfloat16, device=device)

    heads = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
    with torch.inference_mode():
        blocks = tuple(Block(
            ones(), matrix(heads, shape.width), matrix(shape.width, shape.heads * shape.head_dim), ones(),
            matrix(2 * shape.ffn, shape.width), matrix(shape.width, shape.ffn)) for _ in range(shape.layers))
        cos, sin = (table.to(device) for table in rope_table(shape.context, shape.head_dim, shape.rope_theta))
        return Llama(
            shape, kernels("cuda", torch.bfloat16, "exact" if exact else "fast"),
            matrix(shape.vocab, shape.width).dense, blocks, ones(), matrix(shape.vocab, shape.width), cos, sin)


class Driver:
    """An engine without a thread, fed with requests. One driver has one tree."""

    def __init__(self, executor: PagedExecutor, config: EngineConfig) -> None:
        self.engine = Engine(executor, config)
        self.ids = 0

    def ask(self, tokens: Sequence[int], budget: int, salt: str = "") -> Iterator[Command]:
        self.ids += 1
        yield OpenSession(self.ids, salt)
        yield OpenLease(self.ids, self.ids, None)
        yield Generate(self.ids, self.ids, tuple(tokens), budget, GREEDY)

    def run(self, commands: Sequence[Command], *, until_all_speak: bool = False) -> Speed:
        """Until all have ended, or each has said a token."""
        for command in commands:
            self.engine.send(command)
        self.engine.receive()
        silent = {command.request for command in commands if isinstance(command, Generate)}
        before, began, tokens = self.engine.counters, time.perf_counter(), 0
        steps, host = before.steps, before.host_s
        while self.engine.busy and (silent or not until_all_speak):
            self.engine.step()
            for event in self.engine.take_events():
                if isinstance(event, Tokens):
                    tokens += len(event.tokens)
                    silent.discard(event.request)
                elif not isinstance(event, Finished):
                    raise RuntimeError(f"{event}")
        seconds = time.perf_counter() - began
        return Speed(tokens, seconds, self.engine.counters.host_s - host, self.engine.counters.steps - steps)


def text(length: int, seed: int, vocabulary: int) -> tuple[int, ...]:
    return tuple((17 + 31 * i + 101 * seed * (i + 3)) % (vocabulary - 10) for i in range(length))


class Measuring:
    def __init__(self, shape: LlamaConfig, exact: bool, limits: Ceilings) -> None:
        self.shape, self.exact, self.limits = shape, exact, limits
        self.model = random_llama(shape, exact, torch.device("cuda"))
        matrices = [matrix.dense for block in self.model.blocks
                    for matrix in (block.qkv, block.out, block.gate_up, block.down)]
        self.inner = sum(matrix.numel() for matrix in matrices)
        self.weights = 2 * (self.inner + self.model.head.dense.numel())
        self.slot = 4 * shape.layers * shape.kv_heads * shape.head_dim  # bytes of keys and values
        self.rows: list[Measure] = []

    def driver(self, *, step_tokens: int = 8192, rows: int = 64, **options: object) -> Driver:
        config = EngineConfig(
            device="cuda", exact=self.exact, pages=max(17408, 72 * rows), step_tokens=step_tokens, max_rows=rows)
        gc.collect()  # an engine before it, whose parts know each other
        torch.cuda.empty_cache()
        began = time.perf_counter()
        executor = PagedExecutor(self.model, config, **options)  # type: ignore[arg-type]
        torch.cuda.synchronize()
        print(f"      executor {options} ready in {time.perf_counter() - began:.1f} s", flush=True)
        return Driver(executor, config)

    def add(self, work: str, value: float, floor: float | None = None, unit: str = "tok/s") -> None:
        row = Measure(work + (", exact" if self.exact else ""), unit, value, floor)
        self.rows.append(row)
        print(f"{row.line()}" + (f"   {value / floor:.2f} of {floor:,.1f}" if floor else ""), flush=True)

    def decode_floor(self, batch: int, context: int, shared: int = 0) -> float:
        """Tokens a second: each weight once, each slot that is read once."""
        slots = batch * (context - shared) + shared
        return batch * self.limits.read / (self.weights + slots * self.slot)

    def prefill(self, driver: Driver, length: int, name: str = "") -> None:
        best = 0.0
        for seed in range(3):
            speed = driver.run(list(driver.ask(text(length, seed + 50 + length, self.shape.vocab), 1)))
            best = max(best, length / speed.seconds)
        attention = 2 * self.shape.layers * self.shape.heads * self.shape.head_dim * length
        self.add(f"prefill {length}{name}", best, self.limits.matrix / (2 * self.inner + attention))

    def decode(self, driver: Driver, batch: int, name: str = "") -> None:
        """After a step to warm up; the mean of what follows."""
        commands = [one for row in range(batch)
                    for one in driver.ask(text(CONTEXT, batch * 100 + row, self.shape.vocab), STEPS + 1)]
        driver.run(commands, until_all_speak=True)
        speed = driver.run([])
        self.add(f"decode batch {batch} at {CONTEXT}{name}", speed.tokens / speed.seconds,
                 self.decode_floor(batch, CONTEXT + STEPS // 2))
        step = 1e3 / speed.steps
        print(f"      {speed.steps} steps of {speed.seconds * step:.2f} ms, {speed.host_s * step:.2f} outside the "
              "executor", flush=True)

    def sweep(self) -> None:
        """Steps of rows with a prefix in common and 64 tokens of their own, the prefix read once or by each row."""
        for name, share_from in (("once", 1), ("by each", 1 << 30)):
            driver = self.driver(share_from=share_from)
            for length, batch in itertools.product((64, 256, 512, 1024, 2048), (2, 4, 8, 64)):
                prefix = text(length, 1000 + length + batch, self.shape.vocab)
                commands = [one for row in range(batch)
                            for one in driver.ask(prefix + text(64, row, self.shape.vocab), STEPS)]
                driver.run(commands, until_all_speak=True)
                speed = driver.run([])
                self.add(f"{batch} rows on {length} shared, read {name}: a step", speed.seconds / speed.steps * 1e3,
                         unit="ms")

    def shared(self, driver: Driver, name: str, *, salted: bool, batch: int = 64) -> None:
        """Rows with a prefix in common and 64 tokens of their own: time to all first tokens, then decode."""
        prefix = text(SHARED, 7 + driver.ids, self.shape.vocab)
        commands = [one for row in range(batch)
                    for one in driver.ask(prefix + text(64, row, self.shape.vocab), STEPS + 1,
                                          f"{row}" if salted else "")]
        first = driver.run(commands, until_all_speak=True)
        self.add(f"{batch} rows on {SHARED} shared, {name}: first tokens", first.seconds * 1e3, unit="ms")
        speed = driver.run([])
        self.add(f"{batch} rows on {SHARED} shared, {name}: decode", speed.tokens / speed.seconds,
                 self.decode_floor(batch, SHARED + 64 + STEPS // 2, 0 if salted else SHARED))


def peer(shape: LlamaConfig, batches: Sequence[int], length: int) -> Iterator[tuple[str, float]]:
    """transformers, the same shape: its own pre-allocated cache, greedy, one forward a token."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=shape.vocab, hidden_size=shape.width, intermediate_size=shape.ffn, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, rms_norm_eps=shape.rms_eps,
        max_position_embeddings=shape.context, tie_word_embeddings=shape.tied)
    with torch.device("cuda"), torch.inference_mode():
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)

        def timed(work: Callable[[], object]) -> float:
            torch.cuda.synchronize()
            began = time.perf_counter()
            work()
            torch.cuda.synchronize()
            return time.perf_counter() - began

        tokens = torch.randint(0, shape.vocab, (1, length))
        yield f"prefill {length}", length / min(timed(lambda: model(tokens, logits_to_keep=1)) for _ in range(3))
        for batch in batches:
            found = model(torch.randint(0, shape.vocab, (batch, CONTEXT)), use_cache=True, logits_to_keep=1)

            yield f"decode batch {batch} at {CONTEXT}", 16 * batch / min(
                timed(partial(_steps, model, found, 16)) for _ in range(2))


def _steps(model: Any, found: Any, count: int) -> None:
    for _ in range(count):
        token = found.logits[:, -1:].argmax(-1)
        found = model(token, past_key_values=found.past_key_values, use_cache=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--small", action="store_true", help="a shape to try the bench with")
    parser.add_argument("--sweep", action="store_true", help="how much a prefix must save to be read once")
    parser.add_argument("--peer", action="store_true", help="measure transformers too")
    parser.add_argument("--commit", default=None, help="where there is no checkout")
    arguments = parser.parse_args()
    limits = ceilings()
    print(f"      read {limits.read / 1e12:.2f} TB/s, matrix {limits.matrix / 1e12:.0f} TFLOP/s", flush=True)
    measuring = Measuring(SMALL if arguments.small else LLAMA_8B, arguments.exact, limits)
    if arguments.sweep:
        measuring.sweep()
        save("engine_gpu_sweep", measuring.rows, torch.cuda.get_device_name(), arguments.commit)
        return
    driver = measuring.driver()
    for length in (PROMPT, 512):
        measuring.prefill(driver, length)
    for batch in (1, 8, 64):
        measuring.decode(driver, batch)
    measuring.shared(driver, "read once", salted=False)
    del driver
    measuring.shared(measuring.driver(share_from=1 << 30), "read by each", salted=False)
    measuring.shared(measuring.driver(), "no tree", salted=True)
    measuring.decode(measuring.driver(captures=False), 1, ", launched one by one")
    measuring.decode(measuring.driver(rows=256), 256)
    measuring.prefill(measuring.driver(step_tokens=512), PROMPT, ", 512 tokens a step")
    shape = measuring.shape
    rows = measuring.rows
    if arguments.peer:
        del measuring
        gc.collect()
        torch.cuda.empty_cache()
        found = dict(peer(shape, (1, 8, 64), PROMPT))
        name = f"transformers {version('transformers')}, eager"
        rows = [replace(row, peer=name, peer_value=found[row.work]) if row.work in found else row for row in rows]
    save("engine_gpu_exact" if arguments.exact else "engine_gpu", rows, torch.cuda.get_device_name(), arguments.commit)


if __name__ == "__main__":
    main()
