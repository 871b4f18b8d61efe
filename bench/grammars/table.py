"""The table of grammar engines, from what the harness wrote: one row a quantity, one column an engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ARTIFICIAL = ("Synthesized", "Handwritten")  # splits of rare keywords, left out


@dataclass(frozen=True)
class Run:
    """One engine over the cases. shapes: what shapes.py measured. clock_us: what reading the clock adds to each mask
    and each accepted token. resident_mb, most_mb: memory of the process at the end and at most."""

    version: str
    cases: dict[str, dict[str, Any]]
    resident_mb: float
    most_mb: float
    clock_us: float
    shapes: dict[str, float | None]


@dataclass(frozen=True)
class Row:
    """values: by engine, None where it has none. must, aim: ours to reach."""

    work: str
    unit: str
    values: dict[str, float | None]
    must: float | None = None
    aim: float | None = None

    def line(self) -> str:
        cells = "".join(f"{'-' if value is None else f'{value:,.2f}':>12}" for value in self.values.values())
        return f"{self.work:<50}{cells}{self.must or '':>10} {self.unit}"


def read_run(path: Path, shapes: dict[str, float | None]) -> Run:
    """The result file of one engine; a case that was cut off is not there."""
    version, cases, resident, most, clock = "", {}, 0.0, 0.0, 0.0
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "init_s" in entry:
            version, clock = version or entry["version"], entry["clock_cost_us"]
        elif "case" in entry and not entry["case"].startswith(ARTIFICIAL):
            cases[entry["case"]] = entry
        resident, most = entry.get("rss", resident), max(most, entry.get("rss", 0.0), entry.get("peak_mb", 0.0))
    return Run(version, cases, resident, most, clock, shapes)


def _tests(cases: Iterable[dict[str, Any]], valid: bool | None = None) -> list[dict[str, Any]]:
    return [test for case in cases for test in case.get("tests", ())
            if "skip" not in test and (valid is None or test["valid"] == valid)]


def _right(case: dict[str, Any]) -> bool:
    return "tests" in case and all(test["ok"] == test["valid"] for test in _tests([case]))


def _cold_us(case: dict[str, Any]) -> float:
    taken = sum(sum(test.get("us", ())) + test.get("acc_us", 0) for test in _tests([case]))
    return float(case["compile_us"] + taken)


def _share(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _quantities(cases: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """Every row of one engine on these cases."""
    valid, invalid, tests = _tests(cases, True), _tests(cases, False), _tests(cases)
    masks = np.array([us for test in tests for us in test.get("us", ())] or [np.nan])
    compiled = [case for case in cases if "tests" in case]
    ms = np.array([case["compile_us"] / 1e3 for case in compiled] or [np.nan])
    cold = np.array([_cold_us(case) / 1e3 for case in compiled] or [np.nan])
    steps = sum(test.get("at", 0) for test in tests)
    return {
        "right": _share(sum(map(_right, cases)), len(cases)),
        "lax": _share(sum(test["ok"] is True for test in invalid), len(invalid)),
        "strict": _share(sum(test["ok"] is not True for test in valid), len(valid)),
        "mask p50": float(np.percentile(masks, 50)), "mask mean": float(masks.mean()),
        "mask p99": float(np.percentile(masks, 99)), "mask max": float(masks.max()),
        "accept": sum(test.get("acc_us", 0) for test in tests) / max(steps, 1),
        "compile p50": float(np.percentile(ms, 50)), "compile p99": float(np.percentile(ms, 99)),
        "cold p50": float(np.percentile(cold, 50)), "cold mean": float(cold.mean()),
        "cold p99": float(np.percentile(cold, 99)),
    }


ROWS = (  # key, words, unit, must, aim
    ("right", "schemas fully right", "%", 95, 98),
    ("lax", "invalid instances accepted", "%", 0, 0),
    ("strict", "valid instances refused by an accepted schema", "%", 0, 0),
    ("mask p50", "mask p50", "us", 1.2, 1.0),
    ("mask mean", "mask mean", "us", 8, 5),
    ("mask p99", "mask p99", "us", 120, 60),
    ("mask max", "mask max", "us", 2000, 1000),
    ("accept", "accept a token, mean", "us", 1.5, 1),
    ("compile p50", "compile p50", "ms", 3, 1.5),
    ("compile p99", "compile p99", "ms", 40, 20),
    ("cold p50", "compile, masks and accepts of a schema p50", "ms", None, None),
    ("cold mean", "compile, masks and accepts of a schema mean", "ms", None, None),
    ("cold p99", "compile, masks and accepts of a schema p99", "ms", None, None),
)
SHAPES = (("row", "row id alone, warm, net of the clock", "us", 0.3, 0.15),
          ("batch", "batch of 256 rows", "us", 200, 100),
          ("class", "[A-Za-z ,.]{1,500}, mask p50", "us", 10, 2))


def rows_of(runs: dict[str, Run]) -> list[Row]:
    """All rows. Verdicts: on the cases that every engine was given; times: on those that every engine compiled."""
    given = sorted(set.intersection(*(set(run.cases) for run in runs.values())))
    both = [name for name in given if all("tests" in run.cases[name] for run in runs.values())]
    verdicts = {name: _quantities([run.cases[case] for case in given]) for name, run in runs.items()}
    times = {name: _quantities([run.cases[case] for case in both]) for name, run in runs.items()}
    rows = [Row("real schemas given to every engine", "", dict.fromkeys(runs, len(given))),
            Row("of these compiled by every engine (times)", "", dict.fromkeys(runs, len(both)))]
    for key, words, unit, must, aim in ROWS:
        source = verdicts if unit == "%" else times
        rows.append(Row(words, unit, {name: source[name][key] for name in runs}, must, aim))
    for key, words, unit, must, aim in SHAPES:
        rows.append(Row(words, unit, {name: run.shapes.get(key) for name, run in runs.items()}, must, aim))
    clocks: dict[str, float | None] = {name: run.clock_us for name, run in runs.items()}
    rows.append(Row("of each mask and accepted token, the clock alone", "us", clocks))
    rows.append(Row("memory at the end", "MB", {name: run.resident_mb for name, run in runs.items()}, 600, 400))
    return [*rows, Row("most memory", "MB", {name: run.most_mb for name, run in runs.items()})]
