"""All benchmarks of the small model, one thread.

    python -m bench [--model NAME_OR_PATH] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable

from . import compiling, import_time, latency, masks, model
from .report import Measure, save

SUITES: dict[str, Callable[[str], list[Measure]]] = {
    "import_time": lambda name: import_time.measure(),
    "model": model.measure,
    "latency": lambda name: asyncio.run(latency.measure(name)),
    "masks": masks.measure,
    "compiling": lambda name: compiling.measure(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m", help="a name of `espalier models list`, or a .gguf file")
    parser.add_argument("--only", nargs="*", choices=SUITES, default=list(SUITES))
    options = parser.parse_args()
    for name in options.only:
        print(f"{name}")
        save(name, SUITES[name](options.model))


if __name__ == "__main__":
    main()
