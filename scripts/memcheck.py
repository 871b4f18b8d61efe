"""Every Triton kernel on tiny shapes under compute-sanitizer, for bad accesses and races: python -m scripts.memcheck

[--only NAME] [--tool memcheck|racecheck] [--jobs N]. Each (group of kernels, tool) is a process of its own with torch's
allocator off, so that an access past the end of a tensor is one past the end of an allocation. Needs a GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

import torch

from .memory_cases import CASES

TOOLS = ("memcheck", "racecheck")
# The exit status that the sanitizer is asked for where it found something.
FOUND = 97


def sanitizer() -> str:
    path = shutil.which("compute-sanitizer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/cuda/bin")))
    if path is None:
        sys.exit("compute-sanitizer is not here: it comes with the CUDA toolkit")
    return path


def checked(tool: str, case: str) -> str:
    command = [sanitizer(), "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, "-m", __spec__.name,
               "--run", case]
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    text = done.stdout + done.stderr
    last = [line for line in text.splitlines() if "ERROR SUMMARY" in line or "RACECHECK SUMMARY" in line]
    if done.returncode == 0 and last and f"{case} done" in text:
        return f"ok    {last[-1].strip('= ')}"
    return f"FAIL  status {done.returncode}\n" + "\n".join(text.splitlines()[-60:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of the groups")
    parser.add_argument("--tool", choices=TOOLS, action="append", help="both unless said")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--run", choices=sorted(CASES), help="run a group in this process, without the sanitizer")
    args = parser.parse_args()
    if args.run:
        CASES[args.run]()
        torch.cuda.synchronize()
        print(f"{args.run} done", flush=True)
        return
    pairs = [(tool, case) for tool in args.tool or TOOLS for case in CASES if args.only in case]
    failed = 0
    with ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(checked, *pair): pair for pair in pairs}
        for future in as_completed(running):
            found = future.result()
            failed += not found.startswith("ok")
            print(f"{' '.join(running[future]):32} {found}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
