"""y = x W^T + b, of which the bits of a row depend on that row, the weight and the bias alone.

linear(x, matrix, bias) -> y
    x: [tokens, k], matrix.dense: [n, k], bias: [n] or None, all bfloat16 and contiguous; k a multiple of 8 (rows start
    at 16 bytes, as the copy engine asks). Returns [tokens, n] bfloat16.
    Row padding of a tile is never read and never written. Raises KernelError for shapes that do not fit together.

The rule: the inputs of an output are cut into chunks of `chunk(n, k)`. In a chunk, matrix instructions add 16 inputs
after the other to a fresh float32 accumulator; the chunks are folded from the left in ascending order, the bias is
added, and the sum is rounded once. Tiles, and whether a chunk is a program of its own, follow from the number of tokens
and change no bit: docs/kernels.md says what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .base import Implementation, KernelError
from .jit import Arg, add_dot, constexpr, descriptor, jit, tl
from .linear import Matrix, keep


@dataclass(frozen=True, slots=True)
class Tile:
    """tokens x rows of the weight, in steps of `depth` inputs. stages: steps on their way. turned: the 64 rows of a
    matrix instruction are rows of the weight, so that there may be fewer tokens."""

    tokens: int
    rows: int
    depth: int
    warps: int
    stages: int
    turned: bool = True


# Swept on an H200, bench/results/kernels_linear_sweep.json.
FEW = (Tile(16, 64, 256, 4, 4), Tile(32, 64, 128, 4, 5))
# For up to 64 tokens, by rows of the weight: the smallest of which a device's 132 multiprocessors take all at once.
SOME = (Tile(64, 32, 128, 4, 5, turned=False), Tile(64, 64, 128, 4, 4), Tile(64, 128, 128, 8, 4))
# For more, with what a round of 132 programs costs: of 128, 256, 512 and 1,024 tokens by the weights of a layer, the
# least sum is the fastest tile, or within 3 % of it.
MANY = ((Tile(64, 64, 128, 4, 4), 8), (Tile(128, 64, 128, 4, 4), 11), (Tile(128, 128, 64, 8, 4), 18),
        (Tile(128, 256, 64, 8, 4), 32))
PROCESSORS = 132
# Weights of fewer rows are cut into chunks of at least SHORTEST inputs: few tokens are then work for all processors.
ROWS, SHORTEST = 4096, 1024
GROUP = 8
BLOCK = 512


def chunk(n: int, k: int) -> int:
    """Inputs of a chunk: all of them from ROWS rows on; a multiple of every depth."""
    chunks = max(1, min(-(-ROWS // n), k // SHORTEST))
    return -(-k // chunks // 256) * 256


def reference(x: torch.Tensor, matrix: Matrix, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The same fold; within a chunk in float64."""
    n, k = matrix.dense.shape
    total = x.new_zeros((x.shape[0], n), dtype=torch.float32)
    for begin in range(0, k, chunk(n, k)):
        part = slice(begin, begin + chunk(n, k))
        total += (x[:, part].double() @ matrix.dense[:, part].double().T).float()
    return (total if bias is None else total + bias.float()).to(x.dtype)


@jit
def _product(
    x: Arg, weight: Arg, bias: Arg, out: Arg, parts: Arg, tokens: Arg, n: Arg, k: Arg,
    TOKENS: constexpr, ROWS: constexpr, DEPTH: constexpr, CHUNK: constexpr, CHUNKS: constexpr, SPLIT: constexpr,
    TURNED: constexpr, BIAS: constexpr, GROUP: constexpr, OVERLAP: constexpr,
) -> None:
    """A tile of the output; SPLIT: a part of it, over one chunk. Tiles of GROUP runs of tokens share the weight."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
    tile, first, last = tl.program_id(0), 0, k
    if SPLIT:
        first = tile % CHUNKS * CHUNK
        last = tl.minimum(first + CHUNK, k)
        tile = tile // CHUNKS
    group = GROUP * tl.cdiv(n, ROWS)
    top = tile // group * GROUP
    high = tl.minimum(tl.cdiv(tokens, TOKENS) - top, GROUP)
    token = (top + tile % group % high) * TOKENS
    row = tile % group // high * ROWS
    acc = tl.zeros([ROWS, TOKENS] if TURNED else [TOKENS, ROWS], tl.float32)
    total = tl.zeros_like(acc)
    for at in range(first, last, DEPTH):
        inputs, weights = x.load([token, at]), weight.load([row, at])
        acc = add_dot(acc, weights, inputs.T) if TURNED else add_dot(acc, inputs, weights.T)
        if CHUNKS > 1 and not SPLIT:
            if (at + DEPTH) % CHUNK == 0:
                total += acc
                acc = tl.zeros_like(acc)
    if CHUNKS > 1 and not SPLIT:
        acc = total + acc
    if TURNED:
        acc = acc.T
    ts, rows = token + tl.arange(0, TOKENS), row + tl.arange(0, ROWS)
    places = ts.to(tl.int64)[:, None] * n + rows[None, :]
    inside = (ts < tokens)[:, None] & (rows < n)[None, :]
    if SPLIT:
        tl.store(parts + (first // CHUNK).to(tl.int64) * tokens * n + places, acc, mask=inside)
    else:
        if BIAS:
            acc += tl.load(bias + rows, mask=rows < n, other=0.0).to(tl.float32)[None, :]
        tl.store(out + places, acc.to(out.dtype.element_ty), mask=inside)


@jit
def _fold(
    parts: Arg, bias: Arg, out: Arg, count: Arg, n: Arg, CHUNKS: constexpr, BIAS: constexpr, BLOCK: constexpr,
    OVERLAP: constexpr,
) -> None:
    """Parts [CHUNKS, count] to out [count], from the left."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.zeros([BLOCK], tl.float32)
    for part in tl.static_range(CHUNKS):
        total += tl.load(parts + part * count.to(tl.int64) + at, mask=inside, other=0.0)
    if BIAS:
        total += tl.load(bias + at % n, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=inside)


