"""The form of a GPU bench's results: a line for each as it is found, and one JSON file, rewritten after each. It names
the commit (of the checkout, or as the command says where there is none), the versions and the ceilings of the card."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
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


PEERS = ("flashinfer-python", "xgrammar")
NAMES = {"us": "value", "floor_us": "floor", "peer_us": "peer_value"}


def row_of(fields: dict[str, Any]) -> dict[str, Any]:
    """A row as all results files have it: work, unit, value, floor, peer, peer_value, and what explains it."""
    named = {NAMES.get(key, key): value for key, value in fields.items() if value not in (None, {})}
    return {"work": named.pop("work"), "unit": "us", **named}


def options(about: str | None, name: str) -> argparse.ArgumentParser:
    """What every bench takes. about: the docstring of its file."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names to measure")
    parser.add_argument("--out", type=Path, default=Path(f"bench/results/{name}.json"))
    parser.add_argument("--seconds", type=float, default=540, help="stops by itself")
    parser.add_argument("--commit", default="", help="what the results name where there is no checkout")
    return parser


def versions() -> dict[str, str]:
    """Of torch, triton and the peers; "missing" for a peer that is not installed."""
    found = {"torch": torch.__version__, "triton": triton.__version__}
    for name in PEERS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
            print(f"{name}: missing, its rows are left out", flush=True)
    return found


def _commit() -> str:
    try:
        found = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return found.stdout.strip() or "unknown"


def _command(args: argparse.Namespace) -> str:
    """What was asked for, without where it went and how long it might take."""
    asked = {name: value for name, value in vars(args).items() if value and name not in ("out", "seconds", "commit")}
    words = [word for name, value in asked.items() for word in (f"--{name}", *([] if value is True else [str(value)]))]
    return shlex.join(["python", "-m", f"bench.kernels.{Path(sys.argv[0]).stem}", *words])


@dataclass
class Record:
    head: dict[str, Any]
    path: Path
    until: float
    rows: list[Result] = field(default_factory=list)

    @classmethod
    def begin(cls, name: str, limits: Ceilings, args: argparse.Namespace) -> Record:
        """args: of `options`."""
        print(f"read {limits.read / 1e12:.2f}, copy {limits.copy / 1e12:.2f} TB/s, {limits.matrix / 1e12:.0f} TFLOP/s")
        return cls({
            "name": name, "device": torch.cuda.get_device_name(), "commit": args.commit or _commit(),
            "command": _command(args),
            "versions": versions(), "date": time.strftime("%Y-%m-%d"), "ceilings": asdict(limits),
        }, args.out, time.monotonic() + args.seconds)

    def add(self, measure: Callable[[], Result]) -> bool:
        """False, and nothing measured, when the time is up."""
        if time.monotonic() > self.until:
            print("out of time", flush=True)
            return False
        result = measure()
        self.rows.append(result)
        print(result.line(), flush=True)
        self.write()
        return True

    def write(self) -> None:
        record = self.head | {"rows": [row_of(asdict(row)) for row in self.rows]}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
