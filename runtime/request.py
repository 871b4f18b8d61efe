"""One request as the engine sees it: what to compute, what to draw from it, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import structs

from .constraints import Constrained
from .edits import Tally
from .errors import EngineFault
from .lease import Lease, TokenChain
from .messages import Sampling, TokenLogprob, Usage
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


class Scoring(Request):
    """targets[p]: the tokens whose log-probability after position p is asked for."""

    def __init__(self, id: int, lease: Lease, chain: TokenChain, arrival: int, now: float, *,
                 targets: dict[int, tuple[int, ...]], job: ChoiceJob) -> None:
        super().__init__(id, lease, chain, arrival, now)
        self.targets = targets
        self.job = job
        self.scores: dict[int, tuple[Sampled, ...]] = {}

    @property
    def is_part(self) -> bool:
        return self is not self.job.head

    @property
    def reuse_limit(self) -> int:
        return min(self.targets, default=self.known)

    def wanted(self, start: int, end: int) -> tuple[int, ...]:
        return tuple(position for position in range(start, end) if position in self.targets)

    def picks(self, position: int, logits: int) -> list[Pick]:
        return [Pick(logits=logits, target=token, position=position, top_logprobs=self.job.top)
                for token in self.targets[position]]

    def take(self, position: int, drawn: Sequence[Sampled]) -> None:
        self.scores[position] = tuple(drawn)


@dataclass(slots=True, eq=False)
class ChoiceJob:
    """One Choose: the head computes the prefix and scores all first tokens; a part each scores the rest of a choice."""

    request: int
    lease: Lease
    choices: tuple[tuple[int, ...], ...]
    prefix: int
    top: int = 0
    head: Scoring | None = None
    parts: dict[int, Scoring] = field(default_factory=dict)  # by index of the choice

    def first_tokens(self) -> dict[int, tuple[int, ...]]:
        firsts = tuple(choice[0] for choice in self.choices if choice)
        return {self.prefix - 1: firsts} if firsts else {}

    def rest(self, index: int) -> dict[int, tuple[int, ...]]:
        """Token i >= 1 of the choice follows position prefix + i - 1."""
        return {self.prefix + i: (token,) for i, token in enumerate(self.choices[index][1:])}

    @property
    def complete(self) -> bool:
        return not any(part.open for part in self.parts.values()) and self.head is not None and not self.head.open

    def scores(self) -> tuple[tuple[Sampled, ...], ...]:
        """Of each choice, of each of its tokens."""
        if self.head is None:
            raise EngineFault("a choice without a head was read", where="ChoiceJob.scores")
        firsts = iter(self.head.scores.get(self.prefix - 1, ()))
        scores = []
        for index, choice in enumerate(self.choices):
            part = self.parts.get(index)
            begin = (next(firsts),) if choice else ()
            rest = tuple(part.scores[p][0] for p in sorted(part.scores)) if part else ()
            scores.append(begin + rest)
        return tuple(scores)

    def usage(self, now: float) -> Usage:
        """The head's, with all that the parts computed."""
        if self.head is None:
            raise EngineFault("a choice without a head was read", where="ChoiceJob.usage")
        usage = self.head.final_usage(now)
        return structs.replace(usage, computed=usage.computed + sum(p.usage.computed for p in self.parts.values()))


@dataclass(frozen=True, slots=True)
class End:
    """Why a generation ended; the fields of `Finished`."""

    reason: Literal["stop", "length"]
    stop_id: int | None = None
    closed: bool = False