def product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor, tile: Tile, step: int,
    split: bool,
) -> None:
    """Writes out, in chunks of `step` inputs, a multiple of the tile's depth. split: each chunk in a program of its
    own, then a fold; else a program folds its chunks itself."""
    (tokens, k), n = x.shape, weight.shape[0]
    chunks = -(-k // step)
    split = split and chunks > 1
    overlap = split and x.is_cuda
    parts = torch.empty((chunks, tokens, n), dtype=torch.float32, device=x.device) if split else out
    programs = _tiles(tile, tokens, n) * (chunks if split else 1)
    _product[(programs,)](
        descriptor(x, [tile.tokens, tile.depth]), descriptor(weight, [tile.rows, tile.depth]), bias, out, parts, tokens,
        n, k, TOKENS=tile.tokens, ROWS=tile.rows, DEPTH=tile.depth, CHUNK=step if chunks > 1 else 0, CHUNKS=chunks,
        SPLIT=split, TURNED=tile.turned, BIAS=bias is not None, GROUP=GROUP, OVERLAP=overlap,
        num_warps=tile.warps, num_stages=tile.stages,
    )
    if split:
        options = {"launch_pdl": True} if overlap else {}
        _fold[(-(-tokens * n // BLOCK),)](
            parts, bias, out, tokens * n, n, CHUNKS=chunks, BIAS=bias is not None, BLOCK=BLOCK, OVERLAP=overlap,
            num_warps=4, **options,
        )


def tile_for(tokens: int, n: int, folded: bool = False) -> Tile:
    """folded: a program may have chunks to fold, whose sum takes as many registers again as the accumulator."""
    for tile in FEW:
        if tokens <= tile.tokens:
            return tile
    if tokens <= SOME[0].tokens:
        return next((tile for tile in SOME if n <= tile.rows * PROCESSORS), SOME[-1])
    tiles = MANY[:-1] if folded else MANY
    return min(tiles, key=lambda tile: -(-_tiles(tile[0], tokens, n) // PROCESSORS) * tile[1])[0]


def _tiles(tile: Tile, tokens: int, n: int) -> int:
    return -(-tokens // tile.tokens) * -(-n // tile.rows)


def linear(
    x: torch.Tensor, matrix: Matrix, bias: torch.Tensor | None = None, *, out: torch.Tensor | None = None
) -> torch.Tensor:
    weight = matrix.dense
    _check(x, weight, bias)
    tokens, n = x.shape[0], weight.shape[0]
    out = torch.empty((tokens, n), dtype=x.dtype, device=x.device) if out is None else out
    if tokens:
        step = chunk(n, x.shape[1])
        tile = tile_for(tokens, n, step < x.shape[1])
        product(x, weight, bias, out, tile, step, split=_tiles(tile, tokens, n) < PROCESSORS)
    return out


def _check(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    if x.shape[1] != weight.shape[1] or (bias is not None and bias.shape != weight.shape[:1]):
        biased = "" if bias is None else f" and bias {tuple(bias.shape)}"
        raise KernelError(f"x {tuple(x.shape)}, weight {tuple(weight.shape)}{biased} do not belong together")
    if x.shape[1] % 8:
        raise KernelError(f"a row has a multiple of 8 inputs, not {x.shape[1]}: pad x and the weight with zeros")
    if not x.is_contiguous() or not weight.is_contiguous():
        raise KernelError("x and weight are contiguous")


IMPLEMENTATIONS = (
    Implementation("linear", ("cuda",), (torch.bfloat16,), ("exact",), linear),
    Implementation("pack_linear", ("cuda",), (torch.bfloat16,), ("exact",), keep),
)
