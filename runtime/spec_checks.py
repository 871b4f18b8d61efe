"""What a generation may be asked for, told before anything is sent."""

from __future__ import annotations

from .branch import GenerateSpec
from .checks import check_edits, check_sampling, check_stopping
from .errors import InvalidParameter
from .words import Words


def check_spec(spec: GenerateSpec, words: Words) -> None:
    """Raises InvalidParameter with the field. The length is looked at where the prompt is known."""
    check_sampling(
        max_tokens=spec.max_tokens, temperature=spec.temperature, top_k=spec.top_k, top_p=spec.top_p,
        min_p=spec.min_p, seed=spec.seed, logprobs=spec.logprobs,
    )
    check_edits(
        frequency_penalty=spec.frequency_penalty, presence_penalty=spec.presence_penalty,
        repetition_penalty=spec.repetition_penalty, logit_bias=spec.logit_bias, vocabulary_size=words.vocab_size,
    )
    check_stopping(
        stop_ids=spec.stop_ids, min_tokens=spec.min_tokens, max_tokens=spec.max_tokens,
        constrained=spec.constraint is not None, vocabulary_size=words.vocab_size,
    )
    _check_stops(spec, words)


def _check_stops(spec: GenerateSpec, words: Words) -> None:
    ordinary = [token for token in spec.stop_ids if token not in words.special_ids]
    if spec.stop_until and ordinary:
        raise InvalidParameter(
            f"token {ordinary[0]} is text, which may stand in a call of a function", where="stop_token_ids",
            fix="Beside tools name special tokens only.",
        )
    if isinstance(spec.stop, str) or any(not stop for stop in spec.stop):
        raise InvalidParameter("stop needs a tuple of texts that are not empty", where="stop")
