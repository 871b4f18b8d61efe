"""Texts that are scored: log-probabilities of tokens that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from .errors import EngineFault
from .lease import Lease, TokenChain
from .messages import Usage
from .plan import Pick, Sampled
from .request import Request


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
