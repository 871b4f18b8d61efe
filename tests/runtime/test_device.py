"""The executor as the engine loop calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from espalier.runtime.device import Device, ExecutorFault
from espalier.runtime.plan import Pick, Plan, Row
from espalier.runtime.scripted_executor import ScriptedExecutor
from tests.fakes import ManualClock
from tests.runtime.harness import MODEL, VOCABULARY


class Bound(ScriptedExecutor):
    def __init__(self) -> None:
        super().__init__(MODEL, vocabulary_size=VOCABULARY, pages=4, page=4)
        self.tables: list[tuple[Any, Any]] = []

    def bind_masks(self, rows: Any, versions: Any = None) -> None:
        self.tables.append((rows, versions))
        super().bind_masks(rows, versions)


def test_mask_rows_are_bound_with_their_versions_when_the_table_moved() -> None:
    tables = [(np.full((2, 1), -1, np.int32), np.zeros(2, np.int64)) for _ in range(2)]
    executor, now = Bound(), [0]
    device = Device(executor, rows=lambda: tables[now[0]][0], versions=lambda: tables[now[0]][1], clock=ManualClock())
    for turn in (0, 0, 1):
        now[0] = turn
        ticket = device.forward(Plan(0, (Row((1,), 0, (0,), (0,)),)))
        device.sample(ticket, [Pick(0, mask=1)])
        assert len(device.result(ticket, 1)) == 1
    assert [(rows is tables[i][0], versions is tables[i][1]) for i, (rows, versions) in enumerate(executor.tables)] == [
        (True, True)] * 2


def test_an_executor_that_loses_a_pick_is_at_fault() -> None:
    device = Device(Bound(), rows=lambda: None, versions=lambda: None, clock=ManualClock())
    ticket = device.forward(Plan(0, (Row((1,), 0, (0,), (0,)),)))
    device.sample(ticket, [Pick(0)])
    with pytest.raises(ExecutorFault, match="2 picks came back as 1"):
        device.result(ticket, 2)
