"""Sampling with the mask inside.

sample(logits, masks, picks) -> Draws
    logits: [n, vocabulary]. masks: [m, ceil(vocabulary / 32)] int32, bit t % 32 of word t // 32 allows token t; row 0
    is all ones. picks: one entry a draw, several may read one row of logits.
    In this order: float32; NaN becomes -inf; mask as a select; temperature 0 takes the highest (lowest id on ties);
    otherwise y = logit / temperature, and a token is kept when y >= max(t_k, t_p, t_m): t_k the top_k-th largest y,
    t_p the y that completes a mass of top_p over the tokens kept by t_k, t_m = max + log(min_p). Ties are kept. The
    draw inverts one uniform number of (seed, position) over the kept masses in the order of token ids.
    A target >= 0 is taken instead of a draw. Log-probabilities are of the raw logits; `log_probs.py` has those after
    all of this, and the most likely tokens.
    token is -1 where no allowed token has a finite logit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from . import philox
from .base import FLOATS, Implementation, KernelError
from .compiled import bfloats, floats, inner, ints, kernel, load
from .draw import TILE, draw, log_mass
from .sampling import launch

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Picks:
    """Columns, one entry a draw. target: -1 to draw. seed: modulo 2**64, as uint64. top_k: 0 for all."""

    row: Ints
    mask: Ints
    target: Ints
    temperature: Floats
    top_k: Ints
    top_p: Floats
    min_p: Floats
    seed: npt.NDArray[np.uint64]
    position: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Draws:
    token: Ints
    logprob: Floats


def check(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks) -> None:
    rows, vocabulary = logits.shape
    if masks.ndim != 2 or masks.dtype != np.int32 or masks.shape[1] != -(-vocabulary // 32):
        raise KernelError(f"masks must be int32 [n, {-(-vocabulary // 32)}], got {masks.dtype} {masks.shape}")
    for name, values, end in (("row", picks.row, rows), ("mask", picks.mask, len(masks))):
        if len(values) and not (values.min() >= 0 and values.max() < end):
            raise KernelError(f"a pick names {name} outside [0, {end})")
    if len(picks.target) and picks.target.max() >= vocabulary:
        raise KernelError(f"a target is outside the vocabulary of {vocabulary}")


def clean(logits: torch.Tensor) -> torch.Tensor:
    """float32 on the CPU, NaN as -inf."""
    return logits.float().cpu().nan_to_num(nan=-torch.inf, neginf=-torch.inf, posinf=torch.inf)


def distribution(raw: torch.Tensor, mask: npt.NDArray[np.int32], picks: Picks, i: int) -> torch.Tensor:
    """float64 logarithms of the chances of all tokens in draw i, from a row of clean logits and its mask row; all -inf
    where no allowed token has a finite logit."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(raw)].astype(bool)
    masked = raw.masked_fill(~torch.from_numpy(bits), -torch.inf)
    none = torch.full(raw.shape, -torch.inf, dtype=torch.float64)
    best = masked.max()
    if best == -torch.inf:
        return none
    if picks.temperature[i] == 0 or best == torch.inf:
        none[(masked == best).nonzero()[0]] = 0.0
        return none
    y = masked / float(picks.temperature[i])
    ordered = y.sort(descending=True).values
    threshold = ordered[0] + math.log(picks.min_p[i]) if picks.min_p[i] > 0 else torch.tensor(-torch.inf)
    if 0 < picks.top_k[i] < len(y):
        ordered = ordered[ordered >= ordered[picks.top_k[i] - 1]]
        threshold = torch.maximum(threshold, ordered[-1])
    if picks.top_p[i] < 1:
        mass = (ordered - ordered[0]).double().exp().cumsum(0)
        reached = (mass >= float(picks.top_p[i]) * mass[-1]).nonzero()
        threshold = torch.maximum(threshold, ordered[int(reached[0])])
    return y.masked_fill(y < threshold, -torch.inf).double().log_softmax(-1)


