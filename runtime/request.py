"""One request as the engine sees it: what to compute, what to draw from it, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from .lease import Lease, TokenChain
from .messages import Usage
from .plan import Pick, Sampled
from .radix_node import Cursor, Node


@dataclass(slots=True)
class Clocked:
    """Seconds of the engine's clock: when the request came, was first run, and drew its first token."""

    arrived: float
    admitted: float | None = None
    first: float | None = None

    def spent(self, now: float) -> tuple[float, float, float]:
        """Seconds in the queue, in prefill and in decode."""
        admitted = now if self.admitted is None else self.admitted
        first = now if self.first is None else self.first
        return admitted - self.arrived, max(0.0, first - admitted), max(0.0, now - first)


class Request:
    """Tokens [0, computed) are in `table`; the cursor's [0, depth) of them belong to the tree, the rest is held.

    table: the pages of [0, computed) and perhaps some more. cursor None: waiting or parked, without any page.
    """

    def __init__(self, id: int, lease: Lease, chain: TokenChain, arrival: int, now: float) -> None:
        self.id = id
        self.lease = lease
        self.chain = chain
        self.arrival = arrival
        self.prompt = len(chain)
        self.table: list[int] = []
        self.computed = 0
        self.cursor: Cursor | None = None
        self.claim: tuple[Node, tuple[int, ...]] | None = None
        self.waits_for: tuple[Request, tuple[Node, tuple[int, ...]]] | None = None
        self.parked_at: int | None = None
        self.pending: int | None = None  # the pick of the step in flight that draws its next token
        self.open = True
        self.clocked = Clocked(now)
        self.usage = Usage(prompt=self.prompt)

    @property
    def begun(self) -> bool:
        """Whether anything of it, or of the request that it is a part of, was computed."""
        return self.clocked.admitted is not None or self.is_part

    @property
    def known(self) -> int:
        """Tokens that can be computed now."""
        return len(self.chain)

    @property
    def ready(self) -> int:
        """Tokens whose computation can be planned now: those known, and one that is drawn and not read yet."""
        return self.known

    @property
    def most(self) -> int:
        """Tokens that the request can ever need in memory."""
        return len(self.chain)

    @property
    def reuse_limit(self) -> int:
        """Tokens that may come from the tree: those whose own logits are not needed."""
        return self.known

    def held(self, page: int) -> list[int]:
        return self.table[self.cursor.depth // page:] if self.cursor else []

    def wanted(self, start: int, end: int) -> tuple[int, ...]:
        """Positions of [start, end) whose next-token logits are needed, ascending."""
        return ()

    def still_wants(self, position: int) -> bool:
        """Of a position that was wanted when its step was planned, now that the draws before it were read."""
        return True

    def picks(self, position: int, logits: int) -> list[Pick]:
        """What to do with them, the row `logits` of the step. May raise what the matcher raises."""
        return []

    def take(self, position: int, drawn: Sequence[Sampled]) -> None:
        """What came of the picks of that position."""

    @property
    def is_part(self) -> bool:
        """Of a larger request, whose lease and counters are not its own."""
        return False

    @property
    def complete(self) -> bool:
        """Nothing is left to compute or to draw."""
        return self.computed >= self.known

    def final_usage(self, now: float) -> Usage:
        queue_s, prefill_s, decode_s = self.clocked.spent(now)
        return structs.replace(self.usage, queue_s=queue_s, prefill_s=prefill_s, decode_s=decode_s)

    def close(self) -> None:
        """Gives back what the request holds outside the memory."""


class Prefilling(Request):
    """Computes its tokens, draws nothing."""
