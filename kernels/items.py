"""The records of one attention step: what is visible, and the items that it is cut into (`cut`, `planner`).

A step is a forest. Its rows stand in depth-first order, so that the rows below a segment are a range, and so are their
tokens. A segment is a run of slots that all of them read; the pages are the same, the block table of any one of them
(the representative) names them. Every row ends in a segment of its own.

    segment 0   slots [0, 8192)      rows [0, 3)      read once for three rows
    segment 1   slots [8192, 8450)   row 0
    segment 2   slots [8192, 9000)   rows [1, 3)
    segment 3   slots [9000, 9017)   row 1
    segment 4   slots [9000, 9300)   row 2

An item is a tile of tokens x a range of slots; each KV head makes it a program of its own. Segments of few packed rows
(tokens * query heads per KV head) fill the narrow bin, the others the wide one. A segment is cut into the same pieces
for all its tokens, so a token has as many parts as its path has pieces, numbered in the order of their slots. A token
of one part is written at once; parts of the others go to [part_begin[t], part_begin[t + 1]) and are merged.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, DRAFT, DIRECT = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Row:
    """A sequence: tokens [q_begin, q_begin + q_len) are its last q_len slots of kv_len; `slot` is its block table.

    At most 64 consecutive slots [draft_begin, draft_begin + draft_len) are seen by the bits of each token.
    """

    slot: int
    q_begin: int
    q_len: int
    kv_len: int
    draft_begin: int
    draft_len: int
    segment: int

    @property
    def q_end(self) -> int:
        return self.q_begin + self.q_len

    def packed(self) -> tuple[int, ...]:
        return (self.slot, self.q_begin, self.q_len, self.kv_len, self.draft_begin, self.draft_len, self.segment, 0)


@dataclass(frozen=True, slots=True)
class Segment:
    """Slots [slot_begin, slot_end), read by rows [row_begin, row_end). parent: -1 at a root."""

    slot_begin: int
    slot_end: int
    row_begin: int
    row_end: int
    parent: int
    representative: int

    def packed(self) -> tuple[int, ...]:
        return (self.slot_begin, self.slot_end, self.row_begin, self.row_end, self.parent, self.representative, 0, 0)


@dataclass(frozen=True, slots=True)
class Item:
    """Tokens [q_begin, q_end) over slots [slot_begin, slot_end). flags: FIRST, DRAFT, DIRECT."""

    segment: int
    representative: int
    q_begin: int
    q_end: int
    slot_begin: int
    slot_end: int
    part_ord: int
    flags: int

    def packed(self) -> tuple[int, ...]:
        return (self.segment, self.representative, self.q_begin, self.q_end, self.slot_begin, self.slot_end,
                self.part_ord, self.flags)


@dataclass(frozen=True, slots=True)
class Plan:
    """items of each bin, in the order in which they start. part_begin: [tokens + 1]."""

    narrow: tuple[Item, ...]
    wide: tuple[Item, ...]
    part_begin: tuple[int, ...]
