"""Checked attention on the device: a fault leaves its code and nothing is read; a sound step is attention as ever."""

from __future__ import annotations

from collections.abc import Callable

from tests.kernels.test_check_step import FAULTS, attended

Report = Callable[[str, bool, str], None]


def run(report: Report) -> None:
    for exact in (False, True):
        _, error, work, _ = attended(lambda step: step, exact=exact)
        report(f"checked attention, exact={exact}", not int(error) and bool(work.n_items.sum()), "")
    for name, change, _ in FAULTS:
        out, error, _, _ = attended(change)
        report(f"checked attention, {name}", bool(int(error)) and not bool(out.any()), f"code {int(error)}")
