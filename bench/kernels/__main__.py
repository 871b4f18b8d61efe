"""All kernel benches, the whole table: python -m bench.kernels [--device cuda] [--only NAME] [--seconds 540]

Each bench runs in a process of its own and writes its JSON as it goes; what the time does not allow is left out. One
that fails does not stop the others.
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
    parser.add_argument("--commit", default="", help="what the results name where there is no checkout")
    args = parser.parse_args()
    until, failed = time.monotonic() + args.seconds, 0
    names = [info.name for info in pkgutil.iter_modules(bench.kernels.__path__) if info.name.startswith("bench_")]
    for name in (name for name in names if args.only in name):
        left = until - time.monotonic()
        if left < 10:
            print(f"{name}: out of time")
            continue
        print(name, flush=True)
        command = [sys.executable, "-m", f"bench.kernels.{name}", "--seconds", f"{left - 5:.0f}"]
        begin = time.monotonic()
        failed += subprocess.run([*command, "--commit", args.commit], check=False, timeout=left + 60).returncode != 0
        print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
