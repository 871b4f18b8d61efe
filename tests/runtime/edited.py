"""The penalties and biases of a request by their plain formula, without any state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from espalier.runtime.branch import GenerateSpec
from espalier.runtime.messages import Sampling


def edited(
    logits: Sequence[float], asked: Sampling | GenerateSpec, prompt: Sequence[int], said: Sequence[int]
) -> Sequence[float]:
    """Counts of what was said, the repetition penalty of the prompt too."""
    size = len(logits)
    x, count = np.array(logits, float), np.bincount(np.array(said, int), minlength=size)
    seen = np.bincount(np.array([*prompt, *said], int), minlength=size) > 0
    for token, bias in asked.logit_bias:
        x[token] += bias
    again = np.where(x > 0, x / asked.repetition_penalty, x * asked.repetition_penalty)
    x = np.where(seen, again, x) - asked.frequency_penalty * count - asked.presence_penalty * (count > 0)
    return [float(value) for value in x]
