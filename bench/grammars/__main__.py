"""Our grammar engine and its peers, side by side on the same schemas: writes bench/results/NAME.json.

    python -m bench.grammars HARNESS TOKENIZER.json [--peers PYTHON [--peer NAME]...] [--limit N] [--budget SECONDS]
        [--reuse FOLDER] [--name NAME]

HARNESS: a folder with bench.py, the harness of grammar engines, which runs each engine in a process of its own and
kills cases that hang. PYTHON: the interpreter that has llguidance and xgrammar, of which --peer
names those to run; without it ours runs alone. Times are
thread CPU time, one thread, the clock's own cost included. Real schemas only.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ..report import RESULTS, commit, cpu_name
from .contained import first_masks
from .table import Row, Run, read_run, rows_of

HERE = Path(__file__).resolve().parent
OURS = "espalier"
PEERS = {"llguidance": "llguidance", "xgrammar": "xgrammar-loose"}


def run_engine(options: argparse.Namespace, label: str, folder: Path) -> Run:
    """One engine through the harness; a result file that is there already is read again."""
    python = sys.executable if label == OURS else options.peers
    name = f"{HERE / 'adapter.py'}:Engine" if label == OURS else PEERS[label]
    result, shapes = folder / f"{label}.jsonl", folder / f"{label}.shapes.json"
    if not result.exists():
        subprocess.run([python, options.harness / "bench.py", name, "--tok", options.tokenizer, "--out", result,
                        "--limit", str(options.limit), "--timeout", "25", "--budget-s", str(options.budget)],
                       check=True)
    if not shapes.exists():
        done = subprocess.run([python, "-P", HERE / "shapes.py", options.harness, options.tokenizer, name], check=True,
                              capture_output=True, text=True)
        shapes.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
    return read_run(result, json.loads(shapes.read_text(encoding="utf-8")))


def contained_rows(options: argparse.Namespace) -> list[Row]:
    """Ours alone: the peers compile in the process that serves. Wall time, so the machine should be quiet."""
    taken = np.array(first_masks(options.harness, options.tokenizer, options.limit))
    return [Row(f"schema to first mask, in a process, {name}", "ms", {OURS: float(np.percentile(taken, share))})
            for name, share in (("p50", 50), ("p99", 99))]


def _package(tokenizer: Path) -> str:
    """What a tokenizer's file belongs to, without where it lies."""
    return next((part for part in reversed(tokenizer.parts) if "tokenizer-" in part), tokenizer.parent.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("harness", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--peers", help="an interpreter with llguidance and xgrammar")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this one of them (may be repeated)")
    parser.add_argument("--limit", type=int, default=0, help="an even thinning to so many cases; 0: all")
    parser.add_argument("--budget", type=float, default=3600, help="seconds for each engine")
    parser.add_argument("--reuse", type=Path, help="keep the harness's files here, and use those that are there")
    parser.add_argument("--name", default="grammars", help="of the result: one for each vocabulary")
    options = parser.parse_args()
    options.harness, options.tokenizer = options.harness.resolve(), options.tokenizer.resolve()
    peers = (options.peer or [*PEERS]) if options.peers else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.reuse or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        runs = {label: run_engine(options, label, folder) for label in (OURS, *peers)}
    rows = [*rows_of(runs), *contained_rows(options)]
    record = {
        "name": options.name, "device": f"{cpu_name()}, one thread",
        "versions": {"python": platform.python_version(), **{label: run.version for label, run in runs.items()}},
        "commit": commit(), "date": time.strftime("%Y-%m-%d"),
        "command": f"python -m bench.grammars HARNESS {_package(options.tokenizer)}/tokenizer.json"
                   f"{' --peers PYTHON' if options.peers else ''}"
                   f"{''.join(f' --peer {peer}' for peer in options.peer or ())}"
                   f" --limit {options.limit} --budget {options.budget:g}"
                   f"{'' if options.name == 'grammars' else f' --name {options.name}'}",
        "rows": [asdict(row) for row in rows],
    }
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{options.name}.json").write_text(text, encoding="utf-8")
    print(f"{'':<50}" + "".join(f"{label:>12}" for label in runs) + f"{'must':>10}")
    print("\n".join(row.line() for row in rows))


if __name__ == "__main__":
    main()
