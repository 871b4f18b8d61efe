"""What the harness does not time: a batch of rows in one call, a counted class, the row id alone.

    python shapes.py HARNESS TOKENIZER.json ENGINE      (by the interpreter that has ENGINE; prints one JSON line)

CPU time of the process, the clock's own cost included; medians of `REPEATS` calls or of the text's masks.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from functools import partial
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", RAYON_NUM_THREADS="1", NUMBA_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

BATCH, REPEATS = 256, 30
RECORD = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
                                           "tags": {"type": "array", "items": {"type": "string"}}}}
TEXT = '{"name": "Zoe Quinn-Parker of Leeds", "age": 43, "tags": ["bees", "honey", "market"]}'
CLASS = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[A-Za-z ,.]{1,500}$"}},
         "required": ["a"], "additionalProperties": False}
PROSE = "The quick brown fox jumps over the lazy dog while seven wizards box quietly. " * 5


def timed(call: Any) -> float:
    start = time.process_time_ns()
    call()
    return (time.process_time_ns() - start) / 1e3


def batch(engine: Any, tok: Any) -> float:
    """Microseconds to fill BATCH rows, each matcher at its own place of TEXT."""
    compiled, ids, matchers = engine.compile("json_schema", RECORD), tok.encode(TEXT), []
    mask = tok.new_mask(BATCH)
    for k in range(BATCH):
        matcher = engine.start(compiled)
        for token in ids[: k % len(ids)]:
            matcher.fill(mask[k])
            matcher.accept(token)
        matchers.append(matcher)
    engine.batch_fill(matchers, mask)
    return statistics.median(timed(lambda: engine.batch_fill(matchers, mask)) for _ in range(REPEATS))


def counted_class(engine: Any, tok: Any) -> float:
    """Microseconds of a mask along PROSE in `CLASS`: the median, from cold."""
    compiled = engine.compile("json_schema", CLASS)
    matcher, mask, taken = engine.start(compiled), tok.new_mask(1)[0], []
    for token in tok.encode(json.dumps({"a": PROSE.strip()})):
        taken.append(timed(lambda: matcher.fill(mask)))
        if not (int(mask[token >> 5]) >> (token & 31)) & 1 or not matcher.accept(token):
            return float("nan")
    return statistics.median(taken)


def row_id(engine: Any, tok: Any) -> float | None:
    """Microseconds of the row id alone, warm, net of the clock; None for engines that have none."""
    compiled, ids = engine.compile("json_schema", RECORD), tok.encode(TEXT)
    if not hasattr(compiled, "matcher"):
        return None
    for _ in range(2):
        matcher = compiled.matcher(forcing=False, closing=False)
        taken = []
        for token in ids:
            taken.append(timed(partial(matcher.row, None)))
            matcher.accept(token)
    return statistics.median(taken) - statistics.median(timed(lambda: None) for _ in range(2000))


def main(harness: str, tokenizer: str, name: str) -> None:
    sys.path.insert(0, harness)
    import engines  # type: ignore[import-not-found]  # (the harness's)
    from tokdata import TokData  # type: ignore[import-not-found]

    tok = TokData(tokenizer)
    engine = engines.load(name, tok)
    print(json.dumps({"batch": batch(engine, tok), "class": counted_class(engine, tok), "row": row_id(engine, tok)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