class Generation(Request):
    """Draws up to max_tokens tokens. Forced tokens are appended without a draw and count as generated (law 5)."""

    def __init__(self, id: int, lease: Lease, chain: TokenChain, arrival: int, now: float, *, max_tokens: int,
                 sampling: Sampling, end_ids: frozenset[int], constrained: Constrained | None) -> None:
        super().__init__(id, lease, chain, arrival, now)
        self.max_tokens = max_tokens
        self.sampling = sampling
        self.constrained = constrained
        self.generated = 0
        self.end: End | None = None
        self.fresh: list[int] = []  # generated, and not yet told
        self.fresh_logprobs: list[TokenLogprob] = []
        self._tally = Tally.of(sampling, lambda: chain.slice(0, self.prompt))
        # Beside a constraint the grammar decides when end tokens are allowed (law 6).
        self._ends = end_ids if constrained is not None or not sampling.ignore_end else frozenset[int]()
        self._stops = frozenset(sampling.stop_ids)

    @property
    def ready(self) -> int:
        return self.known + (self.pending is not None and self.left > 1)

    @property
    def most(self) -> int:
        return self.prompt + self.max_tokens

    @property
    def left(self) -> int:
        return self.max_tokens - self.generated

    @property
    def reuse_limit(self) -> int:
        return self.known - 1

    @property
    def complete(self) -> bool:
        return self.end is not None

    def wanted(self, start: int, end: int) -> tuple[int, ...]:
        return (end - 1,) if end == self.ready else ()

    def still_wants(self, position: int) -> bool:
        return position == self.known - 1  # else forced text follows

    def begin(self) -> None:
        """Text that is forced from the start joins the prompt's own computation."""
        self._follow()

    def picks(self, position: int, logits: int) -> list[Pick]:
        """The last one is the answer's; one before it draws what a larger budget would have let it draw."""
        sampling = self.sampling
        masks = (0,) if self.constrained is None else self.constrained.rows(self.left)
        barred = self._ends | self._stops if self.generated < sampling.min_tokens else ()
        edits = None if self._tally is None else self._tally.edits(barred)
        last = len(masks) - 1
        return [Pick(
            logits=logits, mask=mask, temperature=sampling.temperature, top_k=sampling.top_k, top_p=sampling.top_p,
            min_p=sampling.min_p, seed=sampling.seed, position=position, edits=edits,
            top_logprobs=(sampling.logprobs or 0) if at == last else 0,
        ) for at, mask in enumerate(masks)]

    def take(self, position: int, drawn: Sequence[Sampled]) -> None:
        sampled = drawn[-1]
        if self.constrained is not None:
            self.constrained.drawn(sampled.token, drawn[0].token)
        if sampled.token in self._ends:
            self._finish(sampled.token)
            return
        if sampled.token in self._stops:
            self.end = End("stop", stop_id=sampled.token)
            return
        if self.constrained is not None:
            self.constrained.accept(sampled.token)
        self._append(sampled.token)
        if self.sampling.logprobs is not None:
            self.fresh_logprobs.append(TokenLogprob(sampled.logprob, sampled.top))
        self._follow()

    def _follow(self) -> None:
        """What follows from the token just taken without a draw: forced text, or the end."""
        if self.constrained is not None:
            if self.sampling.logprobs is None:  # a forced token has no logits yet: with logprobs, the mask forces it
                for token in self.constrained.forced(self.left):
                    if token in self._stops:
                        self.end = End("stop", stop_id=token)
                        return
                    self._append(token)
                    self.usage = structs.replace(self.usage, forced=self.usage.forced + 1)
            if self.constrained.must_end():
                self._finish(None)
                return
        if self.left <= 0:
            self.end = End("length", closed=self.constrained is not None)

    def _finish(self, stop_id: int | None) -> None:
        """The answer ends by itself; where a larger budget would have given another, that is told."""
        closed = self.constrained is not None and self.constrained.cut_short
        self.end = End("length" if closed else "stop", stop_id=stop_id, closed=closed)

    def _append(self, token: int) -> None:
        self.chain.extend((token,))
        self.fresh.append(token)
        self.generated += 1
        if self._tally is not None:
            self._tally.add(token)

    def told(self) -> tuple[tuple[int, ...], tuple[TokenLogprob, ...]]:
        """The tokens that the caller has not seen yet; they count as seen from now on."""
        news = tuple(self.fresh), tuple(self.fresh_logprobs)
        self.fresh, self.fresh_logprobs = [], []
        return news

    def final_usage(self, now: float) -> Usage:
        mask_s = self.constrained.mask_s if self.constrained else 0.0
        return structs.replace(super().final_usage(now), generated=self.generated, mask_s=mask_s)

    def close(self) -> None:
        if self.constrained is not None:
            self.constrained.close()
