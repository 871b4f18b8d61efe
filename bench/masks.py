"""Mask time over the demo: its records are generated once, then their tokens are replayed against a fresh grammar.

    python -m bench.masks [--model NAME_OR_PATH]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import espalier as esp
from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.rows import MaskTable
from espalier.grammars.schema import schema_text
from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.catalogue import resolve
from espalier.runtime.config import EngineConfig
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.tokenizer import Tokenizer
from examples.extract import MAILS, Record, extract

from .report import Measure, save

BUDGET = 160
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def records(model: str) -> list[str]:
    """The texts that the demo generates."""
    mails = MAILS.read_text(encoding="utf-8").splitlines()
    with esp.local(model, config=EngineConfig(threads=1)) as handle:
        results = extract.run_batch([{"mail": mail} for mail in mails], backend=handle)
        return [result.raw("record") for result in results]


def replay(compiled: CompiledGrammar, texts: Sequence[str], encode: Callable[[str], list[int]]) -> list[float]:
    """Microseconds of every mask that sampling would ask for; forced tokens ask for none."""
    taken = []
    for text in texts:
        matcher = compiled.matcher()
        left = BUDGET
        for token in encode(text):
            if token not in matcher.forced(1):
                start = time.perf_counter()
                matcher.row(left)
                taken.append(1e6 * (time.perf_counter() - start))
            if not matcher.allows(token):  # the record's own tokens may differ where the model split a word
                break
            matcher.accept(token)
            left -= 1
        matcher.close()
    return taken


def measure(model: str) -> list[Measure]:
    texts = records(model)
    tokenizer = Tokenizer.from_gguf(GGUFFile.open(resolve(model)))
    vocabulary = Vocabulary(tokenizer.token_bytes, special=tokenizer.special_ids, stop=tokenizer.stop_ids,
                            encode=tokenizer.encode_exactly)
    start = time.perf_counter()
    grammar = compile_constraint(JsonSchema(schema_text(Record)))
    compiled = CompiledGrammar(grammar, vocabulary, MaskTable(vocabulary.size))
    rows = [Measure("compile and bind the demo's schema", "ms", 1e3 * (time.perf_counter() - start))]
    for name in ("cold", "warm"):
        taken = sorted(replay(compiled, texts, tokenizer.encode))
        last = len(taken) - 1
        rows += [Measure(f"mask over the demo, {name}, {label}", "us", taken[min(last, int(share * len(taken)))])
                 for label, share in QUANTILES.items()]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="smollm2-135m")
    save("masks", measure(parser.parse_args().model))
