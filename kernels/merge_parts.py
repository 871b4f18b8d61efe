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

from .base import FLOATS, Implementation
from .jit import INTERPRETED, Arg, constexpr, jit, tl

# Parts whose loads are in flight together. Of no influence on the result.
AHEAD = 16
MANY = 512


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
    HEADS: constexpr, DIM: constexpr, WIDTH: constexpr, AHEAD: constexpr, EACH: constexpr, OVERLAP: constexpr,
) -> None:
    """EACH query heads of a token, in one warp: with more, every step of the fold would wait at barriers."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    token, head = tl.program_id(0) // (HEADS // EACH), tl.program_id(0) % (HEADS // EACH) * EACH
    begin, end = tl.load(part_begin + token), tl.load(part_begin + token + 1)
    if begin == end:
        return
    dims, one = tl.arange(0, WIDTH), tl.arange(0, 1)
    inside = (dims < DIM)[None, :]
    last = head + EACH
    while head < last:
        acc = tl.zeros([1, WIDTH], tl.float32)
        mass, top = tl.zeros([1], tl.float32), tl.full([1], float("-inf"), tl.float32)
        part = begin
        while part < end:
            for ahead in tl.static_range(AHEAD):
                here = part + ahead < end
                row = (part + ahead).to(tl.int64) * HEADS + head + one
                part_top = tl.load(part_ml + row * 2, mask=here, other=float("-inf"))
                part_mass = tl.load(part_ml + row * 2 + 1, mask=here, other=0.0)
                part_acc = tl.load(part_o + row[:, None] * DIM + dims[None, :], mask=inside & here, other=0.0)
                acc, mass, top = fold(acc, mass, top, part_acc, part_mass, part_top)
            part += AHEAD
        row = token.to(tl.int64) * HEADS + head + one
        tl.store(out + row[:, None] * DIM + dims[None, :], normalized(acc, mass).to(out.dtype.element_ty), mask=inside)
        head += 1


def launch(
    part_o: torch.Tensor, part_ml: torch.Tensor, part_begin: torch.Tensor, out: torch.Tensor, *, overlap: bool = False,
) -> None:
    """overlap: start while the kernel before still runs, and wait for it inside."""
    tokens, heads, dim = out.shape
    # Of many tokens few have parts: a program for each head would spend its time starting. 8,192 tokens x 32 heads took
    # about 100 us to find nothing to do.
    each = heads if tokens > MANY else 1
    options = {"launch_pdl": True} if overlap else {}
    _merge[(tokens * (heads // each),)](
        part_o, part_ml, part_begin, out, HEADS=heads, DIM=dim, WIDTH=1 << (dim - 1).bit_length(),
        AHEAD=1 if INTERPRETED else AHEAD, EACH=each, OVERLAP=overlap, num_warps=1, **options,
    )


IMPLEMENTATIONS = (
    Implementation("merge_parts", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("merge_parts", ("cuda",), FLOATS, ("fast", "exact"), launch),
)
