"""What constraints cost on a GPU: decode of Llama-3.1-8B's shape with random weights, sampled, free and under schemas.

    python -m bench.engine_gpu_constrained TOKENIZER [--small] [--commit NAME]

TOKENIZER: Llama 3.1's tokenizer.json. The peer of a constrained row is the same batch in the same
run without a constraint. Random weights choose nearly evenly among the allowed tokens, so the text in strings is odd.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import torch

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.ir import Grammar
from espalier.grammars.rows import MaskTable
from espalier.grammars.standard import prepare_bodies
from espalier.runtime.config import EngineConfig
from espalier.runtime.constraints import Constraints
from espalier.runtime.engine import Engine
from espalier.runtime.loading import compile_grammar
from espalier.runtime.messages import Command, Define, Finished, Generate, OpenLease, OpenSession, Sampling, Tokens
from espalier.runtime.paged_executor import PagedExecutor

from .engine_gpu import LLAMA_8B, SMALL, random_llama, text
from .grammars.vocabulary import file_vocabulary
from .report import Measure, save

CONTEXT, STEPS, BUDGET = 1024, 64, 1500
SAMPLED = Sampling(temperature=1.0, ignore_end=True)
KINDS: tuple[dict[str, object], ...] = (
    {"type": "string", "maxLength": 80}, {"type": "integer", "minimum": 0, "maximum": 10**6}, {"type": "boolean"},
    {"enum": ["north", "east", "south", "west"]}, {"type": "string", "pattern": "^[A-Z][a-z]{2,20}$"},
    {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 5}, {"type": "string", "format": "date"},
)


@dataclass(frozen=True)
class Speed:
    """tokens: of all rows, forced ones among them. host_s: of the seconds, in the engine and not in the executor."""

    tokens: int
    seconds: float
    host_s: float

    def line(self, batch: int) -> str:
        step = 1e3 / STEPS
        return (f"      steps of {self.seconds * step:.2f} ms, {self.host_s * step:.2f} outside the executor; "
                f"{1 - batch * STEPS / self.tokens:.0%} of the tokens forced")


def schema(seed: int) -> str:
    """An object of 96 required properties, so that no row ends while it is measured."""
    properties = {f"{'abcdefgh'[seed % 8]}{seed}_field_{k}": KINDS[(k * (seed % 5 + 1) + seed) % len(KINDS)]
                  for k in range(96)}
    return json.dumps({"type": "object", "properties": properties, "required": list(properties),
                       "additionalProperties": False})


class Driver:
    """An engine without a thread. Constraints 0 .. `schemas` - 1 are defined."""

    def __init__(self, executor: PagedExecutor, config: EngineConfig, tokenizer: str, schemas: int) -> None:
        vocabulary = file_vocabulary(tokenizer)
        prepare_bodies(vocabulary)
        table = MaskTable(executor.vocabulary_size, config.mask_bytes)
        decoder = msgspec.msgpack.Decoder(Grammar)
        constraints = Constraints(lambda grammar: CompiledGrammar(decoder.decode(grammar), vocabulary, table),
                                  lambda: table.array, lambda: table.version)
        self.engine = Engine(executor, config, constraints=constraints)
        self.ids, self.vocabulary = 0, len(vocabulary.tokens)
        for seed in range(schemas):
            self.engine.send(Define(seed, compile_grammar(JsonSchema(schema(seed)))))

    def ask(self, constraint: int | None) -> Iterator[Command]:
        self.ids += 1
        yield OpenSession(self.ids, "")
        yield OpenLease(self.ids, self.ids, None)
        yield Generate(self.ids, self.ids, text(CONTEXT, self.ids, self.vocabulary), BUDGET, SAMPLED, constraint)

    def decode(self, constraints: Sequence[int | None]) -> tuple[Speed, Speed]:
        """The first STEPS steps after all prompts are computed, and the next, when more masks have been met. The rows
        end with their engine."""
        for command in itertools.chain.from_iterable(map(self.ask, constraints)):
            self.engine.send(command)
        self.engine.receive()
        # Text that is forced from the start is told before the prompt is computed, so a row speaks twice.
        told = dict.fromkeys(range(self.ids - len(constraints) + 1, self.ids + 1), 0)
        while min(told.values()) < 2:
            for event in self._step():
                told[event.request] += 1
        return self._steps(), self._steps()

    def _steps(self) -> Speed:
        host, began = self.engine.counters.host_s, time.perf_counter()
        tokens = sum(len(event.tokens) for _ in range(STEPS) for event in self._step())
        return Speed(tokens, time.perf_counter() - began, self.engine.counters.host_s - host)

    def _step(self) -> list[Tokens]:
        self.engine.step()
        events = self.engine.take_events()
        for event in events:
            if not isinstance(event, Tokens):
                raise RuntimeError(f"a row ended: {event}" if isinstance(event, Finished) else f"{event}")
        return [event for event in events if isinstance(event, Tokens)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("tokenizer")
    parser.add_argument("--small", action="store_true", help="a shape to try the bench with")
    parser.add_argument("--commit", default=None, help="where there is no checkout")
    arguments = parser.parse_args()
    model = random_llama(SMALL if arguments.small else LLAMA_8B, False, torch.device("cuda"))
    rows: list[Measure] = []
    for batch in (1, 64, 256):
        config = EngineConfig(device="cuda", pages=100 * max(batch, 16), step_tokens=8192, max_rows=batch)
        works: dict[str, list[int | None]] = {"free": [None] * batch, "one schema": [0] * batch}
        if batch > 1:
            works["64 schemas"] = [row % 64 for row in range(batch)]
        free: tuple[float | None, ...] = (None, None)
        for name, constraints in works.items():
            driver = Driver(PagedExecutor(model, config), config, arguments.tokenizer, 64)
            speeds = driver.decode(constraints)
            values = tuple(speed.tokens / speed.seconds for speed in speeds)
            for when, speed, value, peer in zip(("first", "next"), speeds, values, free, strict=True):
                rows.append(Measure(f"batch {batch}, {name}, the {when} {STEPS} steps", "tok/s", value,
                                    peer=None if peer is None else "without a constraint", peer_value=peer))
                print(f"{rows[-1].line()}\n{speed.line(batch)}", flush=True)
            free = values if free[0] is None else free
            del driver
    save("engine_gpu_constrained", rows, torch.cuda.get_device_name(), arguments.commit)


if __name__ == "__main__":
    main()
