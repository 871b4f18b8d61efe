"""An answer that is generated: what to draw, which of it the grammar forces, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from .constraints import Constrained
from .edits import Tally
from .lease import Lease, TokenChain
from .messages import Sampling, TokenLogprob, Usage
from .plan import Pick, Sampled
from .request import Request


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
