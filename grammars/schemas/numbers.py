"""JSON numbers with exact bounds and divisors as byte automata. All arithmetic is on integers and decimal digits.

Integers are digits only; -0 is not written. Exponents (at most two digits) are written
by numbers without bounds and divisors only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import msgspec

from ..automata.dfa import Dfa, explore, trim
from ..automata.digits import MAX_DIGITS
from ..automata.minimise import minimise
from ..limits import Meter
from .multiples import Remainders, common_step, divides, exact_digits, scaled

_DIGITS = range(10)
_ENDLESS = Decimal(10) ** MAX_DIGITS  # greater than every number that is written


class NumberSpec(msgspec.Struct, frozen=True):
    """lower, upper: exact bounds, None for none; *_open: the bound itself is excluded. divisors: multipleOf values;
    excluded: what no number may be a multiple of. fractional: no whole numbers. zeros: an integer may end in zeros of a
    fraction."""

    integer: bool = False
    lower: Decimal | None = None
    lower_open: bool = False
    upper: Decimal | None = None
    upper_open: bool = False
    divisors: tuple[Decimal, ...] = ()
    fractional: bool = False
    excluded: tuple[Decimal, ...] = ()
    zeros: bool = False

    @property
    def free(self) -> bool:
        return self.lower is None and self.upper is None and not (
            self.divisors or self.fractional or self.excluded)

    @property
    def steps(self) -> tuple[Decimal, ...]:
        """What a number must be a multiple of: an integer of 1, where it must of anything."""
        return (*self.divisors, Decimal(1)) if self.integer and self.divisors else self.divisors

    def admits(self, value: int | Decimal) -> bool:
        number = Decimal(value)
        whole = scaled(number, 0) is not None
        if (self.integer and not whole) or (self.fractional and whole):
            return False
        if self.lower is not None and (number < self.lower or (self.lower_open and number == self.lower)):
            return False
        if self.upper is not None and (number > self.upper or (self.upper_open and number == self.upper)):
            return False
        return divides(self.divisors, number) and not any(divides((d,), number) for d in self.excluded)

    def disjoint(self, other: NumberSpec) -> bool:
        """No number lies within the bounds of both."""
        return self._below(other) or other._below(self)

    def _below(self, other: NumberSpec) -> bool:
        if self.upper is None or other.lower is None:
            return False
        return self.upper < other.lower or (self.upper == other.lower and (self.upper_open or other.lower_open))

    def tightest_lower(self, bound: Decimal, opened: bool) -> NumberSpec:
        if self.lower is not None and (self.lower, self.lower_open) >= (bound, opened):
            return self
        return msgspec.structs.replace(self, lower=bound, lower_open=opened)

    def tightest_upper(self, bound: Decimal, opened: bool) -> NumberSpec:
        if self.upper is not None and (self.upper, not self.upper_open) <= (bound, not opened):
            return self
        return msgspec.structs.replace(self, upper=bound, upper_open=opened)


# One magnitude bound as digits: integer part without leading zeros ("" for zero), fraction without trailing zeros.
_Bound = tuple[str, str]


def _bound(value: Decimal) -> _Bound:
    unscaled, scale = exact_digits(value)
    text = str(unscaled).rjust(scale + 1, "0")
    whole, fraction = (text[:-scale], text[-scale:]) if scale else (text, "")
    return whole.lstrip("0"), fraction.rstrip("0")


@dataclass(frozen=True, slots=True)
class _Magnitudes:
    """The magnitudes of one sign: low (open?) .. high (open?), high None for no upper bound."""

    low: _Bound
    low_open: bool
    high: _Bound | None
    high_open: bool


# Phases of reading a magnitude.
_BEGIN, _ZERO, _WHOLE, _POINT, _FRACTION, _E, _SIGN, _POWER, _POWER2 = range(9)


class _Reading(NamedTuple):
    """phase; sign: the magnitudes in use (None before the sign is known); at: digits of the part that is read, capped
    where nothing depends on it; versus_*: -1, 0, 1, the prefix against the bound's; rest: residue of the digits;
    broken: a fraction that is not zero was read."""

    phase: int
    negative: bool
    at: int = 0
    versus_low: int = 0
    versus_high: int = 0
    rest: int = 0
    broken: bool = False


class _Reader:
    """Digits are not counted."""

    def __init__(self, spec: NumberSpec) -> None:
        self._spec = spec
        self._step, self._scale = common_step(spec.steps)
        self._remainders = Remainders(self._step)
        self._signs = {negative: _magnitudes(spec, negative) for negative in (False, True)}

    def step(self, state: _Reading) -> Iterable[tuple[int, int, _Reading]]:
        return sorted(self._followers(state), key=lambda arc: arc[0])

    def _followers(self, state: _Reading) -> Iterable[tuple[int, int, _Reading]]:
        phase = state.phase
        if phase == _BEGIN:
            if not state.negative and self._signs[True] is not None:
                yield 0x2D, 0x2D, _Reading(_BEGIN, True)
            if self._signs[state.negative] is not None:
                yield 0x30, 0x30, _Reading(_ZERO, state.negative)
                yield from self._digits(state, 1, 0, self._whole)
            return
        if phase == _WHOLE:
            yield from self._digits(state, 0, 0, self._whole)
        if phase in (_ZERO, _WHOLE) and (self._spec.zeros or not self._spec.integer):
            yield 0x2E, 0x2E, self._point(state)
        if phase in (_POINT, _FRACTION):
            yield from self._digits(state, 0, 1, self._fraction)
        if self._spec.free and not self._spec.integer:
            yield from self._exponent(state)

    def _digits(self, state: _Reading, first: int, part: int,
                follower: Callable[[_Reading, int], _Reading | None]) -> Iterable[tuple[int, int, _Reading]]:
        """Digits from `first` on that lead to one state together: a remainder tells all of them apart, bounds only
        their own digit from the lesser and the greater. part: of the bounds, 0 whole, 1 fraction."""
        starts = {first, 1}
        bounds = self._signs[state.negative]
        if self._step:
            starts.update(_DIGITS)
        elif bounds is not None:
            for bound, versus in ((bounds.low, state.versus_low), (bounds.high, state.versus_high)):
                if bound is not None and versus == 0 and state.at < len(bound[part]):
                    mark = int(bound[part][state.at])
                    starts.update((mark, mark + 1))
        cuts = sorted(digit for digit in starts if first <= digit <= 9)
        for low, after in pairwise((*cuts, 10)):
            found = follower(state, low)
            if found is not None:
                yield 0x30 + low, 0x2F + after, found

    def _exponent(self, state: _Reading) -> Iterable[tuple[int, int, _Reading]]:
        if state.phase in (_ZERO, _WHOLE, _FRACTION) and not self._minus_zero(state):
            yield from ((byte, byte, _Reading(_E, False)) for byte in b"Ee")
        if state.phase == _E:
            yield from ((byte, byte, _Reading(_SIGN, False)) for byte in b"+-")
        if state.phase in (_E, _SIGN, _POWER):
            yield 0x30, 0x39, _Reading(_POWER2 if state.phase == _POWER else _POWER, False)

    def _minus_zero(self, state: _Reading) -> bool:
        return state.negative and state.versus_low == 0 and state.phase != _WHOLE

    def _whole(self, state: _Reading, digit: int) -> _Reading:
        bounds = self._signs[state.negative]
        low, high = (bounds.low[0], bounds.high[0] if bounds and bounds.high else "") if bounds else ("", "")
        at = state.at
        versus_low = state.versus_low or (_versus(digit, low[at]) if at < len(low) else 1)
        versus_high = state.versus_high or (_versus(digit, high[at]) if at < len(high) else 1)
        rest = self._remainders.after(state.rest, digit) if self._step else 0
        # The length of the whole part is compared at its end; beyond both bounds nothing depends on it any more.
        capped = min(at + 1, max(len(low), len(high)) + 1)
        return _Reading(_WHOLE, state.negative, capped, versus_low, versus_high, rest)

    def _ended(self, state: _Reading) -> tuple[int, int, int]:
        """At the end of the whole part: (versus_low, versus_high, residue of the scaled number)."""
        bounds = self._signs[state.negative]
        if bounds is None:
            raise ValueError("a sign without magnitudes has no states")
        versus_low = _by_length(state.at, len(bounds.low[0]), state.versus_low)
        versus_high = _by_length(state.at, len(bounds.high[0]), state.versus_high) if bounds.high else -1
        return versus_low, versus_high, (state.rest * 10**self._scale) % self._step if self._step else 0

    def _point(self, state: _Reading) -> _Reading:
        versus_low, versus_high, _ = self._ended(state)
        return _Reading(_POINT, state.negative, 0, versus_low, versus_high, state.rest)

    def _fraction(self, state: _Reading, digit: int) -> _Reading | None:
        bounds = self._signs[state.negative]
        if bounds is None:
            return None
        if self._spec.integer and digit:
            return None
        low, high = bounds.low[1], bounds.high[1] if bounds.high else ""
        at = state.at
        versus_low = state.versus_low or _versus(digit, low[at] if at < len(low) else "0")
        versus_high = state.versus_high or _versus(digit, high[at] if at < len(high) else "0")
        rest = 0
        if self._step:
            if at >= self._scale and digit:
                return None
            rest = self._remainders.after(state.rest, digit) if at < self._scale else state.rest
        capped = min(at + 1, max(len(low), len(high), self._scale))
        broken = self._spec.fractional and (state.broken or digit > 0)
        return _Reading(_FRACTION, state.negative, capped, versus_low, versus_high, rest, broken)

    def final(self, state: _Reading) -> bool:
        if state.phase in (_POWER, _POWER2):
            return True
        if state.phase in (_ZERO, _WHOLE):
            versus_low, versus_high, rest = self._ended(state)
            return self._inside(state, versus_low, versus_high, rest, "", "")
        if state.phase == _FRACTION:
            bounds = self._signs[state.negative]
            low = bounds.low[1][state.at:] if bounds else ""
            high = bounds.high[1][state.at:] if bounds and bounds.high else ""
            left = max(self._scale - state.at, 0)
            rest = state.rest * 10**left % self._step if self._step else 0
            return self._inside(state, state.versus_low, state.versus_high, rest, low, high)
        return False

    def _inside(self, state: _Reading, low: int, high: int, rest: int, low_left: str, high_left: str) -> bool:
        """low_left, high_left: fraction digits of the bounds that were not read; any of them is not zero at its end."""
        bounds = self._signs[state.negative]
        if bounds is None or rest or (self._spec.fractional and not state.broken):
            return False
        if state.phase in (_ZERO, _WHOLE):
            low_left, high_left = bounds.low[1], bounds.high[1] if bounds.high else ""
        low = low or (-1 if low_left else 0)
        high = high or (-1 if high_left else 0)
        above = low > 0 or (low == 0 and not bounds.low_open)
        below = bounds.high is None or high < 0 or (high == 0 and not bounds.high_open)
        return above and below


def _versus(digit: int, other: str) -> int:
    return (digit > int(other)) - (digit < int(other))


def _by_length(length: int, other: int, prefix: int) -> int:
    return prefix if length == other else (1 if length > other else -1)


def _magnitudes(spec: NumberSpec, negative: bool) -> _Magnitudes | None:
    """The magnitudes that this sign may have; None when there are none. Zero has no minus sign."""
    zero = Decimal(0)
    near, near_open, far, far_open = (
        (spec.upper, spec.upper_open, spec.lower, spec.lower_open) if negative
        else (spec.lower, spec.lower_open, spec.upper, spec.upper_open)
    )
    if negative:
        near, far = (None if b is None else b.copy_negate() for b in (near, far))
    if far is not None and (far < zero or (far == zero and (far_open or negative))):
        return None
    if near is None or near < zero or (near == zero and negative):
        near, near_open = zero, negative
    if near >= _ENDLESS:
        return None
    return _Magnitudes(_bound(near), near_open, None if far is None or far >= _ENDLESS else _bound(far), far_open)


def spelled(spec: NumberSpec, meter: Meter) -> Dfa:
    """Numbers of any number of digits."""
    reader = _Reader(spec)
    return minimise(trim(explore(_Reading(_BEGIN, False), reader.step, reader.final, meter)))
