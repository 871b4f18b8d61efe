"""Tools of the compiled CPU paths: typed decorators, arrays over addresses, bfloat16 as its bits, a vector exp.

NumPy has no bfloat16: compiled code sees such an array as uint16 and widens each value to float32 when it is read.
Arguments are addresses and sizes, because wrapping a tensor as a NumPy array costs more than a small kernel does; the
Python launcher beside each kernel checks shapes, dtypes and strides before it gives an address away.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic, overload
from numba.np.numpy_support import carray

from .base import KernelError

# Whether these carry types differs between versions of Numba; here they are untyped in all of them.
_njit: Callable[..., Any] = numba.njit
_overload: Callable[..., Any] = overload
_c_pointer: Callable[..., Any] = types.CPointer
_carray: Callable[..., Any] = carray

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered so that they vectorise: the order then depends on the length alone, never on the batch.
# NaN and infinities keep their meaning (masks are infinities, poisoned slots are NaN).
_VECTORISE = {"reassoc", "contract", "nsz", "arcp"}


def kernel(signature: str) -> Callable[[Function], Function]:
    """An entry point, compiled for `signature` (or read from the cache) at its first call; runs without the GIL."""

    def decorate(function: Function) -> Function:
        @functools.cache
        def compiled() -> Function:
            options = {"nogil": True, "cache": True, "fastmath": _VECTORISE, "error_model": "numpy"}
            made: Function = _njit(signature, **options)(function)
            return made

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return compiled()(*arguments)

        return cast(Function, call)

    return decorate


def inner(function: Function) -> Function:
    """Called from kernels only; specialised to the types it meets."""
    compiled: Function = _njit(nogil=True, fastmath=_VECTORISE, error_model="numpy")(function)
    return compiled


def unrolled(function: Function) -> Function:
    """Like `inner`, copied into its caller, so that a size which is a constant there is one here too."""
    compiled: Function = _njit(nogil=True, fastmath=_VECTORISE, error_model="numpy", forceinline=True)(function)
    return compiled


def strict(function: Function) -> Function:
    """Like `inner`, with every rounding as written."""
    compiled: Function = _njit(nogil=True, error_model="numpy", forceinline=True)(function)
    return compiled


def numbers(function: Function) -> Function:
    """Like `inner`, for values that are never NaN: comparisons, too, may be reordered."""
    compiled: Function = _njit(nogil=True, fastmath=_VECTORISE | {"nnan"}, error_model="numpy")(function)
    return compiled


def _bitcast(source: types.Type, target: types.Type) -> Callable[..., Any]:
    def typer(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), generate

    made: Callable[..., Any] = intrinsic(typer)
    return made


float_of_bits = _bitcast(types.uint32, types.float32)
bits_of_float = _bitcast(types.float32, types.uint32)


def _pointer(element: types.Type) -> Callable[..., Any]:
    target = _c_pointer(element)

    def typer(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(target))

        return target(types.int64), generate

    made: Callable[..., Any] = intrinsic(typer)
    return made


_pointer_f32 = _pointer(types.float32)
_pointer_u8 = _pointer(types.uint8)
_pointer_u16 = _pointer(types.uint16)
_pointer_i32 = _pointer(types.int32)
_pointer_i64 = _pointer(types.int64)


@inner
def floats(address: Any, shape: Any) -> Any:
    """float32 array of a shape over an address."""
    return _carray(_pointer_f32(address), shape)


@inner
def bfloats(address: Any, shape: Any) -> Any:
    """The bits of a bfloat16 array, as uint16."""
    return _carray(_pointer_u16(address), shape)


@inner
def bytes_at(address: Any, shape: Any) -> Any:
    return _carray(_pointer_u8(address), shape)


@inner
def ints(address: Any, shape: Any) -> Any:
    return _carray(_pointer_i32(address), shape)


@inner
def longs(address: Any, shape: Any) -> Any:
    return _carray(_pointer_i64(address), shape)


def load(value: Any) -> Any:
    """float32 of a stored value: float32 itself, or uint16 holding the bits of a bfloat16. In kernels only."""
    raise KernelError("load is for compiled code")


def rounded(value: Any, like: Any) -> Any:
    """float32 `value` as it is stored in an array whose values look like `like` (nearest even). In kernels only."""
    raise KernelError("rounded is for compiled code")


def _load(value: Any) -> Any:
    def as_it_is(value: Any) -> Any:
        return value

    def widened(value: Any) -> Any:
        return float_of_bits(np.uint32(value) << np.uint32(16))

    return {types.float32: as_it_is, types.uint16: widened}.get(value)


def _rounded(value: Any, like: Any) -> Any:
    def as_it_is(value: Any, like: Any) -> Any:
        return value

    def narrowed(value: Any, like: Any) -> Any:
        bits = bits_of_float(value)
        return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    return {types.float32: as_it_is, types.uint16: narrowed}.get(like)


_FAST_INLINE = {"nogil": True, "error_model": "numpy", "forceinline": True}
_overload(load, jit_options=_FAST_INLINE)(_load)
_overload(rounded, jit_options=_FAST_INLINE)(_rounded)


@strict
def exp(x: Any) -> Any:
    """e**x in float32 for x <= 88, within 2 ulp; 0 below -87. Written so that loops over it vectorise.

    x = n ln 2 + r, |r| <= ln(2)/2, with ln 2 in two parts so that r is exact; e**r by a polynomial of degree 6.
    """
    clamped = max(x, np.float32(-87.0))
    n = np.floor(clamped * np.float32(1.44269504) + np.float32(0.5))
    r = (clamped - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1.0)
    scale = float_of_bits(np.uint32(np.int32(n) + np.int32(127)) << np.uint32(23))
    return p * scale if x >= np.float32(-87.0) else np.float32(0.0)


@numbers
def largest(values: Any) -> Any:
    """The largest of float32 [n]; -inf of none."""
    best = np.float32(-np.inf)
    for i in range(values.shape[0]):
        best = values[i] if values[i] > best else best
    return best


def address(tensor: torch.Tensor, *shape: int) -> int:
    """Address of a contiguous CPU tensor of this shape; KernelError for anything else."""
    if tensor.shape != shape or not tensor.is_contiguous() or not tensor.is_cpu:
        raise KernelError(f"needs a contiguous CPU tensor of shape {shape}, got {tuple(tensor.shape)}")
    return tensor.data_ptr()
