"""The texts of numbers: at most 40 digits, and of multiples whose remainders are too many for states only some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from msgspec.structs import replace

from ..automata.dfa import NOTHING, Dfa, complement, intersect
from ..automata.digits import MAX_DIGITS, few_digits
from ..automata.minimise import minimise
from ..errors import ConstraintTooLarge
from ..limits import Meter
from ..schemas.multiples import MOST_STATES, Window, common_step, decimal_of, divides, nearest, states_of, written_out
from ..schemas.numbers import NumberSpec, spelled

# States for each number of digits: what is spent gladly.
_GLADLY = 1_000
_BYTES = ((0, 255),)


@dataclass(frozen=True, slots=True)
class NumberText:
    """Numbers as bytes. counted: MAX_DIGITS is not in the automaton, a register has to count the digits. note: what of
    them is left out, "" for nothing."""

    dfa: Dfa
    counted: bool = False
    note: str = ""

    @property
    def apart(self) -> bool:
        """As of a StringText."""
        return self.counted

    def limited(self, meter: Meter) -> Dfa:
        """Without a register."""
        return few_digits(self.dfa, meter) if self.counted else self.dfa


def number_text(spec: NumberSpec, meter: Meter, where: str = "") -> NumberText:
    """Every number that fits, or, as its note says, those of them nearest to zero; trimmed, empty when none does.
    Raises ConstraintTooLarge when multiples have too many places, or none of those nearest to zero fits."""
    for divisors in (spec.divisors, *((d,) for d in spec.excluded)):
        if common_step(divisors)[1] > MAX_DIGITS:
            raise ConstraintTooLarge(f"multipleOf asks for more than {MAX_DIGITS} places", keyword="multipleOf",
                                     where=where, fix="Use a rounder multipleOf.")
    text = meter.shared(spec, lambda: _number_text(spec, meter), lambda text: text.dfa.size)
    if text.note and text.dfa.empty:
        raise ConstraintTooLarge("no multiple near zero fits, and no other is written", keyword="multipleOf",
                                 where=where, fix="Use a smaller or rounder multipleOf.")
    return text


def _number_text(spec: NumberSpec, meter: Meter) -> NumberText:
    large = tuple(divisor for divisor in spec.excluded if _large((divisor,)))
    if _large(spec.steps):
        return _few_multiples(spec, meter)
    if large:
        return _between_few(spec, large, meter)
    dfa = _without(spelled(spec, meter), [spelled(NumberSpec(divisors=(d,)), meter) for d in spec.excluded], meter)
    text = NumberText(dfa, counted=True)
    if (spec.divisors or spec.excluded) and len(text.dfa.edges) * MAX_DIGITS > _GLADLY:
        return text
    return NumberText(text.limited(meter))


def _large(divisors: tuple[Decimal, ...]) -> bool:
    """Remainders are too many for states."""
    return bool(divisors) and states_of(common_step(divisors)[0]) > MOST_STATES


def _without(dfa: Dfa, others: Sequence[Dfa], meter: Meter) -> Dfa:
    for other in others:
        dfa = intersect([dfa, complement(other, _BYTES)], meter)
    return minimise(dfa) if others else dfa


def _few_multiples(spec: NumberSpec, meter: Meter) -> NumberText:
    """Multiples nearest to zero, written out."""
    window = nearest(spec.steps, spec.lower, spec.upper)
    every = decimal_of(window.step, window.scale)
    if (spec.fractional and window.scale == 0) or any(divides((divisor,), every) for divisor in spec.excluded):
        return NumberText(NOTHING)
    fitting = [value for value in window.values if spec.admits(value)]
    dfa = written_out(fitting, window.scale, spec.integer and not spec.zeros, meter)
    return NumberText(few_digits(dfa, meter), note=_note(window) if window.cut else "")


def _between_few(spec: NumberSpec, large: tuple[Decimal, ...], meter: Meter) -> NumberText:
    """Numbers near zero that are no multiples of these, which are written out; nor of others."""
    note = ""
    for divisor in large:
        window = nearest((divisor,), spec.lower, spec.upper)
        if window.cut and window.counts:
            low, high = window.ends
            spec, note = spec.tightest_lower(low, False).tightest_upper(high, False), _note(window)
    others = tuple(divisor for divisor in spec.excluded if divisor not in large)
    text = _number_text(replace(spec, excluded=others), meter)
    windows = [nearest((divisor,), spec.lower, spec.upper) for divisor in large]
    dfa = _without(text.dfa, [written_out(w.values, w.scale, False, meter) for w in windows], meter)
    return NumberText(dfa, text.counted, note)


def _note(window: Window) -> str:
    low, high = window.ends
    return f"numbers are written from {low:f} to {high:f}" if window.counts else ""
