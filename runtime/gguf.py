"""A reader of GGUF files that trusts nothing in them.

Layout (versions 2 and 3, little endian): magic, version, tensor count, key count; the keys with their typed values;
the tensor descriptions; then, at the next multiple of the alignment, the data. Every count, length and range is
checked against the bytes that are left before anything is allocated, so parsing takes at most `PARSE_MULTIPLE` times
the bytes of the metadata, whatever the file says, and any fault is a `WeightsError` that names its byte or tensor.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from .dequantize import dequantize
from .errors import WeightsError
from .gguf_cursor import Cursor, Value
from .gguf_types import NAMES, SUPPORTED, BlockType
from .keys import Keys
from .regular_file import opened

PARSE_MULTIPLE = 16  # measured worst cases: 10 (tensor descriptions), 8.5 (strings of one wide character each)
MAX_DIMS = 4
MAX_NAME = 64  # bytes of a tensor's name
MAX_KEY = 65535  # bytes of a key

_MAGIC = b"GGUF"
_SMALLEST_KEY = 8 + 1 + 4 + 1  # length, one character, type, one byte
_SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8  # length, one character, dims, one dim, type, offset


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """shape: slowest dimension first (torch order). offset: of the first byte in the file."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    offset: int
    nbytes: int


class GGUFFile(Keys):
    """metadata: key -> value; numeric arrays are NumPy arrays, string arrays tuples. tensors: name -> TensorInfo.

    The file is mapped, not read; it must not be truncated while in use."""

    metadata: Mapping[str, Value]

    def __init__(self, data: bytes | mmap.mmap, name: str = "") -> None:
        """Raises WeightsError. name: how messages call the file."""
        self.name = name
        self._data = data
        cursor = Cursor(data)
        self.version, tensors, keys = _header(cursor)
        self.metadata = MappingProxyType(_metadata(cursor, keys))
        _refuse_splits(self.metadata)
        alignment = _alignment(self.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(_tensors(cursor, tensors, alignment))
        _refuse_overlap(self.tensors)

    @classmethod
    def open(cls, path: str | Path) -> GGUFFile:
        """Raises WeightsError, also when the file cannot be read."""
        with opened(path) as (file, size):
            if size < len(_MAGIC):
                raise WeightsError("not a GGUF file: it is shorter than its magic", where=str(path))
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        return cls(data, str(path))

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The packed bytes, read-only, without a copy: uint8 `[nbytes]`."""
        info = self.info(name)
        return np.frombuffer(self._data, np.uint8, info.nbytes, info.offset)

    def tensor(self, name: str) -> NDArray[np.float32]:
        """The tensor in float32 and torch order, its own memory. Raises WeightsError when a value is not finite."""
        info = self.info(name)
        values = dequantize(info.type, self.raw(name))
        if not np.isfinite(values).all():
            raise WeightsError("it holds values that are not finite", where=f"tensor {name}",
                               fix="The file is broken: fetch it again.")
        return values.reshape(info.shape)

    def info(self, name: str) -> TensorInfo:
        """Raises WeightsError when the file has no such tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise WeightsError("the file has no such tensor", where=f"tensor {name}")
        return info

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.value(key)
        if not isinstance(value, tuple):
            raise WeightsError("an array of strings is expected", where=key)
        return value

    def integers(self, key: str) -> list[int]:
        value = self.value(key)
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            raise WeightsError("an array of integers is expected", where=key)
        return [int(item) for item in value]


def _header(cursor: Cursor) -> tuple[int, int, int]:
    """Version, number of tensors, number of keys."""
    if cursor.take(4) != _MAGIC:
        raise WeightsError("not a GGUF file: the magic is wrong", where="byte 0")
    version = cursor.u32()
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if swapped in (2, 3):
            raise WeightsError("a big-endian GGUF is not supported", where="byte 4", fix="Use a little-endian file.")
        raise WeightsError(f"GGUF version {version} is not supported (2 and 3 are)", where="byte 4")
    return version, cursor.count(_SMALLEST_TENSOR, "tensors"), cursor.count(_SMALLEST_KEY, "keys")


def _metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for _ in range(count):
        place = f"byte {cursor.at}"
        key = cursor.name(MAX_KEY)
        if key in found:
            raise WeightsError(f"the key {key[:80]!r} comes twice", where=place)
        found[key] = cursor.value(key)
    return found


def _refuse_splits(metadata: Mapping[str, Value]) -> None:
    parts = metadata.get("split.count", 1)
    if not isinstance(parts, int) or parts not in (0, 1):
        raise WeightsError(
            "a split GGUF is not supported", where="split.count", fix="Join its parts with llama-gguf-split --merge."
        )


def _alignment(metadata: Mapping[str, Value]) -> int:
    value = metadata.get("general.alignment", 32)
    if isinstance(value, bool) or not isinstance(value, int) or not 8 <= value <= 1 << 20 or value & (value - 1):
        raise WeightsError("the alignment must be a power of two from 8 to 2^20", where="general.alignment")
    return value


def _tensors(cursor: Cursor, count: int, alignment: int) -> dict[str, TensorInfo]:
    found: dict[str, TensorInfo] = {}
    for _ in range(count):
        place = f"byte {cursor.at}"
        info = _tensor(cursor, alignment)
        if info.name in found:
            raise WeightsError(f"the tensor {info.name!r} comes twice", where=place)
        found[info.name] = info
    start = -(-cursor.at // alignment) * alignment
    return {name: _placed(info, start, cursor.size) for name, info in found.items()}


def _tensor(cursor: Cursor, alignment: int) -> TensorInfo:
    """One description; its offset still counts from the start of the data."""
    name = cursor.name(MAX_NAME)
    where = f"tensor {name}"
    dims = cursor.u32()
    if not 1 <= dims <= MAX_DIMS:
        raise WeightsError(f"{dims} dimensions (1 to {MAX_DIMS} are allowed)", where=where)
    fastest_first = [cursor.u64() for _ in range(dims)]
    kind = _supported(cursor.u32(), where)
    offset = cursor.u64()
    if offset % alignment:
        raise WeightsError(f"offset {offset} is not a multiple of the alignment {alignment}", where=where)
    elements = 1
    for dim in fastest_first:
        elements *= dim
    if elements == 0:
        raise WeightsError("a dimension is zero", where=where)
    if fastest_first[0] % kind.elements:
        raise WeightsError(f"rows of {fastest_first[0]} are no whole number of {kind.name} blocks", where=where)
    return TensorInfo(name, tuple(reversed(fastest_first)), kind, offset, elements // kind.elements * kind.size)


def _supported(code: int, where: str) -> BlockType:
    kind = SUPPORTED.get(code)
    if kind is None:
        readable = ", ".join(each.name for each in SUPPORTED.values())
        name = NAMES.get(code, f"number {code}")
        raise WeightsError(f"the tensor type {name} is not supported", where=where, fix=f"These are: {readable}.")
    return kind


def _placed(info: TensorInfo, start: int, size: int) -> TensorInfo:
    offset = start + info.offset
    if offset + info.nbytes > size:
        raise WeightsError(
            f"the file ends at byte {size}, the tensor at byte {offset + info.nbytes}", where=f"tensor {info.name}",
            fix="The file is cut short: fetch it again.",
        )
    return TensorInfo(info.name, info.shape, info.type, offset, info.nbytes)


def _refuse_overlap(tensors: Mapping[str, TensorInfo]) -> None:
    end, before = 0, ""
    for info in sorted(tensors.values(), key=lambda each: each.offset):
        if info.offset < end:
            raise WeightsError(f"the data overlaps that of {before}", where=f"tensor {info.name}")
        end, before = info.offset + info.nbytes, info.name
