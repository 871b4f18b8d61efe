"""Triton, where it is installed. `kernels` imports without it; a launch without it is refused by name.

Under TRITON_INTERPRET=1 kernels run on the CPU as NumPy. The interpreter multiplies bfloat16 and smaller types wrongly,
so every product of two tiles goes through `dot`. A parameter annotated `constexpr` is fixed when a kernel is
compiled, every other one is an `Arg`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from .base import KernelError

try:
    import triton
    import triton.language as _language
except ImportError:
    triton = None


class _Missing:
    """Stands for a kernel where Triton is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, grid: object) -> Any:
        raise KernelError(f"{self._name} needs Triton: pip install 'espalier[gpu]'")


def jit(function: Callable[..., Any], *, unspecialized: Sequence[str] = ()) -> Any:
    """unspecialized: arguments of many values, for which no variants are compiled."""
    return _Missing(function.__name__) if triton is None else triton.jit(function, do_not_specialize=unspecialized)


# The compiler looks up the annotations of a kernel's parameters, and accepts no name but Triton's own.
if TYPE_CHECKING or triton is None:
    constexpr: TypeAlias = Any
    Arg: TypeAlias = Any
else:
    constexpr, Arg = _language.constexpr, _language.tensor
# Any: Triton gives its language no types that a checker could follow.
tl: Any = None if triton is None else _language


def constant(value: int | bool) -> Any:
    """A constant that kernels of a file may use by name."""
    return None if triton is None else tl.constexpr(value)


INTERPRETED: Any = constant(triton is not None and bool(triton.knobs.runtime.interpret))


@jit
def dot(a: Arg, b: Arg) -> Arg:
    """a @ b in float32; float32 operands are not cut to tf32."""
    if INTERPRETED:
        return tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a, b, input_precision="ieee")


@jit
def add_dot(acc: Arg, a: Arg, b: Arg) -> Arg:
    """acc + a @ b in float32, added where the products are."""
    if INTERPRETED:
        return acc + tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    return tl.dot(a, b, acc, input_precision="ieee")


def descriptor(matrix: torch.Tensor, block: list[int]) -> Any:
    """For the copy engine: tiles of a contiguous matrix, zeros where they reach beyond it. Rows start at 16 bytes."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), block)


def next_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()
