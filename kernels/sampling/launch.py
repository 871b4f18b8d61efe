"""The launches of one step's draws: workspace, columns on the device, the order of the passes.

Plain draws and draws with top-k take two launches (scan, settle); top-p or min-p without top-k four more. The host
knows which are needed from the parameters alone, so nothing waits for the device and all of it can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..jit import next_power_of_2
from .bracket import bracket, guess
from .nucleus import collect, finish
from .pieces import TILE
from .scan import scan
from .settle import settle

Tensor = torch.Tensor

CHUNK = 1024
# Of the sample of a flat draw, 1/32 each: 32 below the best in log-masses.
BUCKETS = 1024


@dataclass(frozen=True, slots=True)
class Tuning:
    """block_tiles: tiles of a program that reads logits; with it goes the order of the raw mass. sample: tiles from
    which the pivots of a flat draw are guessed. long: tokens of its list that are worth a closer bound. ways: of its
    search in the list. The rest are warps."""

    block_tiles: int = 64
    pivots: int = 4
    sample: int = 128
    long: int = 4096
    ways: int = 8
    scan_warps: int = 4
    guess_warps: int = 8
    bracket_warps: int = 8
    collect_warps: int = 4
    finish_warps: int = 8
    settle_warps: int = 4
    list_warps: int = 8


TUNED = Tuning()


@dataclass(frozen=True, slots=True)
class Columns:
    """Parameters of n draws on the device. seed, position: [n] int64, taken modulo 2**64. row, mask, target, top_k,
    flat: [n] int32. temperature, top_p, min_p: [n] float32. flat: 1 for top-p or min-p without top-k."""

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
        there = torch.from_numpy(packed).to(device)
        return cls(
            *there[: 4 * n].view(torch.int64).view(2, n), *there[4 * n : 9 * n].view(5, n),
            *there[9 * n :].view(torch.float32).view(3, n),
        )


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of the passes for up to `rows` draws, and their results. token: -1 where there is none. logprob: of the
    raw logits. nan: 1 where a logit was NaN."""

    token: Tensor
    logprob: Tensor
    nan: Tensor
    tile_best: Tensor
    tile_mass: Tensor
    tile_kept: Tensor
    raw: Tensor
    tile_list: Tensor
    token_list: Tensor
    value_list: Tensor
    cut: Tensor
    state: Tensor
    pivots: Tensor
    above: Tensor
    marks: Tensor

    @classmethod
    def allocate(cls, rows: int, vocabulary: int, device: torch.device, tuning: Tuning = TUNED) -> Workspace:
        tiles, blocks, _, _ = _sizes(vocabulary, tuning)
        shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "token": ((rows,), torch.int32), "logprob": ((rows,), torch.float32), "nan": ((rows,), torch.int32),
            "tile_best": ((rows, tiles), torch.float32), "tile_mass": ((rows, tiles), torch.float32),
            "tile_kept": ((rows, tiles), torch.int64), "raw": ((rows, blocks, 3), torch.float32),
            "tile_list": ((rows, tiles), torch.int32),
            "token_list": ((rows, vocabulary), torch.int32), "value_list": ((rows, vocabulary), torch.float32),
            "cut": ((rows,), torch.int32), "state": ((rows, 5), torch.int64),
            "pivots": ((rows, tuning.pivots), torch.float32),
            "above": ((rows, tuning.pivots, tiles), torch.float32), "marks": ((rows, 2 * tiles), torch.int32),
        }
        return cls(*(torch.empty(shape, dtype=dtype, device=device)
                     for shape, dtype in (shapes[field.name] for field in fields(cls))))


