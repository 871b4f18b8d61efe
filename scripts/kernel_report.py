"""Compiles every kernel for sm_90 without a GPU and reads the machine code.

    python -m scripts.kernel_report [--only NAME]

Prints registers, spills, shared memory and the widths of global loads and stores. Fails on a spill, on a kernel that
must use wgmma and does not or uses one at a time, and where the loads that must be 16 bytes wide are not.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from . import kernel_cases
from .kernel_cases.case import Case

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Report:
    registers: int
    spilled: int
    shared: int
    loads: Counter[str]
    stores: Counter[str]
    wgmma: int
    wgmma_groups: int

    @property
    def widest_load(self) -> int:
        return max((int(width) for width in self.loads), default=0)


def compiled(case: Case) -> triton.compiler.CompiledKernel:
    names = case.kernel.arg_names
    signature = {name: case.types.get(name, "constexpr") for name in names}
    known = {(names.index(name),): value for name, value in case.constants.items()}
    attributes = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(names)
        if signature[name].startswith("*") or name in case.aligned
    }
    source = ASTSource(fn=case.kernel, signature=signature, constexprs=known, attrs=attributes)
    options = {"num_warps": case.warps, "num_stages": case.stages, **case.options}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def report(case: Case) -> Report:
    kernel = compiled(case)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        usage = subprocess.run(
            [CUOBJDUMP, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
        sass = subprocess.run([CUOBJDUMP, "--dump-sass", file.name], capture_output=True, text=True, check=True).stdout
    numbers = {key: int(value) for key, value in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)}
    return Report(
        registers=numbers["REG"], spilled=numbers["STACK"] + numbers["LOCAL"] + len(re.findall(r"\bSTL\b", sass)),
        shared=kernel.metadata.shared, loads=_widths(sass, "LDG"), stores=_widths(sass, "STG"),
        wgmma=len(re.findall(r"\bHGMMA\b", sass)), wgmma_groups=len(re.findall(r"\bWARPGROUP\.ARRIVE\b", sass)),
    )


def _widths(sass: str, instruction: str) -> Counter[str]:
    """How many instructions of each width in bytes."""
    found: Counter[str] = Counter()
    for modifiers in re.findall(rf"\b{instruction}((?:\.\w+)+)", sass):
        width = re.search(r"\.(?:[US])?(8|16|64|128)\b", modifiers)
        found[str(int(width.group(1)) // 8) if width else "4"] += 1
    return found


def faults(case: Case, found: Report) -> list[str]:
    wrong = []
    if found.spilled:
        wrong.append(f"spills {found.spilled} bytes")
    if case.wgmma and not found.wgmma:
        wrong.append("no wgmma")
    if not case.serial and found.wgmma > 1 and found.wgmma_groups >= found.wgmma:
        wrong.append("each wgmma waits for the one before")
    if case.wide and found.widest_load < 16:
        wrong.append("no load is 16 bytes wide")
    return wrong


def cases() -> list[Case]:
    modules = (importlib.import_module(f"{kernel_cases.__name__}.{info.name}")
               for info in pkgutil.iter_modules(kernel_cases.__path__) if info.name != "case")
    return [case for module in modules for case in module.CASES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names to compile")
    only = parser.parse_args().only
    print(f"Triton {triton.__version__}, sm_90\n{'kernel':36} regs spill shared  loads            stores")
    failed = 0
    for case in (case for case in cases() if only in case.name):
        found = report(case)
        widths = [" ".join(f"{count}x{width}B" for width, count in sorted(counter.items(), key=lambda x: -int(x[0])))
                  for counter in (found.loads, found.stores)]
        wrong = faults(case, found)
        failed += bool(wrong)
        print(f"{case.name:36} {found.registers:4} {found.spilled:5} {found.shared:6}  {widths[0]:16} {widths[1]:12} "
              f"{'; '.join(wrong)}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
