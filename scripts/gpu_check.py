"""Checks that only a GPU can make: python -m scripts.gpu_check [--only NAME]. Fails when one of them does."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time

from . import gpu_checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the files in gpu_checks")
    only = parser.parse_args().only
    failed = 0

    def report(name: str, good: bool, detail: str) -> None:
        nonlocal failed
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'}  {name:52} {detail}", flush=True)

    for info in pkgutil.iter_modules(gpu_checks.__path__):
        if only in info.name:
            begin = time.monotonic()
            importlib.import_module(f"{gpu_checks.__name__}.{info.name}").run(report)
            print(f"      {info.name}: {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