def draw(
    logits: Tensor, masks: Tensor, columns: Columns, work: Workspace, *, lists: bool, flat: bool, raw: bool = True,
    raw_logits: Tensor | None = None, raw_row: Tensor | None = None, tuning: Tuning = TUNED,
) -> None:
    """logits: [rows, vocabulary], contiguous. masks: [m, words] int32. lists: a draw has top-k. flat: a draw is. raw:
    log-probabilities are wanted. raw_logits, raw_row: what they are of, where logits were edited. Effect: fills token,
    logprob and nan of `work`."""
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, tiles_padded, blocks_padded = _sizes(vocabulary, tuning)
    sizes = {"vocabulary": vocabulary, "words": words, "tiles": tiles, "blocks": blocks}
    if raw_logits is not None and raw:
        _scan(raw_logits, masks, raw_row, columns, work, tuning, raw=True, flat=False)
    if flat:
        guess[(n,)](
            logits, masks, columns.row, columns.mask, columns.flat, columns.temperature, columns.top_p, work.pivots,
            vocabulary, words, tiles, PIVOTS=tuning.pivots, SAMPLE=tuning.sample, BUCKETS=BUCKETS,
            num_warps=tuning.guess_warps,
        )
    _scan(logits, masks, columns.row, columns, work, tuning, raw=raw and raw_logits is None, flat=flat)
    if flat:
        _cut_flat(logits, masks, columns, work, tuning)
    settle[(n,)](
        logits, masks, columns.row, columns.mask, columns.target, columns.temperature, columns.top_k, columns.top_p,
        columns.min_p, columns.seed, columns.position, columns.flat, work.cut, work.tile_best, work.tile_mass,
        work.tile_kept, work.raw, logits if raw_logits is None else raw_logits,
        columns.row if raw_row is None else raw_row, work.tile_list, work.token_list, work.value_list, work.token,
        work.logprob, work.nan, **sizes, capacity=vocabulary,
        TILES=tiles_padded, BLOCKS=blocks_padded, CHUNK=CHUNK, FLAT=flat, LISTS=lists, RAW=raw,
        num_warps=tuning.list_warps if lists else tuning.settle_warps,
    )


def _scan(
    logits: Tensor, masks: Tensor, row: Tensor | None, columns: Columns, work: Workspace, tuning: Tuning, *,
    raw: bool, flat: bool,
) -> None:
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, _, _ = _sizes(vocabulary, tuning)
    scan[blocks, n](
        logits, masks, row, columns.mask, columns.temperature, columns.flat, work.pivots, work.tile_best,
        work.tile_mass, work.above, work.raw, vocabulary, words, tiles, blocks, RAW=raw,
        PIVOTS=tuning.pivots if flat else 0, BLOCK_TILES=tuning.block_tiles, num_warps=tuning.scan_warps,
    )


def _cut_flat(logits: Tensor, masks: Tensor, columns: Columns, work: Workspace, tuning: Tuning) -> None:
    """Fills `cut` and `tile_kept` of the flat draws."""
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, tiles_padded, _ = _sizes(vocabulary, tuning)
    bracket[(n,)](
        columns.flat, columns.temperature, columns.top_p, columns.min_p, work.pivots, work.tile_best, work.tile_mass,
        work.above, work.state, vocabulary, tiles, TILES=tiles_padded, PIVOTS=tuning.pivots, LONG=tuning.long,
        num_warps=tuning.bracket_warps,
    )
    collect[blocks, n](
        logits, masks, columns.row, columns.mask, columns.flat, work.tile_best, work.state, work.marks, vocabulary,
        words, tiles, PIVOTS=tuning.pivots, BLOCK_TILES=tuning.block_tiles, num_warps=tuning.collect_warps,
    )
    finish[(n,)](
        logits, columns.row, columns.flat, columns.temperature, work.tile_best, work.above, work.state, work.marks,
        work.token_list, work.value_list, work.tile_kept, work.cut, vocabulary, tiles, vocabulary,
        TILES=tiles_padded, PIVOTS=tuning.pivots, CHUNK=CHUNK, WAYS=tuning.ways, num_warps=tuning.finish_warps,
    )


def _sizes(vocabulary: int, tuning: Tuning) -> tuple[int, int, int, int]:
    """Tiles, blocks, and the powers of two that hold them."""
    tiles = -(-vocabulary // TILE)
    blocks = -(-tiles // tuning.block_tiles)
    return tiles, blocks, next_power_of_2(tiles), next_power_of_2(blocks)


def flat_of(columns: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int32]:
    """1 for the draws whose threshold may lie anywhere."""
    cut = (columns["top_p"] < 1) | (columns["min_p"] > 0)
    return (cut & (columns["top_k"] <= 0) & (columns["temperature"] > 0)).astype(np.int32)


def draw_picks(
    logits: Tensor, masks: npt.NDArray[np.int32], picks: dict[str, npt.NDArray[Any]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(token, logprob) of picks given as columns on the host; waits for the device. Only mask rows in use travel."""
    used, at = np.unique(picks["mask"], return_inverse=True)
    flat, lists = flat_of(picks), picks["top_k"] > 0
    columns = Columns.of({**picks, "mask": at, "flat": flat}, logits.device)
    work = Workspace.allocate(len(at), logits.shape[1], logits.device)
    allowed = torch.from_numpy(masks[used]).to(logits.device)
    draw(logits.contiguous(), allowed, columns, work, lists=bool(lists.any()), flat=bool(flat.any()))
    return work.token.cpu().numpy().astype(np.int64), work.logprob.cpu().numpy()
