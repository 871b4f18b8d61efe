"""The seam to the device: three calls, so that the host can prepare step k + 1 while the device runs step k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from .plan import Pick, Plan, Sampled

Ticket = int

Exchange = Callable[[], None]
"""The executor computes with other weights from here on. Called between two steps, in the thread of the loop."""


class Executor(Protocol):
    """Owns the KV pool (`pages` pages of `page` tokens) and the model. Not thread-safe: the engine loop calls it.

    forward starts a plan and returns its ticket; sample queues the picks of that ticket (mask rows are read then);
    result waits and returns one Sampled per pick, in order. Each ticket is sampled once and its result read once.
    A plan's `sampled_from` refers to the picks of the previous ticket, whether or not its result was read.
    ahead: whether the next plan should be started before a result is read, since the device works meanwhile.
    An exception of forward or sample leaves the pool usable: the engine fails the rows of that plan and goes on.
    """

    vocabulary_size: int
    context: int
    ahead: bool

    def bind_masks(self, rows: Any, versions: Any = None) -> None:
        """rows: the mask table's int32 array [n, ceil(V / 32)]; called again when the table moved. versions: int64 [n],
        how often each row got new content, so that a copy can follow; None: they may change at any time."""

    def forward(self, plan: Plan) -> Ticket: ...

    def sample(self, ticket: Ticket, picks: Sequence[Pick]) -> None: ...

    def result(self, ticket: Ticket) -> list[Sampled]: ...

    def prepare(self, weights: Path) -> Exchange:
        """Reads other weights of the same model and changes nothing yet. Safe from another thread, beside the steps.
        Raises WeightsError."""

    def close(self) -> None: ...
