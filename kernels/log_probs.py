"""Log-probabilities of given tokens and of the most likely ones.

log_probs(logits, masks, picks, count, processed) -> LogProbs
    logits, masks, picks: as in `sample.py`; picks.target: the token of each pick, >= 0. count: 0 to 20.
    Raw: of the logits as they are, NaN counted as -inf; masks and parameters play no part. Processed: of the
    distribution that a draw inverts, after mask, temperature and filters (bias and penalties where the logits were
    edited); -inf for what they exclude. At temperature 0 the token that would be taken has 0, all others -inf.
    The most likely first, the lower token first among equal logits; -1 and -inf where fewer have any mass.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from .base import FLOATS, Implementation, KernelError
from .sample import Picks, check, clean, distribution
from .sampling import launch

MOST = 20


@dataclass(frozen=True, slots=True)
class LogProbs:
    """choice: [n]. token, logprob: [n, count]."""

    choice: npt.NDArray[np.float32]
    token: npt.NDArray[np.int64]
    logprob: npt.NDArray[np.float32]


def _check(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks, count: int) -> None:
    check(logits, masks, picks)
    if not 0 <= count <= MOST:
        raise KernelError(f"log-probabilities of {count} tokens: 0 to {MOST} can be asked for")
    if len(picks.target) and picks.target.min() < 0:
        raise KernelError("log-probabilities need the token of every pick as its target")


def _best(logits: torch.Tensor, mass: torch.Tensor, count: int) -> torch.Tensor:
    """Ids of the `count` highest logits among those with mass. No sort of the whole row."""
    ranked = logits.masked_fill(~mass, -torch.inf)
    count = min(count, int(mass.sum()))
    if not count:
        return torch.empty(0, dtype=torch.int64)
    ids = (ranked >= ranked.topk(count).values[-1]).nonzero().flatten()
    return ids[ranked[ids].sort(descending=True, stable=True).indices[:count]]


def reference(
    logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks, count: int, processed: bool
) -> LogProbs:
    _check(logits, masks, picks, count)
    n = len(picks.row)
    found = LogProbs(np.empty(n, np.float32), np.full((n, count), -1), np.full((n, count), -np.inf, np.float32))
    for i, row in enumerate(picks.row):
        raw = clean(logits[row])
        logs = distribution(raw, masks[picks.mask[i]], picks, i) if processed else raw.log_softmax(-1)
        found.choice[i] = logs[picks.target[i]]
        best = _best(raw, logs > -torch.inf if processed else raw > -torch.inf, count)
        found.token[i, : len(best)], found.logprob[i, : len(best)] = best.numpy(), logs[best].numpy()
    return found


def on_device(
    logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks, count: int, processed: bool
) -> LogProbs:
    """By the kernels of `sampling`; the same in every batch, bit for bit."""
    _check(logits, masks, picks, count)
    if not len(picks.row):
        return LogProbs(np.empty(0, np.float32), np.empty((0, count), np.int64), np.empty((0, count), np.float32))
    columns = {name: getattr(picks, name) for name in Picks.__slots__}
    return LogProbs(*launch.rank_picks(logits, masks, columns, count, processed=processed))


IMPLEMENTATIONS = (
    Implementation("log_probs", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("log_probs", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
