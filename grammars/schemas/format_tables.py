"""The automata of the formats as a file: some of them take a second to make.

`python -m scripts.format_tables` writes it from the expressions in formats.py and from Unicode's data, and tests hold
them together.

A msgpack map from a format to zlib of msgpack [finals, rows]; a row is flat: low, high, target, low, ...
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ..automata.dfa import Dfa

_FOLDER = Path(__file__).parents[1] / "data"
PATH, NAMES_PATH = _FOLDER / "formats.msgpack", _FOLDER / "idn.msgpack"
# Formats made of Unicode's data by scripts/idn_hosts.py; they have a file of their own, as they are large.
NAMES = ("idn-email", "idn-hostname")
_Table = tuple[list[int], list[list[int]]]


def table_of(name: str) -> Dfa:
    path = NAMES_PATH if name in NAMES else PATH
    packed = msgspec.msgpack.decode(path.read_bytes(), type=dict[str, bytes])[name]
    finals, rows = msgspec.msgpack.decode(zlib.decompress(packed), type=_Table)
    return Dfa(tuple([tuple(zip(row[0::3], row[1::3], row[2::3], strict=True)) for row in rows]), frozenset(finals))


def tables(automata: Mapping[str, Dfa]) -> bytes:
    """The file that holds these."""
    packed = {name: zlib.compress(msgspec.msgpack.encode(_flat(dfa)), 9) for name, dfa in automata.items()}
    return msgspec.msgpack.encode(packed)


def _flat(dfa: Dfa) -> _Table:
    return sorted(dfa.finals), [[number for edge in row for number in edge] for row in dfa.edges]
