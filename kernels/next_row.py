"""Where a grammar stands after a token, without the host: read after the draw, written before the next mask.

next_row(row, token, keeps, begin, edge_token, edge_row, out) -> None
    row, token: [n] int32, the mask row of each request and the token drawn. keeps: [rows, ceil(vocabulary / 32)] int32,
    bit t % 32 of word t // 32 set where token t leaves the request on the row. begin: [rows + 1] int32; the edges of a
    row are [begin[r], begin[r + 1]): edge_token, edge_row: [edges] int32, a token and the row it leads to.
    Effect: out[i] = row[i] where the token keeps it, else the row of its edge, else -1 (only the host can say). -1 also
    where row or token is negative, or outside the table. out may be `row` itself. error: see `checked.py`.
"""

from __future__ import annotations

import torch

from . import checked
from .base import FLOATS, Implementation
from .jit import Arg, constexpr, jit, tl

Tensor = torch.Tensor
BLOCK = 128


def reference(
    row: Tensor, token: Tensor, keeps: Tensor, begin: Tensor, edge_token: Tensor, edge_row: Tensor, out: Tensor
) -> None:
    for i, (at, drawn) in enumerate(zip(row.tolist(), token.tolist(), strict=True)):
        found = -1
        if 0 <= at < len(begin) - 1 and 0 <= drawn < 32 * keeps.shape[1]:
            edges = range(int(begin[at]), int(begin[at + 1]))
            found = next((int(edge_row[e]) for e in edges if int(edge_token[e]) == drawn), -1)
            if int(keeps[at, drawn // 32]) >> drawn % 32 & 1:
                found = at
        out[i] = found


@jit
def _next_row(
    row: Arg, token: Arg, keeps: Arg, begin: Arg, edge_token: Arg, edge_row: Arg, out: Arg, error: Arg, rows: Arg,
    words: Arg, CHECKED: constexpr, BLOCK: constexpr,
) -> None:
    """One program a request."""
    i = tl.program_id(0)
    at, drawn = tl.load(row + i), tl.load(token + i)
    if CHECKED:
        checked.require(at < rows, error, 4)
        checked.require(drawn < words * 32, error, 5)
    known = (at >= 0) & (at < rows) & (drawn >= 0) & (drawn < words * 32)
    safe = tl.where(known, at, 0).to(tl.int64)
    drawn = tl.where(known, drawn, 0)
    word = tl.load(keeps + safe * words + drawn // 32)
    stays = ((word >> (drawn & 31)) & 1) != 0
    found = tl.where(known & stays, at, -1)
    edge, end = tl.load(begin + safe), tl.load(begin + safe + 1)
    end = tl.where(known & (stays == 0), end, edge)
    while edge < end:
        j = edge + tl.arange(0, BLOCK)
        same = tl.load(edge_token + j, mask=j < end, other=-1) == drawn
        found = tl.maximum(found, tl.max(tl.load(edge_row + j, mask=same, other=-1), 0))
        edge += BLOCK
    tl.store(out + i, found)


def on_device(
    row: Tensor, token: Tensor, keeps: Tensor, begin: Tensor, edge_token: Tensor, edge_row: Tensor, out: Tensor, *,
    error: Tensor | None = None,
) -> None:
    if row.shape[0]:
        _next_row[(row.shape[0],)](
            row, token, keeps, begin, edge_token, edge_row, out, out if error is None else error, keeps.shape[0],
            keeps.shape[1], CHECKED=error is not None, BLOCK=BLOCK, num_warps=1,
        )


IMPLEMENTATIONS = (
    Implementation("next_row", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("next_row", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
