"""What an item of a list costs at most, when it must differ from those before: law 4 at compile time.

A list that must have n items has fewer than n before each of them. So one of the n cheapest values is still free, and
the dearest of these is a price that holds whatever was written.
"""

from __future__ import annotations

from typing import Any

from ..binding.tables import FAR
from ..ir import CLOSE_KEY, NEXT_KEY, NOTHING, OPEN_KEY, Order, Register

# Bytes of items that are looked at for as many different ones as a list must have.
_LONGEST = 4_096
_MANY = 1 << 40
_BACKSLASH = 0x5C


def surplus(register: Register | None, edges: Any, available: Any) -> int:
    """How many bytes the n-th cheapest item has more than the cheapest, for a list of at least n; FAR when there are
    not so many. edges: of the rule, as flat.py has them. available: [256], 1 for bytes that are tokens of their own."""
    if not isinstance(register, Order) or not register.least:
        return 0
    arcs: dict[int, list[tuple[int, int]]] = {}
    starts, ends = set[int](), set[int]()
    for _, source, low, high, target, action in edges.tolist():
        # An escape may spell what another text spells too.
        ways = sum(int(available[byte]) for byte in range(low, high + 1)
                   if byte != _BACKSLASH or not register.decoded)
        if action == NOTHING and ways:
            arcs.setdefault(source, []).append((target, ways))
        elif action in (OPEN_KEY, NEXT_KEY):
            starts.add(target)
        if action in (CLOSE_KEY, NEXT_KEY) and ways:
            ends.add(source)
    return max((_further(start, arcs, ends, register.least) for start in starts), default=0)


def _further(start: int, arcs: dict[int, list[tuple[int, int]]], ends: set[int], least: int) -> int:
    """What surplus gives, for items that begin in one state."""
    here, found, cheapest = {start: 1}, 0, -1
    for length in range(_LONGEST):
        more = sum(ways for state, ways in here.items() if state in ends)
        if more and cheapest < 0:
            cheapest = length
        found += more
        if found >= least:
            return length - cheapest
        following: dict[int, int] = {}
        for state, ways in here.items():
            for target, many in arcs.get(state, ()):
                following[target] = min(_MANY, following.get(target, 0) + ways * many)
        here = following
    return FAR
