"""y = x W^T for a weight in 4 or 8 bits, on the CPU's matrix unit.

pack(codes, scale, offset) -> packed, or None when it does not fit or the CPU has no such unit
product(x, packed) -> y
    x: [tokens, k] bfloat16, at most FEW tokens. Returns [tokens, n] bfloat16. The weight counts as its bfloat16 values,
    sums are float32; the bits of a row do not depend on the others.

With few tokens the time of a product is that of reading its weight. The weight is read in its stored bits, once: a tile
of 16 outputs and 32 inputs becomes bfloat16 in the first cache and goes from there into the unit.

packed: uint8 [n / 16, k / 32, head + 64 * bits]. A tile is 16 scales and 16 offsets, then its codes. The scales and
offsets are in float16 (a head of 64 bytes), or in float32 (128) when one of the matrix is no float16. In the order of
the unit, [pair of inputs, output, input of the pair], a tile is 16 lines of 32 values; 8 bits are stored in that order.
4 bits: [half of the lines, half of the outputs, output, input of the pair], each eight codes in 32 bits, one for each
line, the first the lowest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from llvmlite import ir
from numba import types

from . import amx
from .compiled import address, kernel

Tensor = torch.Tensor

GROUP = 32
OUTPUTS = 16
# Two tiles of rows. More rows would read the weight again.
FEW = 2 * amx.ROWS
# Tiles read ahead. 106M weights in 4 bits, 8 rows: 8.5 ms; without reading ahead 11.0.
AHEAD = 16
# Bytes of a tile's scales and offsets in float16 and in float32.
HALF_HEAD, HEAD = 4 * OUTPUTS, 8 * OUTPUTS


def pack(codes: Tensor, scale: Tensor, offset: Tensor) -> Tensor | None:
    """codes: [n, k] uint8, taken as 4 bits when all are below 16. scale, offset: [n, k / 32] float32. None when n or k
    is no multiple of a tile, and without the unit: who holds a packed weight may use it."""
    if not amx.available():
        return None
    n, k = codes.shape
    if n % OUTPUTS or k % GROUP:
        return None
    halves = [x.half() for x in (scale, offset)]
    fits = all(map(torch.equal, (scale, offset), (x.float() for x in halves)))
    blocks = (n // OUTPUTS, k // GROUP)
    heads = [x.view(blocks[0], OUTPUTS, blocks[1]).transpose(1, 2).contiguous().view(torch.uint8)
             for x in (halves if fits else (scale, offset))]
    body = _four(codes, *blocks) if int(codes.max()) < 16 else _eight(codes, *blocks)
    return torch.cat((*heads, body), -1)


def _four(codes: Tensor, blocks: int, groups: int) -> Tensor:
    low_high = codes.view(blocks, 2, OUTPUTS // 2, groups, 2, 4, 2, 2)
    pairs = low_high[..., 0, :] | low_high[..., 1, :] << 4
    return pairs.permute(0, 3, 4, 1, 2, 6, 5).reshape(blocks, groups, -1)


def _eight(codes: Tensor, blocks: int, groups: int) -> Tensor:
    return codes.view(blocks, OUTPUTS, groups, GROUP // 2, 2).permute(0, 2, 3, 1, 4).reshape(blocks, groups, -1)


_FLOATS, _WORDS = ir.VectorType(ir.FloatType(), 16), ir.VectorType(ir.IntType(32), 16)
_HALVES, _BYTES = ir.VectorType(ir.HalfType(), 16), ir.VectorType(ir.IntType(8), 16)
_LINE, _ROUNDED = (ir.VectorType(amx.BFloat16(), size) for size in (32, 16))


class _Lines:
    """Writes the code that turns one tile into its 16 lines of bfloat16."""

    def __init__(self, builder: Any, head: int, tile: Any, lines: Any) -> None:
        self._builder, self._head, self._tile, self._lines = builder, head, tile, lines
        scales, offsets = (self._load(_FLOATS, at) if head == HEAD else builder.fpext(self._load(_HALVES, at), _FLOATS)
                           for at in (0, head // 2))
        # A line's first 16 values belong to outputs 0 to 7, two each.
        self._scales, self._offsets = ([self._twice(x, first) for first in (0, 8)] for x in (scales, offsets))

    def four(self) -> None:
        digits = ir.Constant(_FLOATS, [float(digit) for digit in range(16)])
        for half in range(2):
            words = [self._load(_WORDS, self._head + 128 * half + 64 * side) for side in range(2)]
            for line in range(8):
                shift = ir.Constant(_WORDS, [4 * line] * 16)
                # A look-up by the low four bits of each word.
                codes = [self._call("llvm.x86.avx512.permvar.sf.512", _FLOATS, digits, self._builder.lshr(word, shift))
                         for word in words]
                self._finish(8 * half + line, codes)

    def eight(self) -> None:
        for line in range(16):
            codes = [self._load(_BYTES, self._head + 32 * line + 16 * side) for side in range(2)]
            self._finish(line, [self._builder.uitofp(code, _FLOATS) for code in codes])

    def read_ahead(self, size: int) -> None:
        for at in range(0, size, 64):
            amx.prefetch(self._builder, self._at(self._tile, AHEAD * size + at))

    def _finish(self, line: int, codes: list[Any]) -> None:
        low, high = (self._call("llvm.fma.v16f32", _FLOATS, *values)
                     for values in zip(codes, self._scales, self._offsets, strict=True))
        values = self._call("llvm.x86.avx512bf16.cvtne2ps2bf16.512", _LINE, high, low)
        target = self._builder.inttoptr(self._at(self._lines, 64 * line), _LINE.as_pointer())
        self._builder.store(values, target).align = 64

    def _at(self, address: Any, offset: int) -> Any:
        return self._builder.add(address, ir.Constant(ir.IntType(64), offset))

    def _load(self, kind: Any, offset: int) -> Any:
        loaded = self._builder.load(self._builder.inttoptr(self._at(self._tile, offset), kind.as_pointer()))
        loaded.align = 16
        return loaded

    def _twice(self, values: Any, first: int) -> Any:
        order = ir.Constant(_WORDS, [first + i // 2 for i in range(16)])
        return self._builder.shuffle_vector(values, ir.Constant(_FLOATS, ir.Undefined), order)

    def _call(self, name: str, result: Any, *values: Any) -> Any:
        return amx.call(self._builder, name, result, *values)


def _unpacker(bits: int, head: int) -> Callable[..., Any]:
    def typer(context: Any, tile: Any, lines: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code = _Lines(builder, head, *arguments)
            code.read_ahead(head + 64 * bits)
            code.four() if bits == 4 else code.eight()
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    made: Callable[..., Any] = amx.intrinsic(typer)
    return made


@amx.intrinsic
def _round(context: Any, sums: Any, out: Any) -> Any:
    """16 float32 from one address to bfloat16 at the other."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = (builder.inttoptr(address, kind.as_pointer())
                          for address, kind in zip(arguments, (_FLOATS, _ROUNDED), strict=True))
        builder.store(builder.fptrunc(builder.load(source, align=64), _ROUNDED), target, align=32)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


