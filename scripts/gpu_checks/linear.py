"""Exact products on the device: against float64, and a row's bits whatever stands beside it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from espalier.kernels.exact_linear import linear
from espalier.kernels.linear import Matrix

Report = Callable[[str, bool, str], None]
SHAPES = ((4096, 4096), (6144, 4096), (4096, 14336), (14336, 4096), (28672, 4096), (576, 576), (33, 40), (1000, 4104),
          (64, 20480))
TOKENS = (1, 2, 7, 8, 9, 16, 33, 64, 65, 200, 4096)


def _among(rows: torch.Tensor, places: torch.Tensor, tokens: int) -> torch.Tensor:
    """The rows at these places among fresh ones, with NaN before and behind them in memory."""
    room = torch.full((tokens + 512, rows.shape[1]), torch.nan, device="cuda", dtype=torch.bfloat16)
    room[256:-256] = torch.randn(tokens, rows.shape[1], device="cuda") * 3
    room[256:-256][places] = rows
    return room[256:-256]


def _product(x: torch.Tensor, matrix: Matrix, bias: torch.Tensor | None) -> torch.Tensor:
    out = torch.full((x.shape[0], matrix.dense.shape[0]), torch.nan, device="cuda", dtype=torch.bfloat16)
    return linear(x, matrix, bias, out=out)


def check_bits(report: Report, kind: str, spread: float) -> None:
    for n, k in SHAPES:
        matrix = Matrix((torch.randn(n, k, device="cuda") / k**0.5).bfloat16())
        bias = torch.randn(n, device="cuda").bfloat16() if n % 3 == 0 else None
        x = (torch.randn(4096, k, device="cuda") * torch.exp2(torch.randn(4096, k, device="cuda") * spread)).bfloat16()
        whole = _product(x, matrix, bias)
        expected = x.double() @ matrix.dense.double().T + (0.0 if bias is None else bias.double())
        gap = float(((whole.double() - expected).norm() / expected.norm()).nan_to_num(1e9))
        other = []
        for tokens in TOKENS:
            count = min(tokens, 9)
            rows, places = torch.randperm(4096, device="cuda")[:count], torch.randperm(tokens, device="cuda")[:count]
            ours = _product(_among(x[rows], places, tokens), matrix, bias)[places]
            if not torch.equal(ours.view(torch.int16), whole[rows].view(torch.int16)):
                other.append(tokens)
        report(f"exact linear {n} x {k}, {kind}", gap < 5e-3 and not other,
               f"error {gap:.0e}" + (f", other bits among {other}" if other else ""))


def run(report: Report) -> None:
    torch.manual_seed(0)
    check_bits(report, "normal", 0.0)
    check_bits(report, "spread", 8.0)
