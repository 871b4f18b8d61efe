"""How long `import espalier` takes in a fresh interpreter. Aim: 100 ms."""

from __future__ import annotations

import subprocess
import sys
import time

from .report import Measure

BARE = "pass"
IMPORT = "import espalier"


def seconds(code: str, repeats: int = 7) -> float:
    """Median wall time of a fresh interpreter that runs `code`."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        taken.append(time.perf_counter() - start)
    return sorted(taken)[repeats // 2]


def measure() -> list[Measure]:
    return [Measure("import espalier, beyond a bare interpreter", "ms", 1e3 * (seconds(IMPORT) - seconds(BARE)))]
