"""Every Triton kernel on tiny shapes under compute-sanitizer, for bad accesses and races: python -m scripts.memcheck

[--only NAME] [--tool memcheck|racecheck]. Each (group of kernels, tool) is a process of its own with torch's caching
allocator off, so that an access past the end of a tensor is one past the end of an allocation. Needs a GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .memory_cases import CASES

TOOLS = ("memcheck", "racecheck")
# The exit status that the sanitizer is asked for where it found something.
FOUND = 97


def sanitizer() -> str:
    path = shutil.which("compute-sanitizer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/cuda/bin")))
    if path is None:
        sys.exit("compute-sanitizer is not here: it comes with the CUDA toolkit")
    return path


def started(tool: str, case: str, log: Path) -> subprocess.Popen[bytes]:
    command = [sanitizer(), "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, "-m", __spec__.name,
               "--run", case]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)


def verdict(status: int, text: str) -> str:
    last = [line for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line]
    if status == 0 and last and "done" in text:
        return f"ok    {last[-1].strip('= ')}"
    return f"FAIL  status {status}\n" + "\n".join(text.splitlines()[-60:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the groups")
    parser.add_argument("--tool", choices=TOOLS, action="append", help="both unless said")
    parser.add_argument("--run", choices=sorted(CASES), help="run a group in this process, without the sanitizer")
    args = parser.parse_args()
    if args.run:
        CASES[args.run]()
        print(f"{args.run} done", flush=True)
        return
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for tool in args.tool or TOOLS:
            for case in (case for case in CASES if args.only in case):
                log = Path(folder) / f"{tool} {case}"
                running[log] = started(tool, case, log)
        for log, process in running.items():
            status = process.wait()
            found = verdict(status, log.read_text(encoding="utf-8", errors="replace"))
            failed += not found.startswith("ok")
            print(f"{log.name:32} {found}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
