"""JSON strings: lengths, patterns and formats become one automaton, with a counter where states would multiply."""

from __future__ import annotations

from dataclasses import dataclass

from . import charset
from .dfa import Dfa, bounded, complement, explore, intersect, longest, minimise, shortest, trim
from .errors import ConstraintTooLarge
from .limits import Meter
from .utf8 import ByteDfa, json_string, json_string_freely

# Up to here a least length is written out as states; beyond, a register counts.
_UNROLLED = 4
# States of a pattern times the lengths that must be told apart: the most, what is spent gladly, and the lengths that
# are told apart at least.
_PRODUCT = 80_000
_REACH = 4_000
_LEAST_REACH = 256


@dataclass(frozen=True, slots=True)
class StringText:
    """The inside of a string. minimum, maximum: characters that a register must count; (0, None): none. note: what is
    left out, for the caller; no text that the schema forbids is ever let in."""

    body: ByteDfa
    minimum: int = 0
    maximum: int | None = None
    note: str = ""

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
    if maximum is None:
        counted = bounded(shape, minimum, None, meter)
        return None if counted.empty else StringText(json_string(counted, meter))
    return _counted(shape, minimum, maximum, meter, where)


def _counted(shape: Dfa, minimum: int, maximum: int, meter: Meter, where: str) -> StringText | None:
    """A register counts to `maximum`. Where some continuation may not end at once, a full register would be a dead end;
    there the length is in the states instead, up to a reach."""
    open_states = _open_states(shape)
    reach = min(maximum, max(_REACH // max(len(open_states), 1), _LEAST_REACH))
    if len(open_states) * (reach + 1) + len(shape.edges) * (minimum + 1) > _PRODUCT:
        raise ConstraintTooLarge(
            f"a pattern of {len(shape.edges)} states with a length of {maximum} needs more than {_PRODUCT} states",
            keyword="maxLength", where=where, fix="Say the length inside the pattern, or use a smaller bound.",
        )

    def step(state: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        at, length = state
        arcs: list[tuple[int, int, tuple[int, int]]] = []
        for low, high, target in shape.edges[at]:
            if target in open_states:
                if length < reach:
                    arcs.append((low, high, (target, length + 1)))
            elif at not in open_states or length < maximum:
                arcs.append((low, high, (target, min(length + 1, minimum))))
        return arcs

    def final(state: tuple[int, int]) -> bool:
        return state[0] in shape.finals and state[1] >= minimum

    counted = trim(explore((0, 0), step, final, meter))
    if counted.empty and reach < maximum:
        raise ConstraintTooLarge(f"the pattern is met only beyond {reach} characters", keyword="pattern", where=where,
                                 fix="Use a smaller minLength.")
    if counted.empty:
        return None
    note = f"strings at {where} meet their pattern within {reach} characters" if open_states and reach < maximum else ""
    # Where every state is open the states hold the whole length, and a register would only multiply them.
    held = len(open_states) == len(shape.edges)
    return StringText(json_string(counted, meter), 0, None if held else maximum, note)


def _open_states(shape: Dfa) -> frozenset[int]:
    """States from which a state can be reached that is not final, themselves included."""
    backward: list[list[int]] = [[] for _ in shape.edges]
    for source, row in enumerate(shape.edges):
        for _, _, target in row:
            backward[target].append(source)
    found = set(range(len(shape.edges))) - shape.finals
    queue = list(found)
    for state in queue:
        for source in backward[state]:
            if source not in found:
                found.add(source)
                queue.append(source)
    return frozenset(found)


def without(shape: Dfa, excluded: Dfa, meter: Meter) -> Dfa:
    """The texts of `shape` that `excluded` does not accept."""
    rest = complement(excluded, charset.ALL)
    return rest if shape is ANY_CHARACTERS else minimise(intersect([shape, rest], meter))


