"""The matrix unit of Intel CPUs (AMX) in compiled code: eight tiles of at most 16 rows of 64 bytes.

Tiles are named when code is compiled; addresses and strides (bytes) are int64. The shapes of the tiles are part of a
thread's state, on which other libraries rely: code that loads shapes first stores those it finds, and loads them again
before it returns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba.extending
import torch
from llvmlite import binding, ir
from numba import types

from .compiled import bytes_at, inner

ROWS = 16
ROW = 64

_FEATURES = ("amx-tile", "amx-bf16", "avx512f", "avx512bf16")
# Earlier versions give some instructions other types.
_LLVM = 20
_BYTE, _LONG, _POINTER = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()

# Untyped in all versions of Numba.
intrinsic: Callable[..., Any] = numba.extending.intrinsic


@functools.cache
def available() -> bool:
    """Whether this CPU has the unit and this process may use it. Effect: asks the system for that permission."""
    features = binding.get_host_cpu_features()
    if binding.llvm_version_info[0] < _LLVM or not all(features.get(name) for name in _FEATURES):
        return False
    # Torch asks for its own products too, under a private name that not every version has.
    ask: Callable[[], bool] | None = getattr(torch.cpu, "_init_amx", None)
    return ask is not None and ask()


class BFloat16(ir.types.Type):  # type: ignore[misc]  # llvmlite carries no types
    """LLVM's bfloat, which llvmlite does not name."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16)

    def __hash__(self) -> int:
        return hash(BFloat16)


def call(builder: Any, name: str, result: Any, *values: Any) -> Any:
    """A call of one of LLVM's own functions."""
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [value.type for value in values]), name)
    return builder.call(function, values)


def prefetch(builder: Any, address: Any) -> None:
    # For reading, into every cache, data.
    hints = (ir.Constant(ir.IntType(32), hint) for hint in (0, 3, 1))
    call(builder, "llvm.prefetch.p0", ir.VoidType(), builder.inttoptr(address, _POINTER), *hints)


def _instruction(name: str, tiles: tuple[int, ...] = (), arguments: tuple[Any, ...] = ()) -> Any:
    """What Numba wants from an intrinsic: its signature, and the code for it."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = [
            builder.inttoptr(value, kind) if kind is _POINTER else value
            for value, kind in zip(values, arguments, strict=True)
        ]
        call(builder, f"llvm.x86.{name}", ir.VoidType(), *(ir.Constant(_BYTE, tile) for tile in tiles), *given)
        return context.get_dummy_value()

    return types.void(*[types.int64] * len(arguments)), generate


@intrinsic
def load_shapes(context: Any, address: Any) -> Any:
    """64 bytes: 1; at 16, each tile's bytes in a row (uint16); at 48, each tile's rows (uint8). Tiles become 0."""
    return _instruction("ldtilecfg", (), (_POINTER,))


@intrinsic
def store_shapes(context: Any, address: Any) -> Any:
    return _instruction("sttilecfg", (), (_POINTER,))


@inner
def take(memory: Any, rows: Any) -> None:
    """Shapes of the first tiles: rows[i] rows of 64 bytes. Effect: the shapes found are kept in memory + 64."""
    shapes = bytes_at(memory, 64)
    shapes[:] = 0
    shapes[0] = 1
    for tile in range(len(rows)):
        shapes[16 + 2 * tile] = ROW
        shapes[48 + tile] = rows[tile]
    store_shapes(memory + 64)
    load_shapes(memory)


@inner
def give_back(memory: Any) -> None:
    load_shapes(memory + 64)


def zero(tile: int) -> Any:
    """(): the tile becomes 0."""
    return intrinsic(lambda context: _instruction("tilezero", (tile,)))


def load(tile: int) -> Any:
    """(address, stride): the tile's rows from memory."""
    return intrinsic(lambda context, address, stride: _instruction("tileloadd64", (tile,), (_POINTER, _LONG)))


def store(tile: int) -> Any:
    """(address, stride): the tile's rows to memory."""
    return intrinsic(lambda context, address, stride: _instruction("tilestored64", (tile,), (_POINTER, _LONG)))


def multiply(total: int, a: int, b: int) -> Any:
    """(): total += a b. total: [rows, 16] float32. a: [rows, 32] bfloat16. b: [16, 16, 2] bfloat16, b[i, j] being rows
    2 i and 2 i + 1 of column j."""
    return intrinsic(lambda context: _instruction("tdpbf16ps", (total, a, b)))


@intrinsic
def read_ahead(context: Any, address: Any) -> Any:
    """Starts to bring the 64 bytes around an address into the caches; any address will do."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        prefetch(builder, values[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def interleave(context: Any, first: Any, second: Any, out: Any) -> Any:
    """32 values of 16 bits from each of two addresses, in turn, to the third (64 bytes aligned)."""
    line = ir.VectorType(ir.IntType(16), 32)

    def generate(context: Any, builder: Any, signature: Any, addresses: Any) -> Any:
        a, b, target = (builder.inttoptr(address, line.as_pointer()) for address in addresses)
        a, b = builder.load(a, align=2), builder.load(b, align=2)
        for half in range(2):
            turns = [16 * half + i // 2 + i % 2 * 32 for i in range(32)]
            mixed = builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), 32), turns))
            builder.store(mixed, builder.gep(target, [ir.Constant(ir.IntType(32), half)]), align=64)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


def memory(size: int) -> Any:
    """() -> address of `size` bytes that live as long as the kernel's call, on a multiple of 64. Once in a kernel."""

    def typer(context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            with builder.goto_entry_block():
                place = builder.alloca(ir.ArrayType(_BYTE, size))
            place.align = 64
            return builder.ptrtoint(place, _LONG)

        return types.int64(), generate

    return intrinsic(typer)
