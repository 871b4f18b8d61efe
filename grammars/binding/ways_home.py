"""How long the shortest ways of a rule to its end are, at most: what the columns of a counter depend on (tables.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .flat import BYTE_HIGH, BYTE_LOW, SOURCE, TARGET, Flat

# Bytes; each is a look at all edges.
_LONGEST = 80
_UNREACHED = -1


def longest_way_home(flat: Flat, rule: int, single: Any, otherwise: int) -> int:
    """Bytes of the longest of the shortest ways from the states of a rule without calls to its ends, its register left
    out; `otherwise` where that is long, or where some byte of it is no token (single: uint8 [256]) and ways are others.
    """
    edges = flat.edges_of(rule)
    missing = np.concatenate(([0], np.cumsum(single == 0)))
    if (missing[edges[:, BYTE_HIGH] + 1] > missing[edges[:, BYTE_LOW]]).any():
        return otherwise
    arcs = edges[:, [SOURCE, TARGET]].astype(np.int32)
    sources, targets = np.ascontiguousarray(arcs[:, 0]), np.ascontiguousarray(arcs[:, 1])
    way = np.full(int(flat.states[rule]), _UNREACHED, np.int8)
    way[flat.finals[flat.finals[:, 0] == rule, 1]] = 0
    for length in range(_LONGEST):
        found = sources[way[targets] == length]
        found = found[way[found] == _UNREACHED]
        if not found.size:
            return length
        way[found] = length + 1
    return otherwise
