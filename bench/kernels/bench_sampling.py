"""Sampling under a mask on a GPU, vocabulary 128,256: python -m bench.kernels.bench_sampling

The floor is one read of the logits at the read bandwidth of this card. Every time is the median of one step among 20 in
a graph, in rotation over logits several times the L2. Each row of logits is under its own mask, half of it allowed.
Peers in the same run: xgrammar's mask and FlashInfer's draw where they are installed, and torch's own sampling.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from espalier.kernels.sampling import launch
from espalier.kernels.sampling.work import TUNED, Ask, Columns, Tuning, Workspace

from . import peer_sampling
from .device import Ceilings, ceilings, graph_us
from .record import Record, Result, options

VOCABULARY = 128_256
COPIES = {1: 40, 8: 24, 64: 8, 256: 4}


@dataclass(frozen=True)
class Case:
    name: str
    setting: dict[str, float]
    dtype: torch.dtype = torch.float32
    raw: bool = True
    masked: bool = True
    spread: float = 1.0
    # Tokens far above the rest, as a language model's row has them.
    heavy: int = 0
    tuning: Tuning = TUNED


CASES = (
    Case("plain", {}), Case("k 50, p 0.9, min-p 0.05", {"top_k": 50, "top_p": 0.9, "min_p": 0.05}),
    Case("flat p 0.9", {"top_p": 0.9}), Case("greedy", {"temperature": 0.0}),
    Case("plain, no mask", {}, masked=False), Case("plain, no log-probabilities", {}, raw=False),
    Case("plain, bf16", {}, torch.bfloat16), Case("min-p 0.05", {"min_p": 0.05}),
    Case("k 50, p 0.9, min-p 0.05, spread 3", {"top_k": 50, "top_p": 0.9, "min_p": 0.05}, spread=3.0),
    Case("flat p 0.9, spread 3", {"top_p": 0.9}, spread=3.0),
    Case("flat p 0.9, heavy tokens", {"top_p": 0.9}, spread=2.0, heavy=40),
    Case("flat p 0.9, bf16", {"top_p": 0.9}, torch.bfloat16),
)


def sweep() -> Iterator[Case]:
    """What the constants of Tuning were chosen from."""
    plain, listed, flat = CASES[:3]
    for block in (16, 32, 64, 128):
        for warps in (2, 4, 8):
            yield replace(plain, name=f"plain, block {block} warps {warps}",
                          tuning=Tuning(block_tiles=block, scan_warps=warps))
    for warps in (2, 4, 8, 16):
        yield replace(plain, name=f"plain, settle warps {warps}", tuning=Tuning(settle_warps=warps))
        yield replace(listed, name=f"k 50, list warps {warps}", tuning=Tuning(list_warps=warps))
    for values in ({"pivots": 4}, {"pivots": 8}, {"block_tiles": 32}, {"sample": 64}, {"sample": 256},
                   {"guess_warps": 4}, {"guess_warps": 16}, {"bracket_warps": 4}, {"bracket_warps": 16},
                   {"collect_warps": 4}, {"collect_warps": 8}, {"ways": 4}, {"ways": 16}, {"list": 1024},
                   {"list": 2048}, {"finish_warps": 4}, {"finish_warps": 16}, {"overlap": False}):
        yield replace(flat, name=f"flat, {values}", tuning=replace(TUNED, **values))


def columns_of(rows: int, case: Case) -> dict[str, Any]:
    def column(name: str, value: float, kind: type) -> Any:
        return np.full(rows, case.setting.get(name, value), kind)

    columns = {
        "row": np.arange(rows), "mask": np.arange(rows) % 64 + 1 if case.masked else np.zeros(rows, np.int64),
        "target": np.full(rows, -1), "temperature": column("temperature", 1.0, np.float32),
        "top_k": column("top_k", 0, np.int64), "top_p": column("top_p", 1.0, np.float32),
        "min_p": column("min_p", 0.0, np.float32), "seed": np.arange(rows).astype(np.uint64),
        "position": np.arange(rows).astype(np.uint64),
    }
    return columns | {"flat": launch.flat_of(columns)}


def logits_of(case: Case, rows: int) -> torch.Tensor:
    logits = torch.randn(rows, VOCABULARY, device="cuda") * case.spread
    if case.heavy:
        at = torch.randint(VOCABULARY, (rows, case.heavy), device="cuda")
        logits.scatter_(1, at, 8 + 6 * torch.rand(rows, case.heavy, device="cuda"))
    return logits


def calls(case: Case, rows: int) -> list[Callable[[], None]]:
    made = columns_of(rows, case)
    columns = Columns.of(made, torch.device("cuda"))
    work = Workspace.allocate(rows, VOCABULARY, torch.device("cuda"), case.tuning)
    masks = torch.randint(-2**31, 2**31 - 1, (65, VOCABULARY // 32), device="cuda", dtype=torch.int32)
    masks[0] = -1
    ask = Ask(bool((made["top_k"] > 0).any()), bool(made["flat"].any()), raw=case.raw)
    several = [logits_of(case, rows).to(case.dtype) for _ in range(COPIES[rows])]
    return [lambda x=x: launch.draw(x, masks, columns, work, ask, tuning=case.tuning)
            for x in several]


def torch_plain(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return logits.masked_fill(~allowed, -torch.inf).softmax(-1).multinomial(1)


def torch_filtered(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """top-k by torch.topk, then the rest over the 50 values that are left."""
    values, ids = logits.masked_fill(~allowed, -torch.inf).topk(50)
    chances = values.softmax(-1)
    kept = ((chances.cumsum(-1) - chances) < 0.9) & (chances >= 0.05 * chances[:, :1])
    return ids.gather(1, torch.where(kept, chances, 0.0).multinomial(1))


def torch_flat(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    chances, ids = logits.masked_fill(~allowed, -torch.inf).softmax(-1).sort(-1, descending=True)
    kept = (chances.cumsum(-1) - chances) < 0.9
    return ids.gather(1, torch.where(kept, chances, 0.0).multinomial(1))


TORCH = {"plain": torch_plain, "k 50, p 0.9, min-p 0.05": torch_filtered, "flat p 0.9": torch_flat}


def torch_us(case: Case, rows: int) -> float:
    allowed = torch.rand(rows, VOCABULARY, device="cuda") < 0.5
    several = [torch.randn(rows, VOCABULARY, device="cuda") for _ in range(COPIES[rows])]
    return graph_us([lambda x=x: TORCH[case.name](x, allowed) for x in several], times=3)


def passes(case: Case, rows: int) -> dict[str, float]:
    """us of each kernel, from the profiler."""
    several = calls(case, rows)
    several[0]()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for call in several * 3:
            call()
        torch.cuda.synchronize()
    total = len(several) * 3
    return {row.key: round(row.device_time_total / total, 1) for row in profile.key_averages() if row.device_time_total}


def peer_us(case: Case, rows: int) -> tuple[str | None, float | None]:
    """xgrammar's mask in place, then FlashInfer's draw; None where one is missing, or none is like the case."""
    mask, draw = peer_sampling.masking(), peer_sampling.drawing(case.name)
    if mask is None or draw is None:
        return None, None
    masks = torch.randint(-2**31, 2**31 - 1, (rows, VOCABULARY // 32), device="cuda", dtype=torch.int32)
    several = [torch.randn(rows, VOCABULARY, device="cuda") for _ in range(COPIES[rows])]
    # A peer that fails is printed, and the others go on.
    try:
        return "xgrammar + FlashInfer", graph_us([lambda x=x: (mask(x, masks), draw(x)) for x in several])
    except (RuntimeError, ValueError, OSError) as reason:
        print(f"  xgrammar + FlashInfer: {type(reason).__name__}: {str(reason)[-300:]}", flush=True)
        return None, None


def measure(case: Case, rows: int, limits: Ceilings) -> Result:
    us = graph_us(calls(case, rows))
    size = rows * VOCABULARY * case.dtype.itemsize
    floor = size / limits.read * 1e6
    return Result(f"{case.name}, batch {rows}", us, floor, *peer_us(case, rows), {"bytes": size})


def explain(record: Record, cases: Sequence[Case]) -> None:
    """Adds what each kernel takes. Last of all: the profiler, once started, makes every later launch slower."""
    named = {f"{case.name}, batch {rows}": (case, rows) for case in cases for rows in COPIES}
    for result in record.rows:
        if result.work in named and time.monotonic() < record.until:
            result.more["passes"] = passes(*named[result.work])
            print(f"{result.work:48}", result.more["passes"], flush=True)
    record.write()


def main() -> None:
    parser = options(__doc__, "kernels_sampling")
    parser.add_argument("--sweep", action="store_true", help="variants of the constants")
    args = parser.parse_args()
    limits = ceilings()
    record = Record.begin("kernels_sampling", limits, args)
    for rows in (64, 256) if args.sweep else (64, 256, 8, 1):
        for case in (case for case in (sweep() if args.sweep else CASES) if args.only in f"{case.name}, batch {rows}"):
            if rows < 64 and case.name not in TORCH:
                continue
            if not record.add(lambda case=case, rows=rows: measure(case, rows, limits)):
                return
            if case.name in TORCH and rows >= 64:
                record.add(lambda case=case, rows=rows: Result(
                    f"torch: {case.name}, batch {rows}", torch_us(case, rows),
                    rows * VOCABULARY * 4 / limits.read * 1e6))
    if not args.sweep:
        explain(record, CASES)


if __name__ == "__main__":
    main()
