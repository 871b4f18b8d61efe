"""What executors make of a plan and its picks before a tensor is there: checked tokens, columns of parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.base import KernelError
from ..kernels.sample import Picks
from .errors import EngineFault
from .plan import Pick, Plan

_SEEDS = 2**64
# Beyond these a temperature is as good as greedy, or as no model at all; logits divided by them are still float32.
_COLDEST, _HOTTEST = 1e-30, 1e30


@contextmanager
def faults(where: str) -> Iterator[None]:
    """What the kernels refuse becomes an EngineFault with its place."""
    try:
        yield
    except (KernelError, RuntimeError, MemoryError) as error:
        raise EngineFault(str(error), where=where) from error


def tokens_of(plan: Plan, previous: Sequence[int], *, context: int, vocabulary: int) -> list[int]:
    """The tokens of all rows, with what was sampled (`previous`, by pick) in the place of placeholders. Raises
    KernelError for a row that does not fit the context, the vocabulary or its own logits."""
    tokens: list[int] = []
    for row in plan.rows:
        first = len(tokens)
        tokens.extend(row.tokens)
        if row.sampled_from is not None:
            if not 0 <= row.sampled_from < len(previous):
                raise KernelError(f"pick {row.sampled_from} of the previous step does not exist")
            tokens[first] = previous[row.sampled_from]
        if row.start + len(row.tokens) > context:
            raise KernelError(f"position {row.start + len(row.tokens)} is past the context of {context}")
        if row.logits_at and not 0 <= min(row.logits_at) <= max(row.logits_at) < len(row.tokens):
            raise KernelError(f"logits are wanted at {row.logits_at} of {len(row.tokens)} tokens")
    if tokens and not 0 <= min(tokens) <= max(tokens) < vocabulary:
        raise KernelError(f"a token is outside the vocabulary of {vocabulary}")
    return tokens


def all_ones(vocabulary: int) -> NDArray[np.int32]:
    """Row 0 of every mask table: all tokens, padding bits 0."""
    row = np.full((1, -(-vocabulary // 32)), -1, np.int32)
    if vocabulary % 32:
        row[0, -1] = (1 << vocabulary % 32) - 1
    return row


def check_masks(rows: NDArray[np.int32], vocabulary: int) -> None:
    """Raises EngineFault for a table of another vocabulary."""
    words = -(-vocabulary // 32)
    if rows.dtype != np.int32 or rows.ndim != 2 or rows.shape[1] != words:
        raise EngineFault(
            f"mask rows are {rows.dtype} {rows.shape}, the vocabulary of {vocabulary} needs int32 (n, {words})",
            where="bind_masks",
        )


def columns_of(picks: Sequence[Pick]) -> Picks:
    return Picks(
        row=np.array([pick.logits for pick in picks], np.int64),
        mask=np.array([pick.mask for pick in picks], np.int64),
        target=np.array([-1 if pick.target is None else pick.target for pick in picks], np.int64),
        temperature=np.array([_bounded(pick.temperature) for pick in picks], np.float32),
        top_k=np.array([pick.top_k for pick in picks], np.int64),
        top_p=np.array([pick.top_p for pick in picks], np.float32),
        min_p=np.array([pick.min_p for pick in picks], np.float32),
        seed=np.array([pick.seed % _SEEDS for pick in picks], np.uint64),
        position=np.array([pick.position % _SEEDS for pick in picks], np.uint64),
    )


def edits_of(picks: Sequence[Pick]) -> dict[str, NDArray[Any]] | None:
    """The fields of `kernels.sampling.edit.Edits` on the host; None where no pick edits."""
    edits = [pick.edits for pick in picks]
    there = [one for one in edits if one is not None]
    if not there:
        return None
    columns: dict[str, NDArray[Any]] = {
        name: np.concatenate([np.frombuffer(getattr(one, name), dtype) for one in there])
        for name, dtype in (("token", np.int32), ("bias", np.float32), ("count", np.int32), ("seen", np.int32))
    }
    lengths = [0 if one is None else len(one.token) for one in edits]
    return columns | {
        "begin": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "repetition": np.array([1.0 if one is None else max(one.repetition, _COLDEST) for one in edits], np.float32),
        "frequency": np.array([0.0 if one is None else one.frequency for one in edits], np.float32),
        "presence": np.array([0.0 if one is None else one.presence for one in edits], np.float32),
    }


def _bounded(temperature: float) -> float:
    return min(max(temperature, _COLDEST), _HOTTEST) if temperature else 0.0
