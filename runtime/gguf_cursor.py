"""Typed values read one after the other from bytes that may say anything. Every fault is a WeightsError."""

from __future__ import annotations

import mmap
import struct

import numpy as np
from numpy.typing import NDArray

from .errors import WeightsError

Array = NDArray[np.integer] | NDArray[np.floating] | NDArray[np.bool_]
Value = bool | int | float | str | tuple[str, ...] | Array

_NUMBERS = {  # type code -> (struct format, NumPy type)
    0: ("<B", "<u1"), 1: ("<b", "<i1"), 2: ("<H", "<u2"), 3: ("<h", "<i2"), 4: ("<I", "<u4"), 5: ("<i", "<i4"),
    6: ("<f", "<f4"), 10: ("<Q", "<u8"), 11: ("<q", "<i8"), 12: ("<d", "<f8"),
}
_BOOL, _STRING, _ARRAY = 7, 8, 9


class Cursor:
    """at: the next byte, in [0, size]."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self.at = 0
        self.size = len(data)

    def take(self, count: int) -> bytes:
        if count > self.size - self.at:
            raise WeightsError(
                f"{count} bytes are needed and {self.size - self.at} are left", where=f"byte {self.at}",
                fix="The file is cut short or broken: fetch it again.",
            )
        start = self.at
        self.at += count
        return self._data[start : self.at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def count(self, smallest: int, what: str) -> int:
        """A number of things that take at least `smallest` bytes each, and so must fit in what is left."""
        place = f"byte {self.at}"
        number = self.u64()
        if number * smallest > self.size - self.at:
            raise WeightsError(f"{number} {what} cannot fit in the {self.size - self.at} bytes left", where=place)
        return number

    def string(self) -> str:
        place = f"byte {self.at}"
        raw = self.take(self.count(1, "bytes of text"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise WeightsError(f"a string is not UTF-8: {error.reason}", where=place) from error

    def name(self, longest: int) -> str:
        """A string of 1 to `longest` bytes."""
        place = f"byte {self.at}"
        text = self.string()
        if not 1 <= len(text.encode()) <= longest:
            raise WeightsError(f"a name must have 1 to {longest} bytes", where=place)
        return text

    def value(self, key: str) -> Value:
        """key: named in messages."""
        place = f"{key[:80]}, byte {self.at}"
        code = self.u32()
        if code in _NUMBERS:
            form = _NUMBERS[code][0]
            number: int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
            return number
        if code == _BOOL:
            return bool(_checked_bools(np.frombuffer(self.take(1), np.uint8), place)[0])
        if code == _STRING:
            return self.string()
        if code == _ARRAY:
            return self._array(place)
        raise WeightsError(f"unknown value type {code}", where=place)

    def _array(self, place: str) -> Value:
        code = self.u32()
        if code == _STRING:
            return tuple([self.string() for _ in range(self.count(8, "strings"))])
        if code == _BOOL:
            return _checked_bools(np.frombuffer(self.take(self.count(1, "booleans")), np.uint8), place)
        if code == _ARRAY:
            raise WeightsError("arrays of arrays are not supported", where=place)
        if code not in _NUMBERS:
            raise WeightsError(f"unknown element type {code}", where=place)
        kind = np.dtype(_NUMBERS[code][1])
        return np.frombuffer(self.take(self.count(kind.itemsize, "numbers") * kind.itemsize), kind)


def _checked_bools(raw: NDArray[np.uint8], place: str) -> NDArray[np.bool_]:
    if raw.size and int(raw.max()) > 1:
        raise WeightsError("a boolean is neither 0 nor 1", where=place)
    return raw.view(np.bool_)
