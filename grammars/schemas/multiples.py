"""Multiples of decimal numbers: what is one, what digits tell of it, and which to write where they would tell too much.

A finite automaton over digits knows of what it read as much as it takes to tell multiples apart: remainders, of which
some are alike. Where these are too many, multiples are written out, those nearest to zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from math import ceil, floor, gcd, lcm
from operator import add
from typing import NamedTuple

from ..automata.dfa import Dfa, Edge, literals
from ..automata.digits import MAX_DIGITS
from ..automata.minimise import minimise
from ..limits import Meter

# States of an automaton of multiples up to which all are written, and digits of those written out beyond.
MOST_STATES = 10_000
_ZERO, _POINT = b"0."


def exact_digits(number: Decimal) -> tuple[int, int]:
    """(unscaled, scale): number == unscaled / 10 ** scale, scale >= 0."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a finite number")
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return (unscaled * 10**exponent, 0) if exponent >= 0 else (unscaled, -exponent)


def scaled(number: Decimal, scale: int) -> int | None:
    """number * 10 ** scale when that is an integer."""
    unscaled, own = exact_digits(number)
    if own <= scale:
        return unscaled * power(scale - own)
    quotient, rest = divmod(unscaled, power(own - scale))
    return None if rest else quotient


def power(exponent: int) -> int:
    return int(10**exponent)


def common_step(divisors: Iterable[Decimal]) -> tuple[int, int]:
    """(step, scale): multiples of all divisors are the multiples of step / 10 ** scale. (0, 0) for no divisors."""
    exact = [exact_digits(d) for d in divisors]
    if not exact:
        return 0, 0
    scale = max(s for _, s in exact)
    step = lcm(*(u * 10 ** (scale - s) for u, s in exact))
    while scale and step % 10 == 0:
        step, scale = step // 10, scale - 1
    return step, scale


def divides(divisors: tuple[Decimal, ...], number: Decimal) -> bool:
    """The number is a multiple of all of them."""
    step, scale = common_step(divisors)
    units = scaled(number, scale) if step else 0
    return units is not None and (step == 0 or units % step == 0)


def states_of(step: int) -> int:
    """States of the least automaton of its multiples in decimal digits (B. Alexeev, Minimal DFAs for testing
    divisibility, 2004)."""
    powers = range(step.bit_length() + 1)
    short = accumulate((power(t) // gcd(power(t), step) for t in powers), add, initial=0)
    return min(step // gcd(step, power(n)) + below for n, below in zip(powers, short, strict=False))


class Remainders:
    """Remainders of a step; those that no further digits tell apart are one."""

    def __init__(self, step: int) -> None:
        self._step = step
        digits = len(str(step))
        self._powers = [power(k) for k in range(digits + 1)]
        self._known: dict[int, int] = {}
        self._first: dict[tuple[int, ...], int] = {}
        self._apart = gcd(step, 10) == 1

    def after(self, rest: int, digit: int) -> int:
        """The remainder when a digit follows what has the remainder `rest`."""
        rest = (rest * 10 + digit) % self._step
        if self._apart:
            return rest
        if rest not in self._known:
            self._known[rest] = self._first.setdefault(self._missing(rest), rest)
        return self._known[rest]

    def _missing(self, rest: int) -> tuple[int, ...]:
        """By the number of digits that follow, the least text of these that makes a multiple; -1 for none."""
        least = [-rest * unit % self._step for unit in self._powers]
        return tuple(x if x < unit else -1 for x, unit in zip(least, self._powers, strict=True))


def decimal_of(units: int, scale: int) -> Decimal:
    """units / 10 ** scale."""
    return Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))


class Window(NamedTuple):
    """The multiples count * step / 10 ** scale for all counts; cut: bounds allow more."""

    step: int
    scale: int
    counts: range
    cut: bool

    @property
    def ends(self) -> tuple[Decimal, Decimal]:
        """The first and the last; only where there are any."""
        return decimal_of(self.counts[0] * self.step, self.scale), decimal_of(self.counts[-1] * self.step, self.scale)

    @property
    def values(self) -> Iterator[Decimal]:
        return (decimal_of(count * self.step, self.scale) for count in self.counts)


def nearest(divisors: tuple[Decimal, ...], lower: Decimal | None, upper: Decimal | None) -> Window:
    """The multiples of all divisors within the bounds, both included, that are nearest to zero: so many as have
    MOST_STATES digits together, at least 20."""
    step, scale = common_step(divisors)
    most = max(20, MOST_STATES // max(len(str(step)), scale))
    first = None if lower is None else ceil(_count(lower, step, scale))
    last = None if upper is None else floor(_count(upper, step, scale))
    low, high = -(most // 2), most // 2
    if first is not None and first >= 0:
        low, high = first, first + most
    elif last is not None and last <= 0:
        low, high = last - most, last
    low, high = low if first is None else max(low, first), high if last is None else min(high, last)
    return Window(step, scale, range(low, high + 1), (first, last) != (low, high))


def _count(bound: Decimal, step: int, scale: int) -> Fraction:
    unscaled, own = exact_digits(bound)
    return Fraction(unscaled * power(scale), step * power(own))


def written_out(values: Iterable[Decimal], scale: int, whole: bool, meter: Meter) -> Dfa:
    """The texts of numbers of at most `scale` places and few digits, zeros at their ends included. whole: as digits
    only."""
    words = [word for word in (_padded(value, scale) for value in values) if len(word) < 2 * MAX_DIGITS + scale]
    dfa = literals([word.encode() for word in words], meter)
    if dfa.empty or (whole and not scale):
        return dfa
    rows, finals = [list(row) for row in dfa.edges], set(dfa.finals)
    if scale:
        end, = finals
        rows[end].append((_ZERO, _ZERO, end))
    else:
        rows += [[(_ZERO, _ZERO, len(rows) + 1)], [(_ZERO, _ZERO, len(rows) + 1)]]
        for state in dfa.finals:
            rows[state].insert(0, (_POINT, _POINT, len(rows) - 2))
        finals.add(len(rows) - 1)
    if scale:
        finals |= _complete(rows, end, scale)
    return minimise(Dfa(tuple(map(tuple, rows)), frozenset(finals)))


def _padded(value: Decimal, scale: int) -> str:
    return f"{value:.{scale}f}"


def _complete(rows: list[list[Edge]], end: int, scale: int) -> set[int]:
    """The states from which only zeros, or a point and these, lead to the end; but for those behind a point."""
    found, layer = set(), {end}
    for place in range(scale + 1):
        byte = _ZERO if place < scale else _POINT
        layer = {source for source, row in enumerate(rows) for low, high, target in row
                 if low <= byte <= high and target in layer and source != end}
        found |= layer if place != scale - 1 else set()
    return found
