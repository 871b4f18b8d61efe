"""The sets that `\\p{...}` names, as a file, so that they are the same under every Python.

`python -m scripts.unicode_tables` writes it. A msgpack array [version of Unicode, names, sets]: names maps what stands
between the braces to a place in sets; a set is zlib of a msgpack list, the distances between the code points at which
membership changes, from 0 on.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import msgspec

from . import charset
from .charset import Ranges

PATH = Path(__file__).parents[1] / "data" / "unicode.msgpack"
Range = tuple[int, int]


class _File(msgspec.Struct, frozen=True, array_like=True):
    version: str
    names: dict[str, int]
    sets: list[bytes]


def packed(version: str, names: Mapping[str, int], sets: Sequence[Sequence[Range]]) -> bytes:
    """The file that holds these. A set: its inclusive ranges, ascending and apart."""
    return msgspec.msgpack.encode(_File(version, dict(names), [_pack(one) for one in sets]))


def _pack(members: Sequence[Range]) -> bytes:
    turns = [turn for low, high in members for turn in (low, high + 1)]
    steps = [turn - before for before, turn in zip([0, *turns], turns, strict=False)]
    return zlib.compress(msgspec.msgpack.encode(steps), 9)


@lru_cache(maxsize=1)
def _file() -> _File:
    return msgspec.msgpack.decode(PATH.read_bytes(), type=_File)


def unicode_version() -> str:
    return _file().version


@lru_cache(maxsize=32)
def property_set(name: str) -> Ranges | None:
    """The characters of `\\p{name}`; None for a name that ECMA-262 does not know."""
    place = _file().names.get(name)
    if place is None:
        return None
    turns = list(accumulate(msgspec.msgpack.decode(zlib.decompress(_file().sets[place]), type=list[int])))
    return charset.ranges((low, end - 1) for low, end in zip(turns[::2], turns[1::2], strict=True))


def is_script(name: str) -> bool:
    """Whether `name` is a script, which other dialects write without its property."""
    return f"Script={name}" in _file().names