# In compiled code, (tile, lines): from one address to the other.
_unpack_four, _unpack_eight = _unpacker(4, HEAD), _unpacker(8, HEAD)
_unpack_four_half, _unpack_eight_half = _unpacker(4, HALF_HEAD), _unpacker(8, HALF_HEAD)
_zero_low, _zero_high = amx.zero(0), amx.zero(1)
_load_low, _load_high, _load_weight = amx.load(2), amx.load(3), amx.load(4)
_multiply_low, _multiply_high = amx.multiply(0, 2, 4), amx.multiply(1, 3, 4)
_store_low, _store_high = amx.store(0), amx.store(1)

# Of the kernel's own memory, in bytes: shapes of the tiles; sums of FEW rows; a few tiles of lines, so that one is
# written while the one before is being read.
_SUMS, _LINES, _BUFFERS = 128, 2176, 4
_memory = amx.memory(_LINES + _BUFFERS * amx.ROWS * amx.ROW)


@kernel("void(int64, int64, int64, int64, int64, int64, int64)")
def _product(x: Any, packed: Any, out: Any, rows: Any, blocks: Any, groups: Any, size: Any) -> None:
    memory = _memory()
    low, high = min(rows, amx.ROWS), max(rows - amx.ROWS, 1)
    amx.take(memory, (low, high, low, high, amx.ROWS))
    stride = groups * amx.ROW
    for block in range(blocks):
        _zero_low()
        _zero_high()
        for group in range(groups):
            lines = memory + _LINES + (group & (_BUFFERS - 1)) * amx.ROWS * amx.ROW
            if size == HALF_HEAD + 64 * 4:
                _unpack_four_half(packed, lines)
            elif size == HALF_HEAD + 64 * 8:
                _unpack_eight_half(packed, lines)
            elif size == HEAD + 64 * 4:
                _unpack_four(packed, lines)
            else:
                _unpack_eight(packed, lines)
            packed += size
            _load_weight(lines, amx.ROW)
            _load_low(x + group * amx.ROW, stride)
            _multiply_low()
            if rows > amx.ROWS:
                _load_high(x + group * amx.ROW + amx.ROWS * stride, stride)
                _multiply_high()
        _store_low(memory + _SUMS, amx.ROW)
        if rows > amx.ROWS:
            _store_high(memory + _SUMS + amx.ROWS * amx.ROW, amx.ROW)
        for row in range(rows):
            _round(memory + _SUMS + row * amx.ROW, out + 2 * OUTPUTS * (row * blocks + block))
    amx.give_back(memory)


def product(x: Tensor, packed: Tensor) -> Tensor:
    rows = x.shape[0]
    blocks, groups, size = packed.shape
    out = x.new_empty(rows, blocks * OUTPUTS)
    if rows:
        source = address(x, rows, groups * GROUP)
        _product(source, packed.data_ptr(), out.data_ptr(), rows, blocks, groups, size)
    return out
