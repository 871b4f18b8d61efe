"""Numbers have at most 40 digits: counted by states, where no register counts them."""

from __future__ import annotations

from collections.abc import Iterable

from ..limits import Meter
from .dfa import Dfa, explore, trim

MAX_DIGITS = 40
DIGITS = (0x30, 0x39)


def few_digits(numbers: Dfa, meter: Meter) -> Dfa:
    """Those of at most MAX_DIGITS digits. A number ends in a digit, so that behind the last one that it may have only
    its end is left.

    numbers: trimmed, over bytes."""
    most = _most_digits(numbers)
    end = len(numbers.edges)  # behind the last digit

    def after(state: int, count: int) -> tuple[int, int] | None:
        if count == MAX_DIGITS:
            return (end, 0) if state in numbers.finals else None
        left = most[state]
        return state, 0 if left is not None and count + left <= MAX_DIGITS else count

    def step(state: tuple[int, int]) -> Iterable[tuple[int, int, tuple[int, int]]]:
        at, count = state
        for low, high, target in numbers.edges[at] if at < end else ():
            follower = after(target, count + int(DIGITS[0] <= low <= DIGITS[1]))
            if follower is not None:
                yield low, high, follower

    return trim(explore((0, 0), step, lambda state: state[0] == end or state[0] in numbers.finals, meter))


def _most_digits(numbers: Dfa) -> list[int | None]:
    """By state, the most digits on a way to the end; None for no such number."""
    most: list[int | None] = [None] * len(numbers.edges)
    reached = [0] * len(numbers.edges)
    sources: list[list[tuple[int, bool]]] = [[] for _ in numbers.edges]
    waiting = [0] * len(numbers.edges)
    for source, row in enumerate(numbers.edges):
        for low, _, target in row:
            sources[target].append((source, DIGITS[0] <= low <= DIGITS[1]))
            waiting[source] += 1
    ready = [state for state, count in enumerate(waiting) if not count]
    for state in ready:  # grows while it runs; states on a loop, or before one, are never ready
        most[state] = reached[state]
        for source, digit in sources[state]:
            reached[source] = max(reached[source], reached[state] + digit)
            waiting[source] -= 1
            if not waiting[source]:
                ready.append(source)
    return most