def reference(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks) -> Draws:
    check(logits, masks, picks)
    raw = clean(logits)
    logprobs = raw.log_softmax(-1)
    tokens = picks.target.copy()
    for i, row in enumerate(picks.row):
        if tokens[i] < 0:
            chances = distribution(raw[row], masks[picks.mask[i]], picks, i).exp().cumsum(0)
            goal = philox.reference(int(picks.seed[i]), int(picks.position[i])) * chances[-1]
            tokens[i] = int((chances > goal).nonzero()[0]) if chances[-1] > 0 else -1
    found = [float(logprobs[row, t]) if t >= 0 else math.nan for row, t in zip(picks.row, tokens, strict=True)]
    return Draws(tokens, np.asarray(found, np.float32))


@inner
def _picks(
    logits: Any, masks: Any, row: Any, mask: Any, target: Any, temperature: Any, top_k: Any, top_p: Any, min_p: Any,
    seed: Any, position: Any, token: Any, logprob: Any,
) -> None:
    vocabulary = logits.shape[1]
    tiles = np.empty(-(-vocabulary // TILE), np.int32)
    masses, found = np.empty(tiles.shape[0], np.float32), np.empty(vocabulary, np.float32)
    total, of = np.float32(0.0), -1
    for i in range(row.shape[0]):
        values = logits[row[i]]
        if row[i] != of:
            total, of = log_mass(values), row[i]
        chosen = target[i]
        if chosen < 0:
            chosen = draw(
                values, masks[mask[i]], temperature[i], top_k[i], top_p[i], min_p[i], seed[i], position[i],
                tiles, masses, found,
            )
        token[i] = chosen
        logprob[i] = load(values[chosen]) - total if chosen >= 0 else np.float32(np.nan)


_COLUMNS = "int64, int64, int64[::1], int64[::1], int64[::1], float32[::1], int64[::1], float32[::1], float32[::1], " \
    "uint64[::1], uint64[::1], int64[::1], float32[::1]"


@kernel(f"void(int64, int64, int64, {_COLUMNS})")
def _float32(
    logits: Any, rows: Any, vocabulary: Any, masks: Any, mask_rows: Any, row: Any, mask: Any, target: Any,
    temperature: Any, top_k: Any, top_p: Any, min_p: Any, seed: Any, position: Any, token: Any, logprob: Any,
) -> None:
    allowed = ints(masks, (mask_rows, (vocabulary + 31) // 32))
    values = floats(logits, (rows, vocabulary))
    _picks(values, allowed, row, mask, target, temperature, top_k, top_p, min_p, seed, position, token, logprob)


@kernel(f"void(int64, int64, int64, {_COLUMNS})")
def _bfloat16(
    logits: Any, rows: Any, vocabulary: Any, masks: Any, mask_rows: Any, row: Any, mask: Any, target: Any,
    temperature: Any, top_k: Any, top_p: Any, min_p: Any, seed: Any, position: Any, token: Any, logprob: Any,
) -> None:
    allowed = ints(masks, (mask_rows, (vocabulary + 31) // 32))
    values = bfloats(logits, (rows, vocabulary))
    _picks(values, allowed, row, mask, target, temperature, top_k, top_p, min_p, seed, position, token, logprob)


def compiled(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks) -> Draws:
    check(logits, masks, picks)
    logits = logits.contiguous()
    draws = Draws(np.empty(len(picks.row), np.int64), np.empty(len(picks.row), np.float32))
    masks = np.ascontiguousarray(masks)
    run = _bfloat16 if logits.dtype == torch.bfloat16 else _float32
    run(
        logits.data_ptr(), logits.shape[0], logits.shape[1], masks.ctypes.data, len(masks), picks.row, picks.mask,
        picks.target, picks.temperature, picks.top_k, picks.top_p, picks.min_p, picks.seed, picks.position,
        draws.token, draws.logprob,
    )
    return draws


def on_device(logits: torch.Tensor, masks: npt.NDArray[np.int32], picks: Picks) -> Draws:
    """Draws with the kernels of `sampling`; their results are the same in every batch, bit for bit."""
    check(logits, masks, picks)
    if not len(picks.row):
        return Draws(np.empty(0, np.int64), np.empty(0, np.float32))
    return Draws(*launch.draw_picks(logits, masks, {name: getattr(picks, name) for name in Picks.__slots__}))


IMPLEMENTATIONS = (
    Implementation("sample", ("cpu",), FLOATS, ("fast", "exact"), compiled),
    Implementation("sample", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
