"""JSON strings: lengths, patterns and formats become one automaton, with a counter where states would multiply."""

from __future__ import annotations

from dataclasses import dataclass

from . import charset
from .dfa import Dfa, bounded, complement, intersect, longest, minimise, shortest
from .errors import ConstraintTooLarge
from .limits import Meter
from .utf8 import ByteDfa, json_string, json_string_freely

# Up to here a least length is written out as states; beyond, a register counts.
_UNROLLED = 4
# States of a pattern times the lengths that must be told apart.
_PRODUCT = 60_000


@dataclass(frozen=True, slots=True)
class StringText:
    """The inside of a string. minimum, maximum: characters that a register must count; (0, None): none."""

    body: ByteDfa
    minimum: int = 0
    maximum: int | None = None

    @property
    def counted(self) -> bool:
        return self.minimum > 0 or self.maximum is not None


ANY_CHARACTERS = Dfa((tuple((low, high, 0) for low, high in charset.ALL),), frozenset([0]))


def free_text(minimum: int, maximum: int | None, meter: Meter) -> StringText:
    """Any characters in any spelling, between `minimum` and `maximum` of them."""
    if maximum is not None and maximum <= _UNROLLED:
        return StringText(json_string_freely(_between(minimum, maximum), meter))
    if minimum <= _UNROLLED:
        return StringText(json_string_freely(_between(minimum, None), meter), 0, maximum)
    return StringText(json_string_freely(ANY_CHARACTERS, meter), minimum, maximum)


def _between(minimum: int, maximum: int | None) -> Dfa:
    last = minimum if maximum is None else maximum
    rows = [tuple((low, high, min(i + 1, last)) for low, high in charset.ALL) for i in range(last)]
    rows.append(() if maximum is not None else tuple((low, high, last) for low, high in charset.ALL))
    return Dfa(tuple(rows), frozenset(range(minimum, last + 1)))


def shaped_text(shapes: list[Dfa], minimum: int, maximum: int | None, meter: Meter, where: str) -> StringText | None:
    """The texts that every shape accepts, in their one spelling; None when there are none."""
    shape = minimise(intersect(shapes, meter)) if len(shapes) > 1 else shapes[0]
    if shape.empty:
        return None
    least, most = shortest(shape), longest(shape)
    if most is not None and maximum is not None and most <= maximum:
        maximum = None
    if minimum <= least:
        minimum = 0
    if minimum == 0 and maximum is None:
        return StringText(json_string(shape, meter))
    if minimum == 0 and len(shape.finals) == len(shape.edges):
        # Every prefix may end, so a counter that blocks the next character leaves no dead end.
        return StringText(json_string(shape, meter), 0, maximum)
    counted = _counted(shape, minimum, maximum, meter, where)
    return None if counted.empty else StringText(json_string(counted, meter))


def _counted(shape: Dfa, minimum: int, maximum: int | None, meter: Meter, where: str) -> Dfa:
    cap = minimum if maximum is None else maximum
    if len(shape.edges) * (cap + 1) > _PRODUCT:
        raise ConstraintTooLarge(
            f"a pattern of {len(shape.edges)} states with a length of {cap} needs more than {_PRODUCT} states",
            keyword="maxLength" if maximum is not None else "minLength", where=where,
            fix="Say the length inside the pattern, or use a smaller bound.",
        )

    return bounded(shape, minimum, maximum, meter)


def without(shape: Dfa, excluded: Dfa, meter: Meter) -> Dfa:
    """The texts of `shape` that `excluded` does not accept."""
    rest = complement(excluded, charset.ALL)
    return rest if shape is ANY_CHARACTERS else minimise(intersect([shape, rest], meter))


