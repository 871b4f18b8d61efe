"""Times of masks and of accepting tokens for a schema and texts that fit it.

    python -m bench.grammars.mask_times TOKENIZER.json [SCHEMA.json TEXT.json...]

TOKENIZER.json: byte-level or with byte fallback. Without a schema: a record extraction with strings, an enum, numbers,
a list and free keys. Prints microseconds: every mask from cold (first pass) and warm (second pass), accepting, and the
slowest.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from espalier.grammars.compile import compile_constraint
from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.rows import MaskTable

from .vocabulary import file_vocabulary

SCHEMA = {
    "type": "object", "additionalProperties": False, "required": ["name", "kind", "age", "tags"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 60},
        "summary": {"type": "string", "maxLength": 400},
        "kind": {"enum": ["person", "place", "organisation", "event"]},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "score": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 5},
        "extra": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
RECORD = {"name": "Zoë Quinn-Parker", "summary": "Keeps bees on the roof of the old town hall; sells honey on Sundays.",
          "kind": "person", "age": 43, "score": 0.75, "tags": ["bees", "honey", "market"],
          "extra": {"street": "Mill Lane", "city": "Leeds"}}


def replay(grammar: CompiledGrammar, ids: list[int], forcing: bool) -> tuple[list[float], list[float]]:
    """(mask us, accept us) of each token; the clock's own cost is not taken off."""
    matcher, masks, accepts = grammar.matcher(forcing=forcing), [], []
    budget = matcher.min_tokens() + 4096
    for left, token in enumerate(ids):
        start = time.perf_counter_ns()
        matcher.row(budget - left)
        middle = time.perf_counter_ns()
        matcher.accept(token)
        end = time.perf_counter_ns()
        masks.append((middle - start) / 1e3)
        accepts.append((end - middle) / 1e3)
    matcher.close()
    return masks, accepts


def _line(name: str, times: list[float]) -> str:
    p50, p90, p99 = np.percentile(times, [50, 90, 99])
    return f"{name:14} n {len(times):5}  p50 {p50:8.2f}  p90 {p90:8.2f}  p99 {p99:8.2f}  max {max(times):8.1f} us"


def main(arguments: list[str]) -> None:
    start = time.perf_counter()
    vocabulary = file_vocabulary(arguments[0])
    print(f"vocabulary of {vocabulary.size}: {time.perf_counter() - start:.2f} s with its file")
    schema: Any = json.loads(Path(arguments[1]).read_text()) if len(arguments) > 1 else SCHEMA
    records = [json.loads(Path(p).read_text()) for p in arguments[2:]] or [RECORD]
    start = time.perf_counter()
    rules = compile_constraint(JsonSchema(json.dumps(schema)))
    middle = time.perf_counter()
    grammar = CompiledGrammar(rules, vocabulary, MaskTable(vocabulary.size))
    end = time.perf_counter()
    print(f"front {1e3 * (middle - start):.1f} ms, tables and distances {1e3 * (end - middle):.1f} ms, "
          f"U(start) {grammar.min_tokens}, states {len(grammar.tables.states)}")
    for record in records:
        ids = vocabulary.encode(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
        for forcing in (False, True):
            for name in ("cold", "warm"):
                try:
                    masks, accepts = replay(grammar, ids, forcing)
                except ValueError as error:
                    print(f"forcing {forcing}: {error}")
                    break
                label = f"{name}{' forced' if forcing else ''}"
                print(_line(f"mask {label}", masks))
                print(_line(f"accept {label}", accepts))


if __name__ == "__main__":
    main(sys.argv[1:])
