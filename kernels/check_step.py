"""check_step(step, pages, page, error): whether attention may read what a step names; for its checked mode.

pages, page: of the pool, and slots of a page. error: [1] int32 of `checked`, gets ROW where a row's slot or tokens are
not there, POSITION where it is longer than its pages or a token stands behind its end, PAGE where one of its pages is
outside the pool, SEGMENT where a segment starts inside a page. Reads rows, segments, block table and q_slot alone; any
step may be given.
"""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation
from .checked import PAGE, POSITION, ROW, SEGMENT, require
from .jit import Arg, constexpr, jit, tl
from .paged import Step

BLOCK = 128


def reference(step: Step, pages: int, page: int, error: torch.Tensor) -> None:
    slots, width = step.block_table.shape
    if any(begin % page for begin, _, row_begin, row_end, *_ in step.segments.tolist() if row_end > row_begin):
        error.clamp_(min=SEGMENT)
    for slot, q_begin, q_len, kv_len, *_ in step.rows.tolist():
        if not 0 <= slot < slots or q_begin < 0 or q_len < 0 or q_begin + q_len > len(step.q_slot):
            error.clamp_(min=ROW)
        elif not 0 <= kv_len <= width * page:
            error.clamp_(min=POSITION)
        else:
            named = step.block_table[slot, :-(-kv_len // page)]
            if bool(((named < 0) | (named >= pages)).any()):
                error.clamp_(min=PAGE)
            if bool((step.q_slot[q_begin:q_begin + q_len] >= kv_len).any()):
                error.clamp_(min=POSITION)


@jit
def _check_segments(segments: Arg, error: Arg, count: Arg, PAGE_SLOTS: constexpr, BLOCK: constexpr) -> None:
    """BLOCK of them for each program, round after round."""
    at = tl.program_id(0) * BLOCK
    while at < count:
        index = at + tl.arange(0, BLOCK)
        record, inside = segments + index * 8, index < count
        there = tl.load(record + 3, mask=inside, other=0) > tl.load(record + 2, mask=inside, other=0)
        begin = tl.load(record, mask=inside & there, other=0)
        require(tl.min(tl.where(begin % PAGE_SLOTS == 0, 1, 0), 0), error, 9)
        at += tl.num_programs(0) * BLOCK


@jit
def _check_step(
    rows: Arg, segments: Arg, block_table: Arg, q_slot: Arg, error: Arg, tokens: Arg, n_segments: Arg, slots: Arg,
    width: Arg, pages: Arg, PAGE_SLOTS: constexpr, BLOCK: constexpr,
) -> None:
    """One program a row."""
    _check_segments(segments, error, n_segments, PAGE_SLOTS, BLOCK)
    record = rows + tl.program_id(0) * 8
    slot, q_begin, q_len, kv_len = tl.load(record), tl.load(record + 1), tl.load(record + 2), tl.load(record + 3)
    placed = (slot >= 0) & (slot < slots) & (q_begin >= 0) & (q_len >= 0) & (q_begin <= tokens - q_len)
    fits = (kv_len >= 0) & (kv_len <= width * PAGE_SLOTS)
    require(placed, error, 4)
    require(fits | (placed == 0), error, 3)
    if placed & fits:
        table = block_table + slot.to(tl.int64) * width
        used, at = (kv_len + PAGE_SLOTS - 1) // PAGE_SLOTS, 0
        while at < used:
            index = at + tl.arange(0, BLOCK)
            named = tl.load(table + index, mask=index < used, other=0)
            require(tl.min(tl.where((named >= 0) & (named < pages), 1, 0), 0), error, 1)
            at += BLOCK
        at = 0
        while at < q_len:
            index = at + tl.arange(0, BLOCK)
            seat = tl.load(q_slot + q_begin + index, mask=index < q_len, other=-1)
            require(tl.min(tl.where(seat < kv_len, 1, 0), 0), error, 3)
            at += BLOCK


def on_device(step: Step, pages: int, page: int, error: torch.Tensor) -> None:
    slots, width = step.block_table.shape
    if len(step.rows):
        _check_step[(len(step.rows),)](
            step.rows, step.segments, step.block_table, step.q_slot, error, len(step.q_slot), len(step.segments),
            slots, width, pages, PAGE_SLOTS=page, BLOCK=BLOCK, num_warps=4,
        )


IMPLEMENTATIONS = (
    Implementation("check_step", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("check_step", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
