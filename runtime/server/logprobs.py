"""Log-probabilities in the form of a chat completion. They are of the model's own distribution, before temperature,
filters and constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..messages import TokenLogprob

LOWEST = -9999.0  # what clients know as "no chance at all"; JSON has no infinity

Spelled = Callable[[int], bytes]
"""A token -> its bytes."""


class TopLogprob(msgspec.Struct, frozen=True):
    """bytes: the true ones; token shows those that are no character of their own as U+FFFD."""

    token: str
    logprob: float
    bytes: tuple[int, ...]


class ToldLogprob(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: tuple[int, ...]
    top_logprobs: tuple[TopLogprob, ...]


class ChoiceLogprobs(msgspec.Struct, frozen=True):
    content: tuple[ToldLogprob, ...]
    refusal: None = None


def told(tokens: Sequence[int], logprobs: Sequence[TokenLogprob], spelled: Spelled) -> ChoiceLogprobs:
    """logprobs: one a token."""
    return ChoiceLogprobs(tuple(_told(token, one, spelled) for token, one in zip(tokens, logprobs, strict=True)))


def _told(token: int, one: TokenLogprob, spelled: Spelled) -> ToldLogprob:
    top = tuple(TopLogprob(shown(spelled(id)), clamped(logprob), tuple(spelled(id))) for id, logprob in one.top)
    return ToldLogprob(shown(spelled(token)), clamped(one.logprob), tuple(spelled(token)), top)


def shown(spelling: bytes) -> str:
    return spelling.decode("utf-8", "replace")


def clamped(logprob: float) -> float:
    """Finite; NaN as no chance at all."""
    return min(logprob, 0.0) if logprob > LOWEST else LOWEST
