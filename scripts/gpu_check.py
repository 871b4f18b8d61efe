"""Checks that only a GPU can make: python -m scripts.gpu_check [--only NAME] [--jobs N]. Fails when one of them does.

Each file of `gpu_checks` runs in a process of its own, a few at a time: most of their time goes to compiling.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

from . import gpu_checks

NAMES = tuple(info.name for info in pkgutil.iter_modules(gpu_checks.__path__))


def check(name: str) -> bool:
    """Runs one file here, and prints a line for each of its checks. True where all are good."""
    failed, begin = 0, time.monotonic()

    def report(what: str, good: bool, detail: str) -> None:
        nonlocal failed
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'}  {what:52} {detail}", flush=True)

    importlib.import_module(f"{gpu_checks.__name__}.{name}").run(report)
    print(f"      {name}: {time.monotonic() - begin:.0f} s", flush=True)
    return not failed


def checked(name: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", __spec__.name, "--run", name]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the files in gpu_checks")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--run", choices=NAMES, help="run one file in this process")
    args = parser.parse_args()
    if args.run:
        sys.exit(0 if check(args.run) else 1)
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        for running in as_completed([pool.submit(checked, name) for name in NAMES if args.only in name]):
            done = running.result()
            failed += done.returncode != 0
            print(done.stdout, end="", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
