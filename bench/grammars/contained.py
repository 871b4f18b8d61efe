"""From the text of a schema to its first mask, compiled as the server does it: in a process that can be killed.

    python -m bench.grammars.contained HARNESS TOKENIZER.json [LIMIT]

Wall time, as two processes take part: the message there, the compilation, the message back, the binding to the
vocabulary, the first row. The worker is warm. LIMIT: an even thinning to so many real schemas.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import numpy as np

from espalier.grammars.compiled import CompiledGrammar
from espalier.grammars.constraint import AnyObject, Constraint, JsonSchema
from espalier.grammars.errors import ConstraintError
from espalier.grammars.ir import Grammar
from espalier.grammars.rows import MaskTable
from espalier.runtime.compile_process import CompileProcess

from .table import ARTIFICIAL
from .vocabulary import file_vocabulary


def schemas(harness: Path, limit: int) -> list[Constraint]:
    """The real schemas of the harness, in its profile."""
    paths = sorted(path for path in (harness / "data" / "schemas").glob("*.json")
                   if not path.name.startswith(ARTIFICIAL))
    chosen = paths if not limit else [paths[int(i * len(paths) / limit)] for i in range(min(limit, len(paths)))]
    return [JsonSchema(json.dumps(json.loads(path.read_text(encoding="utf-8"))["schema"]), spacing="spaced")
            for path in chosen]


def first_masks(harness: Path, tokenizer: Path, limit: int = 0) -> list[float]:
    """Milliseconds for each schema that is accepted."""
    vocabulary, taken = file_vocabulary(tokenizer), []
    table, decoder = MaskTable(vocabulary.size), msgspec.msgpack.Decoder(Grammar)
    with closing(CompileProcess()) as pool:
        pool.compile(AnyObject())
        for constraint in schemas(harness, limit):
            start = time.perf_counter()
            try:
                grammar = CompiledGrammar(decoder.decode(pool.compile(constraint)), vocabulary, table)
            except ConstraintError:
                continue
            matcher = grammar.matcher()
            matcher.row(None)
            taken.append(1e3 * (time.perf_counter() - start))
            matcher.close()
    return taken


def main(arguments: list[str]) -> None:
    taken = first_masks(Path(arguments[0]), Path(arguments[1]), int(arguments[2]) if len(arguments) > 2 else 0)
    p50, p99 = np.percentile(taken, [50, 99])
    print(f"{len(taken)} schemas: p50 {p50:.1f} mean {np.mean(taken):.1f} p99 {p99:.1f} max {max(taken):.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
