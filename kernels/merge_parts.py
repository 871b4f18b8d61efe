"""The parts of each token joined: a fold from the left, in the order of their slots.

merge_parts(part_o, part_ml, part_begin, out) -> None
    part_o: [parts, q_heads, head_dim] float32, sums of 2**(score - m) * value, not normalized.
    part_ml: [parts, q_heads, 2] float32: the maximum m of the scores (in log2 units, -inf where nothing was visible)
    and the mass l. part_begin: [tokens + 1] int32; a token's parts are [part_begin[t], part_begin[t + 1]).
    Effect: writes out [tokens, q_heads, head_dim] of every token that has parts; zeros where all of them are empty.
    The order of the fold is fixed and `fold` is the one way to join two parts, so a token's bits depend on its parts
    alone.
"""

from __future__ import annotations

import torch

from .jit import Arg, constexpr, jit, tl

# Loads in flight for each program: the parts of a long row arrive eight at a time.
AHEAD = 8


def reference(part_o: torch.Tensor, part_ml: torch.Tensor, part_begin: torch.Tensor, out: torch.Tensor) -> None:
    for token, (begin, end) in enumerate(zip(part_begin[:-1].tolist(), part_begin[1:].tolist(), strict=True)):
        if begin == end:
            continue
        top, mass = part_ml[begin:end, :, 0], part_ml[begin:end, :, 1]
        best = top.amax(0)
        weights = (top - best.nan_to_num(neginf=0.0)).exp2()
        total = (weights * mass).sum(0)
        joined = (weights[..., None] * part_o[begin:end]).sum(0) / total.where(total > 0, 1.0)[:, None]
        out[token] = joined.to(out.dtype)


@jit
def fold(acc: Arg, mass: Arg, top: Arg, part: Arg, part_mass: Arg, part_top: Arg) -> Arg:
    """Join (acc, mass, top) with the part that follows it. Empty sides (top = -inf) change no bit of the other."""
    best = tl.maximum(top, part_top)
    base = tl.where(best == float("-inf"), 0.0, best)
    old, new = tl.exp2(top - base), tl.exp2(part_top - base)
    # fma by name: no compiler chooses which of the two products is rounded.
    acc = tl.fma(acc, tl.expand_dims(old, -1), part * tl.expand_dims(new, -1))
    return acc, tl.fma(mass, old, part_mass * new), best


@jit
def normalized(acc: Arg, mass: Arg) -> Arg:
    """What a fold came to; zeros where nothing was visible."""
    return acc / tl.expand_dims(tl.where(mass > 0, mass, 1.0), -1)


@jit
def _merge(
    part_o: Arg, part_ml: Arg, part_begin: Arg, out: Arg,
    HEADS: constexpr, DIM: constexpr, WIDTH: constexpr, BLOCK: constexpr, AHEAD: constexpr,
) -> None:
    token = tl.program_id(0) // (HEADS // BLOCK)
    heads = tl.program_id(0) % (HEADS // BLOCK) * BLOCK + tl.arange(0, BLOCK)
    part, end = tl.load(part_begin + token), tl.load(part_begin + token + 1)
    if part == end:
        return
    dims = tl.arange(0, WIDTH)
    inside = (heads >= 0)[:, None] & (dims < DIM)[None, :]
    acc = tl.zeros([BLOCK, WIDTH], tl.float32)
    mass, top = tl.zeros([BLOCK], tl.float32), tl.full([BLOCK], float("-inf"), tl.float32)
    while part < end:
        for ahead in tl.static_range(AHEAD):
            here = part + ahead < end
            rows = (part + ahead).to(tl.int64) * HEADS + heads
            part_top = tl.load(part_ml + rows * 2, mask=here, other=float("-inf"))
            part_mass = tl.load(part_ml + rows * 2 + 1, mask=here, other=0.0)
            o = tl.load(part_o + rows[:, None] * DIM + dims[None, :], mask=inside & here, other=0.0)
            acc, mass, top = fold(acc, mass, top, o, part_mass, part_top)
        part += AHEAD
    rows = token.to(tl.int64) * HEADS + heads
    tl.store(out + rows[:, None] * DIM + dims[None, :], normalized(acc, mass).to(out.dtype.element_ty), mask=inside)


def launch(part_o: torch.Tensor, part_ml: torch.Tensor, part_begin: torch.Tensor, out: torch.Tensor) -> None:
    tokens, heads, dim = out.shape
    width = 1 << (dim - 1).bit_length()
    block = 4 if heads % 4 == 0 else 1
    _merge[(tokens * (heads // block),)](
        part_o, part_ml, part_begin, out, HEADS=heads, DIM=dim, WIDTH=width, BLOCK=block, AHEAD=AHEAD,
        num_warps=block,
    )
