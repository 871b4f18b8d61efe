"""A step whose draws are on their way: the engine has planned and started the next before it reads them.

    device   [ forward k ][ draw k ][ forward k + 1          ][ draw k + 1 ]
    host       plan k + 1, start it  [ read k, grammars, masks ][ plan k + 2 ...
                                       "the token that pick 3 of step k draws" stands in row 3 of step k + 1

A row of k + 1 whose request turns out to have ended in k was computed for nothing: its page is free or the tree's by
then, and what it wrote lies behind all that anybody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .executor import Ticket
from .plan import Sampled
from .scheduler import Share

Owner = tuple[int, int]  # share, position within the share


@dataclass(frozen=True, slots=True)
class Flight:
    """owners: of each pick."""

    shares: tuple[Share, ...]
    ticket: Ticket
    owners: tuple[Owner, ...]


def by_owner(
    shares: Sequence[Share], owners: Sequence[Owner], drawn: Sequence[Sampled]
) -> dict[int, list[list[Sampled]]]:
    """What was drawn, by share and by position within the share."""
    sorted_out: dict[int, list[list[Sampled]]] = {
        index: [[] for _ in share.positions] for index, share in enumerate(shares)
    }
    for (index, offset), sampled in zip(owners, drawn, strict=True):
        sorted_out[index][offset].append(sampled)
    return sorted_out


def resolved(share: Share) -> Share:
    """The same tokens by their ids, now that the draws before were read, on the pages where they are now."""
    request, row = share.request, share.row
    tokens = tuple(request.chain.slice(row.start, row.start + len(row.tokens)))
    pages = tuple(request.table[:len(row.pages)])
    return replace(share, row=replace(row, tokens=tokens, pages=pages, sampled_from=None))
