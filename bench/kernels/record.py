"""The form of a GPU bench's results: a line for each as it is found, and one JSON file, rewritten after each."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton

from .device import Ceilings


@dataclass(frozen=True)
class Result:
    """us: of one call. floor_us: what this card would take at its measured ceilings. more: what explains it."""

    work: str
    us: float
    floor_us: float
    peer: str | None = None
    peer_us: float | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        peer = f"  {self.peer} {self.peer_us:.0f}" if self.peer_us else ""
        return f"{self.work:48}{self.us:9.1f} us  floor {self.floor_us:7.1f}  x{self.us / self.floor_us:6.2f}{peer}"


NAMES = {"us": "value", "floor_us": "floor", "peer_us": "peer_value"}


def row_of(fields: dict[str, Any]) -> dict[str, Any]:
    """A row as all results files have it: work, unit, value, floor, peer, peer_value, and what explains it."""
    named = {NAMES.get(key, key): value for key, value in fields.items() if value not in (None, {})}
    return {"work": named.pop("work"), "unit": "us", **named}


@dataclass
class Record:
    head: dict[str, Any]
    path: Path
    until: float
    rows: list[Result] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str, limits: Ceilings, path: Path, seconds: float) -> Record:
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
        print(f"read {limits.read / 1e12:.2f}, copy {limits.copy / 1e12:.2f} TB/s, {limits.matrix / 1e12:.0f} TFLOP/s")
        return cls({
            "name": name, "device": torch.cuda.get_device_name(), "commit": commit.stdout.strip() or "unknown",
            "versions": {"torch": torch.__version__, "triton": triton.__version__}, "date": time.strftime("%Y-%m-%d"),
            "ceilings": asdict(limits),
        }, path, time.monotonic() + seconds)

    def add(self, measure: Callable[[], Result]) -> bool:
        """False, and nothing measured, when the time is up."""
        if time.monotonic() > self.until:
            print("out of time", flush=True)
            return False
        result = measure()
        self.rows.append(result)
        print(result.line(), result.more.get("passes", ""), flush=True)
        record = self.head | {"rows": [row_of(asdict(row)) for row in self.rows]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        return True
