"""Which choice wins.

The score of a choice is the exact log-probability of its token sequence. One rule on top: where the tokens of a choice
are a prefix of another's, "begins with the short one" contains "begins with the long one", and the short one would win
whatever the model thinks. So the short one competes with what is left: p(short) less p of its longer rivals, which is
exactly the probability that the text begins with it and goes on as none of them.
"""

from __future__ import annotations

import math

from .backends.base import Scores

Tokens = tuple[int, ...]


def winner(scores: Scores) -> int:
    """Index of the best choice; the first wins ties."""
    if not scores.tokens:
        return scores.best
    masses = [_own_mass(k, scores) for k in range(len(scores.totals))]
    return max(range(len(masses)), key=lambda k: (masses[k], -k))


def _own_mass(k: int, scores: Scores) -> float:
    """log(p(k) - sum of p(j) over the nearest longer choices j); they exclude each other, so the sum is exact."""
    pairs = zip(scores.tokens, scores.totals, strict=True)
    longer = {tokens: total for tokens, total in pairs if _extends(tokens, scores.tokens[k])}
    nearest = [total for tokens, total in longer.items() if not any(_extends(tokens, other) for other in longer)]
    rest = 1.0 - math.fsum(math.exp(total - scores.totals[k]) for total in nearest) if nearest else 1.0
    return scores.totals[k] + math.log(rest) if rest > 0.0 else -math.inf


def _extends(long: Tokens, short: Tokens) -> bool:
    return len(long) > len(short) and long[: len(short)] == short
