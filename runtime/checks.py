"""The checks of one request, the same in the session layer and in the engine: typed errors before anything runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from numbers import Real

from .errors import EmptyPrompt, InvalidParameter, PromptTooLong

MOST_LOGPROBS = 20
MOST = (1 << 63) - 1
MOST_BIASES = 1024
MOST_REPETITION = 100.0  # finite logits times this stay finite
_MOST_SHOWN = 10**40


def check_number(where: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    """low <= value <= high (low < value when open_low), and finite; NaN fails."""
    _check_kind(where, value, Real, "a number")
    fits = (low < value if open_low else low <= value) and value <= high and value <= sys.float_info.max
    if not fits:
        raise _out_of_range(where, value, low, high, "(" if open_low else "[")


def check_integer(where: str, value: int, low: int, high: int) -> None:
    """low <= value <= high. Messages carry 64 bits: no bound may pass them."""
    _check_kind(where, value, int, "an integer")
    if not low <= value <= high:
        raise _out_of_range(where, value, low, high, "[")


def _check_kind(where: str, value: object, kind: type, words: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidParameter(f"{where} is of type {type(value).__name__}", where=where, fix=f"It must be {words}.")


def _out_of_range(where: str, value: float, low: float, high: float, bracket: str) -> InvalidParameter:
    limit = f"in {bracket}{low}, {high}]" if high < math.inf else f"{'above' if bracket == '(' else 'at least'} {low}"
    return InvalidParameter(f"{where} is {shown(value)}", where=where, fix=f"Choose a finite number {limit}.")


def shown(value: float) -> str:
    """A number for a message: Python refuses to print integers of thousands of digits."""
    return repr(value) if abs(value) < _MOST_SHOWN or not isinstance(value, int) else "an integer of many digits"


def check_sampling(*, max_tokens: int, temperature: float, top_k: int, top_p: float, min_p: float, seed: int | None,
                   logprobs: int | None) -> None:
    check_integer("max_tokens", max_tokens, 1, MOST)
    check_number("temperature", temperature, 0.0, math.inf)
    check_integer("top_k", top_k, 0, MOST)
    check_number("top_p", top_p, 0.0, 1.0, open_low=True)
    check_number("min_p", min_p, 0.0, 1.0)
    if seed is not None:
        check_integer("seed", seed, -MOST - 1, MOST)
    if logprobs is not None:
        check_integer("logprobs", logprobs, 0, MOST_LOGPROBS)


def check_stopping(*, stop_ids: Sequence[int], min_tokens: int, max_tokens: int, constrained: bool,
                   vocabulary_size: int) -> None:
    check_tokens("stop_token_ids", stop_ids, vocabulary_size)
    check_integer("min_tokens", min_tokens, 0, MOST)
    if min_tokens > max_tokens:
        raise InvalidParameter(f"min_tokens is {min_tokens} and max_tokens {max_tokens}", where="min_tokens")
    if min_tokens and constrained:
        raise InvalidParameter(
            "min_tokens cannot be used beside a constraint, which says where an answer ends", where="min_tokens",
            fix="Leave it out, or ask for a longer answer in the constraint.",
        )


def check_edits(*, frequency_penalty: float, presence_penalty: float, repetition_penalty: float,
                logit_bias: Sequence[tuple[int, float]], vocabulary_size: int) -> None:
    check_number("frequency_penalty", frequency_penalty, -2.0, 2.0)
    check_number("presence_penalty", presence_penalty, -2.0, 2.0)
    check_number("repetition_penalty", repetition_penalty, 0.0, MOST_REPETITION, open_low=True)
    if len(logit_bias) > MOST_BIASES:
        raise InvalidParameter(f"logit_bias names {len(logit_bias)} tokens", where="logit_bias",
                               fix=f"Name at most {MOST_BIASES}.")
    if len({token for token, _ in logit_bias}) < len(logit_bias):
        raise InvalidParameter("logit_bias names a token twice", where="logit_bias")
    check_tokens("logit_bias", [token for token, _ in logit_bias], vocabulary_size)
    for token, bias in logit_bias:
        check_number(f"logit_bias/{token}", bias, -100.0, 100.0)


def check_text(where: str, text: str) -> None:
    """What cannot be spelled in UTF-8 cannot be sent."""
    if not isinstance(text, str):
        raise InvalidParameter(f"{where} is of type {type(text).__name__}", where=where, fix="It must be a text.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidParameter(f"{where} holds a lone surrogate, which is not Unicode text", where=where) from error


def check_tokens(where: str, tokens: Sequence[int], vocabulary_size: int) -> None:
    others = set(map(type, tokens)) - {int}
    if others:
        raise InvalidParameter(f"a token id is of type {others.pop().__name__}", where=where, fix="Ids are integers.")
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocabulary_size:
        wrong = next(token for token in tokens if not 0 <= token < vocabulary_size)
        raise InvalidParameter(f"token id {shown(wrong)} is outside of 0..{vocabulary_size - 1}", where=where)


def check_length(prompt: int, more: int, context: int) -> None:
    """prompt: tokens of the branch; more: tokens that the call may add."""
    if prompt == 0:
        raise EmptyPrompt("the branch is empty", where="prompt", fix="Add text before generating.")
    if prompt + more > context:
        room = context - prompt
        raise PromptTooLong(
            f"{prompt} tokens of prompt and {more} of answer pass the context of {context}", where="prompt",
            fix=f"Shorten the prompt or ask for at most {room} tokens." if room > 0 else "Shorten the prompt.",
        )
