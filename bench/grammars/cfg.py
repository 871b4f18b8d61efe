"""Times of masks for written grammars: GBNF and Lark forms of the same languages, and texts that fit them.

    python -m bench.grammars.cfg TOKENIZER.json GRAMMAR.json...

GRAMMAR.json: {"source": {"ebnf": ..., "lark": ...}, "tests": [{"valid": true, "data": text}]}. For each grammar and
dialect: the verdict on its texts, the time to compile, and microseconds of masks (overlays of laws 4 and 5 off), first
pass (cold) and second (warm), and of accepting a token. Writes bench/results/grammars.cfg.json.
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
from espalier.grammars.constraint import Gbnf, Lark
from espalier.grammars.matcher import TokenRejected
from espalier.grammars.rows import MaskTable
from espalier.grammars.vocabulary import Vocabulary

from ..report import Measure, save
from .vocabulary import file_vocabulary

DIALECTS = {"ebnf": Gbnf, "lark": Lark}


def accepts(grammar: CompiledGrammar, ids: list[int]) -> bool:
    matcher = grammar.matcher(forcing=False, closing=False)
    try:
        for token in ids:
            matcher.accept(token)
    except TokenRejected:
        return False
    return matcher.may_end()


def times(grammar: CompiledGrammar, ids: list[int]) -> tuple[list[float], list[float]]:
    """(mask us, accept us) of each token by the thread's clock, its own cost included."""
    matcher, masks, steps = grammar.matcher(forcing=False, closing=False), [], []
    for token in ids:
        start = time.thread_time_ns()
        matcher.row(None)
        middle = time.thread_time_ns()
        matcher.accept(token)
        end = time.thread_time_ns()
        masks.append((middle - start) / 1e3)
        steps.append((end - middle) / 1e3)
    matcher.close()
    return masks, steps


def measure(name: str, source: str, dialect: str, tests: list[Any], vocabulary: Vocabulary) -> list[Measure]:
    start = time.thread_time_ns()
    compiled = compile_constraint(DIALECTS[dialect](source))
    middle = time.thread_time_ns()
    grammar = CompiledGrammar(compiled, vocabulary, MaskTable(vocabulary.size))
    end = time.thread_time_ns()
    right = sum(accepts(grammar, vocabulary.encode(test["data"])) == test["valid"] for test in tests)
    grammar = CompiledGrammar(compiled, vocabulary, MaskTable(vocabulary.size))  # nothing remembered
    texts = [vocabulary.encode(test["data"]) for test in tests if test["valid"]]
    cold, warm = ([times(grammar, ids) for ids in texts] for _ in range(2))
    rows = [Measure(f"{name}, texts right of {len(tests)}", "", right),
            Measure(f"{name}, compile", "ms", (middle - start) / 1e6),
            Measure(f"{name}, bind to the vocabulary", "ms", (end - middle) / 1e6)]
    for what, runs, part in (("mask cold", cold, 0), ("mask warm", warm, 0), ("accept", warm, 1)):
        taken = [t for run in runs for t in run[part]]
        for quantile, value in zip(("p50", "p99", "max"), np.percentile(taken, [50, 99, 100]), strict=True):
            rows.append(Measure(f"{name}, {what} {quantile}", "us", float(value)))
    return rows


def main(arguments: list[str]) -> None:
    vocabulary = file_vocabulary(arguments[0])
    rows: list[Measure] = []
    for path in map(Path, arguments[1:]):
        case = json.loads(path.read_text(encoding="utf-8"))
        for dialect in DIALECTS:
            if dialect in case["source"]:
                name = f"{path.stem.removeprefix('cfg_')} {dialect}"
                rows += measure(name, case["source"][dialect], dialect, case["tests"], vocabulary)
    save("grammars.cfg", rows)


if __name__ == "__main__":
    main(sys.argv[1:])
