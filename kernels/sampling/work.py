"""What a step's draws are made with: parameters on the device, memory of the passes, the question, tuned constants."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..jit import next_power_of_2
from ..sent import sent
from .pieces import TILE

Tensor = torch.Tensor

CHUNK = 1024
# Of the sample of a flat draw, 1/8 each: 16 below the best in log-masses.
BUCKETS = 128
# Of the pass that ranks a list: without a bound the assembler settles at 80 and spills.
LIST_REGISTERS = 128


@dataclass(frozen=True, slots=True)
class Tuning:
    """block_tiles: tiles of a program that reads logits; with it goes the order of the raw mass. sample: tiles from
    which the pivots of a flat draw are guessed. long: tokens of its list that are worth a closer bound. list, ways: of
    the search in its list. overlap: each launch starts while the one before runs. The rest are warps."""

    block_tiles: int = 64
    pivots: int = 8
    sample: int = 128
    long: int = 4096
    ways: int = 8
    list: int = 2048
    overlap: bool = True
    scan_warps: int = 4
    guess_warps: int = 8
    bracket_warps: int = 8
    collect_warps: int = 4
    finish_warps: int = 8
    settle_warps: int = 4
    list_warps: int = 8


TUNED = Tuning()


def sizes(vocabulary: int, tuning: Tuning) -> tuple[int, int, int, int]:
    """Tiles, blocks, and the powers of two that hold them."""
    tiles = -(-vocabulary // TILE)
    blocks = -(-tiles // tuning.block_tiles)
    return tiles, blocks, next_power_of_2(tiles), next_power_of_2(blocks)


@dataclass(frozen=True, slots=True)
class Columns:
    """Parameters of n draws on the device. seed, position: [n] int64, taken modulo 2**64. row, mask, target, top_k,
    flat: [n] int32. temperature, top_p, min_p: [n] float32. flat: see `launch.flat_of`."""

    seed: Tensor
    position: Tensor
    row: Tensor
    mask: Tensor
    target: Tensor
    top_k: Tensor
    flat: Tensor
    temperature: Tensor
    top_p: Tensor
    min_p: Tensor

    @classmethod
    def of(cls, columns: dict[str, npt.NDArray[Any]], device: torch.device) -> Columns:
        """One copy to the device for all columns."""
        n = len(columns["row"])
        longs = np.stack([columns[name].view(np.int64) for name in ("seed", "position")])
        ints = np.stack([np.minimum(columns[name], 2**31 - 1) for name in ("row", "mask", "target", "top_k", "flat")])
        floats = np.stack([columns[name] for name in ("temperature", "top_p", "min_p")]).astype(np.float32)
        packed = np.concatenate([part.reshape(-1).view(np.int32) for part in (longs, ints.astype(np.int32), floats)])
        there = sent(packed, device)
        return cls(
            *there[: 4 * n].view(torch.int64).view(2, n), *there[4 * n : 9 * n].view(5, n),
            *there[9 * n :].view(torch.float32).view(3, n),
        )


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of the passes for up to `rows` draws, and their results. token: -1 where there is none. logprob: of the
    raw logits. nan: 1 where a logit was NaN. error: codes of `check.Fault` where draws are checked."""

    token: Tensor
    logprob: Tensor
    nan: Tensor
    error: Tensor
    safe: Tensor
    safe_temperature: Tensor
    tile_best: Tensor
    tile_mass: Tensor
    tile_kept: Tensor
    raw: Tensor
    tile_list: Tensor
    token_list: Tensor
    value_list: Tensor
    cut: Tensor
    kept: Tensor
    listed: Tensor
    state: Tensor
    pivots: Tensor
    above: Tensor

    @classmethod
    def allocate(cls, rows: int, vocabulary: int, device: torch.device, tuning: Tuning = TUNED) -> Workspace:
        tiles, blocks, _, _ = sizes(vocabulary, tuning)
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "token": ((rows,), torch.int32), "logprob": ((rows,), torch.float32), "nan": ((rows,), torch.int32),
            "error": ((rows,), torch.int32), "safe": ((4 * rows,), torch.int32),
            "safe_temperature": ((rows,), torch.float32), "kept": ((rows,), torch.int64),
            "listed": ((rows,), torch.int32),
            "tile_best": ((rows, tiles), torch.float32), "tile_mass": ((rows, tiles), torch.float32),
            "tile_kept": ((rows, tiles), torch.int64), "raw": ((rows, blocks, 3), torch.float32),
            "tile_list": ((rows, tiles), torch.int32),
            "token_list": ((rows, vocabulary), torch.int32), "value_list": ((rows, vocabulary), torch.float32),
            "cut": ((rows,), torch.int32), "state": ((rows, 5), torch.int64),
            "pivots": ((rows, tuning.pivots), torch.float32),
            "above": ((rows, tuning.pivots, tiles), torch.float32),
        }
        return cls(*(torch.empty(shape, dtype=dtype, device=device)
                     for shape, dtype in (shapes[field.name] for field in fields(cls))))


@dataclass(frozen=True, slots=True)
class Likely:
    """choice: [n] float32, of the tokens drawn. token: [n, count] int32, logprob: [n, count] float32, the most likely
    first, the lower token first among equals; -1 and -inf where fewer have any mass."""

    choice: Tensor
    token: Tensor
    logprob: Tensor

    @classmethod
    def allocate(cls, rows: int, count: int, device: torch.device) -> Likely:
        return cls(torch.empty(rows, device=device), torch.empty((rows, count), dtype=torch.int32, device=device),
                   torch.empty((rows, count), device=device))


@dataclass(frozen=True, slots=True)
class Ask:
    """What a step wants. lists: a draw has top-k. flat: a draw is flat. raw: log-probabilities of the raw logits.
    processed: what `most_likely` needs for those after all filters. checked: codes in `error`, and no read outside a
    tensor whatever the columns hold."""

    lists: bool
    flat: bool
    raw: bool = True
    processed: bool = False
    checked: bool = False
