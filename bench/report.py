"""The form of a result: one JSON file a run, with what is needed to judge it."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("torch", "numpy", "numba", "tokenizers")


@dataclass(frozen=True)
class Measure:
    """floor: the best that the machine allows, computed. peer: who else was measured, and what it reached."""

    work: str
    unit: str
    value: float
    floor: float | None = None
    peer: str | None = None
    peer_value: float | None = None

    def line(self) -> str:
        against = f"   {self.peer} {self.peer_value:,.1f}" if self.peer_value is not None else ""
        return f"{self.work:<52}{self.value:>12,.2f} {self.unit}{against}"


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """The commit, with -dirty when anything but results differs from it: they are no change of the code."""
    git = ["git", "-C", str(RESULTS.parent.parent)]
    name = subprocess.run([*git, "describe", "--always"], capture_output=True, text=True, check=False).stdout.strip()
    changes = subprocess.run([*git, "status", "--porcelain", "--", ".", ":!bench/results"], capture_output=True,
                             text=True, check=False).stdout.strip()
    return (name or "unknown") + ("-dirty" if changes else "")


def _module() -> str:
    """The one that runs, as python -m takes it."""
    path = Path(sys.argv[0]).resolve().relative_to(RESULTS.parent.parent)
    return ".".join(path.with_suffix("").parts).removesuffix(".__main__")


def save(name: str, rows: Sequence[Measure], device: str | None = None, checkout: str | None = None) -> Path:
    """Write results/<name>.json and print the rows. checkout: the commit, where there is no repository to ask."""
    record = {
        "name": name,
        "device": device or f"{cpu_name()}, one thread",
        "versions": {"python": platform.python_version(),
                     **{package: importlib.metadata.version(package) for package in PACKAGES}},
        "commit": checkout or commit(),
        "date": time.strftime("%Y-%m-%d"),
        "command": " ".join(["python -m", _module(), *sys.argv[1:]]),
        "rows": [{key: value for key, value in asdict(row).items() if value is not None} for row in rows],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(row.line() for row in rows))
    return path
