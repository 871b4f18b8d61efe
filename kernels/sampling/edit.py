"""What changes single logits before the mask: bias, repetition, frequency and presence penalties.

edit: one program a (block, draw). Effect: edited[i] = float32 logits of row[i], and for each of its edits, which are
[begin[i], begin[i + 1]) of the columns and name a token once:
    x + bias; then, where the token was seen (count > 0, or seen = 1 for a token of the prompt), x / repetition if x > 0
    else x * repetition; then - frequency * count - presence * (count > 0).
A token outside the vocabulary changes nothing. Infinite logits stay so, and NaN stays NaN. error: see `checked.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .. import checked
from ..base import FLOATS, Implementation
from ..jit import Arg, constexpr, jit, tl
from ..sent import sent

Tensor = torch.Tensor
BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Edits:
    """begin: [n + 1] int32. token, count, seen: [edits] int32. bias: [edits] float32. repetition (1 for none),
    frequency, presence: [n] float32."""

    begin: Tensor
    token: Tensor
    bias: Tensor
    count: Tensor
    seen: Tensor
    repetition: Tensor
    frequency: Tensor
    presence: Tensor

    @classmethod
    def of(cls, columns: dict[str, npt.NDArray[Any]], device: torch.device) -> Edits:
        """Fields by name on the host, int32 and float32; one copy to the device."""
        sizes = [len(columns[name]) for name in cls.__slots__]
        there = sent(np.concatenate([columns[name].view(np.int32) for name in cls.__slots__]), device)
        parts = dict(zip(cls.__slots__, torch.split(there, sizes), strict=True))
        ids = ("begin", "token", "count", "seen")
        return cls(**{name: part if name in ids else part.view(torch.float32) for name, part in parts.items()})


def reference(logits: Tensor, row: Tensor, edits: Edits) -> Tensor:
    edited = logits[row.long()].float()
    for i in range(len(row)):
        repetition, frequency, presence = (float(x[i]) for x in (edits.repetition, edits.frequency, edits.presence))
        for e in range(int(edits.begin[i]), int(edits.begin[i + 1])):
            x, count = float(edited[i, edits.token[e]]) + float(edits.bias[e]), int(edits.count[e])
            if count or edits.seen[e]:
                x = x / repetition if x > 0 else x * repetition
            edited[i, edits.token[e]] = x - frequency * count - presence * (count > 0)
    return edited


@jit
def _edit(
    logits: Arg, row: Arg, edited: Arg, begin: Arg, token: Arg, bias: Arg, count: Arg, seen: Arg, repetition: Arg,
    frequency: Arg, presence: Arg, error: Arg, vocabulary: Arg, CHECKED: constexpr, BLOCK: constexpr, EACH: constexpr,
) -> None:
    i = tl.program_id(1).to(tl.int64)
    first = tl.program_id(0) * BLOCK
    at = first + tl.arange(0, BLOCK)
    source, target = logits + tl.load(row + i).to(tl.int64) * vocabulary, edited + i * vocabulary
    tl.store(target + at, tl.load(source + at, mask=at < vocabulary).to(tl.float32), mask=at < vocabulary)
    # The same addresses follow from other threads.
    tl.debug_barrier()
    again, often, once = tl.load(repetition + i), tl.load(frequency + i), tl.load(presence + i)
    edit, end = tl.load(begin + i), tl.load(begin + i + 1)
    while edit < end:
        e = edit + tl.arange(0, EACH)
        which = tl.load(token + e, mask=e < end, other=-1)
        if CHECKED:
            good = (e >= end) | ((which >= 0) & (which < vocabulary))
            checked.require(tl.min(good.to(tl.int32), 0), error, 5)
        here = (which >= first) & (which < first + BLOCK) & (which < vocabulary)
        times = tl.load(count + e, mask=here, other=0)
        x = tl.load(source + which, mask=here, other=0.0).to(tl.float32) + tl.load(bias + e, mask=here, other=0.0)
        met = (times > 0) | (tl.load(seen + e, mask=here, other=0) != 0)
        x = tl.where(met, tl.where(x > 0, x / again, x * again), x)
        x = x - often * times.to(tl.float32) - tl.where(times > 0, once, 0.0)
        tl.store(target + which, x, mask=here)
        edit += EACH


def edit(logits: Tensor, row: Tensor, edits: Edits, *, error: Tensor | None = None) -> Tensor:
    """logits: [rows, vocabulary]. row: [n] int32. Returns [n, vocabulary] float32."""
    vocabulary, n = logits.shape[1], row.shape[0]
    edited = torch.empty((n, vocabulary), dtype=torch.float32, device=logits.device)
    _edit[-(-vocabulary // BLOCK), n](
        logits, row, edited, edits.begin, edits.token, edits.bias, edits.count, edits.seen, edits.repetition,
        edits.frequency, edits.presence, edited if error is None else error, vocabulary, CHECKED=error is not None,
        BLOCK=BLOCK, EACH=128, num_warps=4,
    )
    return edited


def on_host(logits: Tensor, row: Tensor, edits: Edits) -> Tensor:
    """The same on the CPU, without a check."""
    edited = logits[row.long()].float()
    for i, (begin, end) in enumerate(pairwise(edits.begin.tolist())):
        token, bias, count, seen = (x[begin:end] for x in (edits.token, edits.bias, edits.count, edits.seen))
        inside = (token >= 0) & (token < logits.shape[1])
        if not inside.all():
            token, bias, count, seen = (x[inside] for x in (token, bias, count, seen))
        again, x = edits.repetition[i], edited[i].index_select(0, token) + bias
        x = torch.where((count > 0) | (seen != 0), torch.where(x > 0, x / again, x * again), x)
        edited[i, token] = x - edits.frequency[i] * count - edits.presence[i] * (count > 0)
    return edited


IMPLEMENTATIONS = (
    Implementation("edit", ("cpu",), FLOATS, ("fast", "exact"), on_host),
    Implementation("edit", ("cuda",), FLOATS, ("fast", "exact"), edit),
)
