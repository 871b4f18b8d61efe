"""The checks of one request, the same in the session layer and in the engine: typed errors before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import EmptyPrompt, InvalidParameter, PromptTooLong

MOST_LOGPROBS = 20


def check_number(where: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    """low <= value <= high (low < value when open_low); NaN fails."""
    fits = math.isfinite(value) and (low < value if open_low else low <= value) and value <= high
    if not fits:
        bracket = "(" if open_low else "["
        limit = f"{bracket}{low}, {high}]" if high < math.inf else f"{'above' if open_low else 'at least'} {low}"
        raise InvalidParameter(f"{where} is {value!r}", where=where, fix=f"Choose a number {limit}.")


def check_sampling(*, max_tokens: int, temperature: float, top_k: int, top_p: float, min_p: float,
                   logprobs: int | None) -> None:
    check_number("max_tokens", max_tokens, 1, math.inf)
    check_number("temperature", temperature, 0.0, math.inf)
    check_number("top_k", top_k, 0, math.inf)
    check_number("top_p", top_p, 0.0, 1.0, open_low=True)
    check_number("min_p", min_p, 0.0, 1.0)
    if logprobs is not None:
        check_number("logprobs", logprobs, 0, MOST_LOGPROBS)


def check_tokens(where: str, tokens: Sequence[int], vocabulary_size: int) -> None:
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocabulary_size:
        wrong = next(token for token in tokens if not 0 <= token < vocabulary_size)
        raise InvalidParameter(f"token id {wrong} is outside of 0..{vocabulary_size - 1}", where=where)


def check_length(prompt: int, more: int, context: int) -> None:
    """prompt: tokens of the branch; more: tokens that the call may add."""
    if prompt == 0:
        raise EmptyPrompt("the branch is empty", where="prompt", fix="Add text before generating.")
    if prompt + more > context:
        raise PromptTooLong(
            f"{prompt} tokens of prompt and {more} of answer pass the context of {context}", where="prompt",
            fix=f"Shorten the prompt or ask for at most {max(0, context - prompt)} tokens.",
        )
