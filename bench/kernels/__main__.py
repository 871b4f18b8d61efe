"""All kernel benches: python -m bench.kernels [--device cuda] [--only NAME] [--seconds 540]

Each bench runs in a process of its own and writes its JSON as it goes; what the time does not allow is left out.
"""

from __future__ import annotations

import argparse
import pkgutil
import subprocess
import sys
import time

import bench.kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda",), default="cuda")
    parser.add_argument("--only", default="", help="part of a bench's name")
    parser.add_argument("--seconds", type=float, default=540)
    args = parser.parse_args()
    until, failed = time.monotonic() + args.seconds, 0
    names = [info.name for info in pkgutil.iter_modules(bench.kernels.__path__) if info.name.startswith("bench_")]
    for name in (name for name in names if args.only in name):
        left = until - time.monotonic()
        if left < 10:
            print(f"{name}: out of time")
            continue
        print(name, flush=True)
        command = [sys.executable, "-m", f"bench.kernels.{name}", "--seconds", str(left - 5)]
        failed += subprocess.run(command, check=False, timeout=left + 60).returncode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
