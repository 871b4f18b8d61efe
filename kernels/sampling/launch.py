"""The launches of one step's draws, in their order.

Plain draws and draws with top-k take two launches (scan, settle); top-p or min-p without top-k four more. The host
knows which are needed from the parameters alone, so nothing waits for the device and all of it can be captured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .bracket import bracket, guess
from .check import check
from .nucleus import collect, finish
from .scan import scan
from .settle import settle
from .top import top
from .work import BUCKETS, CHUNK, LIST_REGISTERS, TUNED, Ask, Columns, Likely, Tuning, Workspace, sizes

Tensor = torch.Tensor


def draw(
    logits: Tensor, masks: Tensor, columns: Columns, work: Workspace, ask: Ask, *, raw_logits: Tensor | None = None,
    raw_row: Tensor | None = None, tuning: Tuning = TUNED,
) -> None:
    """logits: [rows, vocabulary], contiguous. masks: [m, words] int32. raw_logits, raw_row: what raw log-probabilities
    are of, where logits were edited. Effect: fills the results of `work`."""
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, tiles_padded, blocks_padded = sizes(vocabulary, tuning)
    if ask.checked:
        columns = _checked(logits, masks, columns, work)
    if raw_logits is not None and ask.raw:
        _scan(raw_logits, masks, raw_row, columns, work, tuning, raw=True, flat=False, first=True)
    if ask.flat:
        guess[(n,)](
            logits, masks, columns.row, columns.mask, columns.flat, columns.temperature, columns.top_p, work.pivots,
            vocabulary, words, tiles, PIVOTS=tuning.pivots, SAMPLE=tuning.sample, BUCKETS=BUCKETS,
            num_warps=tuning.guess_warps, **_options(logits, tuning, first=True),
        )
    _scan(logits, masks, columns.row, columns, work, tuning, raw=ask.raw and raw_logits is None, flat=ask.flat,
          first=not ask.flat and raw_logits is None)
    if ask.flat:
        _cut_flat(logits, masks, columns, work, tuning)
    settle[(n,)](
        logits, masks, columns.row, columns.mask, columns.target, columns.temperature, columns.top_k, columns.top_p,
        columns.min_p, columns.seed, columns.position, columns.flat, work.cut, work.kept, work.tile_best,
        work.tile_mass, work.tile_kept, work.raw, logits if raw_logits is None else raw_logits,
        columns.row if raw_row is None else raw_row, work.tile_list, work.token_list, work.value_list, work.token,
        work.logprob, work.nan, work.error, vocabulary, words, tiles, blocks, vocabulary, TILES=tiles_padded,
        BLOCKS=blocks_padded, CHUNK=CHUNK, FLAT=ask.flat, LISTS=ask.lists, RAW=ask.raw, PROCESSED=ask.processed,
        CHECKED=ask.checked, num_warps=tuning.list_warps if ask.lists else tuning.settle_warps,
        **_options(logits, tuning),
    )


def _options(logits: Tensor, tuning: Tuning, *, first: bool = False) -> dict[str, bool]:
    """Of a launch: each but the first starts while the one before runs, and waits for it inside."""
    overlap = tuning.overlap and logits.is_cuda
    return {"OVERLAP": overlap, "launch_pdl": True} if overlap and not first else {"OVERLAP": overlap}


def _checked(logits: Tensor, masks: Tensor, columns: Columns, work: Workspace) -> Columns:
    """Fills `error`; columns that name nothing outside a tensor."""
    n = columns.row.shape[0]
    check[(n,)](
        masks, columns.row, columns.mask, columns.target, columns.temperature, columns.top_k, columns.top_p,
        columns.min_p, columns.flat, work.error, work.safe, work.safe_temperature, n, logits.shape[0],
        masks.shape[0], logits.shape[1], masks.shape[1], CHUNK=CHUNK, num_warps=4,
    )
    row, mask, target, flat = work.safe[: 4 * n].view(4, n)
    return replace(columns, row=row, mask=mask, target=target, flat=flat, temperature=work.safe_temperature[:n])


def _scan(
    logits: Tensor, masks: Tensor, row: Tensor | None, columns: Columns, work: Workspace, tuning: Tuning, *,
    raw: bool, flat: bool, first: bool,
) -> None:
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, _, _ = sizes(vocabulary, tuning)
    scan[blocks, n](
        logits, masks, row, columns.mask, columns.temperature, columns.flat, work.pivots, work.tile_best,
        work.tile_mass, work.above, work.raw, vocabulary, words, tiles, blocks, RAW=raw,
        PIVOTS=tuning.pivots if flat else 0, BLOCK_TILES=tuning.block_tiles, num_warps=tuning.scan_warps,
        **_options(logits, tuning, first=first),
    )


def _cut_flat(logits: Tensor, masks: Tensor, columns: Columns, work: Workspace, tuning: Tuning) -> None:
    """Fills `cut` and `tile_kept` of the flat draws."""
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, tiles_padded, _ = sizes(vocabulary, tuning)
    bracket[(n,)](
        columns.flat, columns.temperature, columns.top_p, columns.min_p, work.pivots, work.tile_best, work.tile_mass,
        work.above, work.state, work.listed, vocabulary, tiles, TILES=tiles_padded, PIVOTS=tuning.pivots,
        LONG=tuning.long, num_warps=tuning.bracket_warps, **_options(logits, tuning),
    )
    collect[blocks, n](
        logits, masks, columns.row, columns.mask, columns.flat, columns.temperature, work.tile_best, work.state,
        work.listed, work.token_list, work.value_list, work.tile_kept, work.cut, vocabulary, words, tiles, vocabulary,
        PIVOTS=tuning.pivots,
        BLOCK_TILES=tuning.block_tiles, num_warps=tuning.collect_warps, **_options(logits, tuning),
    )
    finish[(n,)](
        columns.flat, columns.temperature, work.tile_best, work.above, work.state, work.listed, work.token_list,
        work.value_list, work.tile_kept, work.cut, tiles, vocabulary, TILES=tiles_padded, PIVOTS=tuning.pivots,
        CHUNK=CHUNK, LIST=tuning.list, WAYS=tuning.ways, num_warps=tuning.finish_warps,
        **_options(logits, tuning),
    )


def most_likely(
    logits: Tensor, masks: Tensor, columns: Columns, work: Workspace, out: Likely, *, processed: bool,
    tuning: Tuning = TUNED,
) -> None:
    """After `draw`, which was asked for it. logits: raw: as they came; processed: as they were drawn from. masks: row 0
    is all ones. Effect: fills `out`; spoils the lists of `work`, and for raw the statistics of its tiles."""
    vocabulary, words, n = logits.shape[1], masks.shape[1], columns.row.shape[0]
    tiles, blocks, tiles_padded, blocks_padded = sizes(vocabulary, tuning)
    if not processed:
        open_mask = torch.zeros_like(columns.mask)
        columns = replace(columns, mask=open_mask, temperature=torch.ones_like(columns.temperature))
        _scan(logits, masks, columns.row, columns, work, tuning, raw=True, flat=False, first=True)
    top[(n,)](
        logits, masks, columns.row, columns.mask, columns.temperature, work.token, work.tile_best, work.raw, work.cut,
        work.kept, work.tile_list, work.token_list, work.value_list, out.choice, out.token, out.logprob, vocabulary,
        words, tiles, blocks, vocabulary, out.token.shape[1], TILES=tiles_padded, BLOCKS=blocks_padded, CHUNK=CHUNK,
        PROCESSED=processed, num_warps=tuning.list_warps, maxnreg=LIST_REGISTERS,
    )


def flat_of(columns: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.int32]:
    """1 for the draws whose threshold may lie anywhere, 2 for those of which the best token tells it: min-p alone."""
    flat = (columns["top_k"] <= 0) & (columns["temperature"] > 0)
    searched = flat & (columns["top_p"] < 1)
    return np.where(searched, 1, np.where(flat & (columns["min_p"] > 0), 2, 0)).astype(np.int32)


def on_host(
    logits: Tensor, masks: npt.NDArray[np.int32], picks: dict[str, npt.NDArray[Any]]
) -> tuple[Tensor, Columns, Ask]:
    """Masks, columns and question of picks given as columns on the host. Row 0 and the mask rows in use travel."""
    used, at = np.unique(np.append(picks["mask"], 0), return_inverse=True)
    flat = flat_of(picks)
    columns = Columns.of({**picks, "mask": at[:-1], "flat": flat}, logits.device)
    ask = Ask(lists=bool((picks["top_k"] > 0).any()), flat=bool(flat.any()))
    return torch.from_numpy(masks[used]).to(logits.device), columns, ask


def draw_picks(
    logits: Tensor, masks: npt.NDArray[np.int32], picks: dict[str, npt.NDArray[Any]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(token, logprob) of picks given as columns on the host; waits for the device."""
    allowed, columns, ask = on_host(logits, masks, picks)
    work = Workspace.allocate(len(picks["row"]), logits.shape[1], logits.device)
    draw(logits.contiguous(), allowed, columns, work, ask)
    return work.token.cpu().numpy().astype(np.int64), work.logprob.cpu().numpy()


def rank_picks(
    logits: Tensor, masks: npt.NDArray[np.int32], picks: dict[str, npt.NDArray[Any]], count: int, *, processed: bool
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(choice, token, logprob) as `Likely`, of the targets of picks on the host; waits for the device."""
    logits = logits.contiguous()
    allowed, columns, ask = on_host(logits, masks, picks)
    work = Workspace.allocate(len(picks["row"]), logits.shape[1], logits.device)
    out = Likely.allocate(len(picks["row"]), count, logits.device)
    if processed:
        draw(logits, allowed, columns, work, replace(ask, raw=False, processed=True))
    else:
        work.token.copy_(columns.target)
    most_likely(logits, allowed, columns, work, out, processed=processed)
    return out.choice.cpu().numpy(), out.token.cpu().numpy().astype(np.int64), out.logprob.cpu().numpy()
