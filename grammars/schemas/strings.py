"""JSON strings: lengths, patterns and formats become one automaton, with a counter where states would multiply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from ..automata import charset
from ..automata.dfa import Dfa, bounded, complement, explore, intersect, longest, shortest, trim
from ..automata.minimise import minimise
from ..automata.utf8 import ByteDfa, json_string, json_string_freely
from ..limits import Meter

# Up to here a least length is written out as states; beyond, a register counts.
_UNROLLED = 4
# A class that repeats up to this often stays written out.
_LONG = 16
# States of a pattern times the lengths that must be told apart: what is spent gladly.
_GLADLY = 4_000
_GLADLY_FREELY = 250  # in any spelling, where each has a dozen or more behind a backslash


Speller = Callable[[Dfa, Meter], ByteDfa]


class StringText(msgspec.Struct, frozen=True):
    """The inside of a string. minimum, maximum: characters that a register must count; (0, None): none. nested: of a
    pattern of any nesting, which rules that call themselves write in place of the body; how they spell it."""

    body: ByteDfa
    minimum: int = 0
    maximum: int | None = None
    nested: Speller | None = None

    @property
    def counted(self) -> bool:
        return self.minimum > 0 or self.maximum is not None

    @property
    def apart(self) -> bool:
        """It is a rule of its own, whatever else may stand in its place."""
        return self.counted or self.nested is not None


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


def shaped_text(shapes: list[Dfa], minimum: int, maximum: int | None, meter: Meter,
                spell: Speller = json_string) -> StringText | None:
    """The texts that every shape accepts, spelled as `spell` does; None when there are none."""
    shape = minimise(intersect(shapes, meter)) if len(shapes) > 1 else shapes[0]
    if shape.empty:
        return None
    repeated = _repeated(shape)
    if repeated is not None:
        shape = repeated.shape
        minimum = max(minimum, repeated.least)
        if repeated.most is not None:
            maximum = repeated.most if maximum is None else min(maximum, repeated.most)
        if maximum is not None and minimum > maximum:
            return None
    least, most = shortest(shape), longest(shape)
    if most is not None and maximum is not None and most <= maximum:
        maximum = None
    if minimum <= least:
        minimum = 0
    if minimum == 0 and maximum is None:
        return StringText(spell(shape, meter))
    if len(shape.edges) == 1 and minimum > _UNROLLED:
        return StringText(spell(shape, meter), minimum, maximum)
    if maximum is None:
        counted = bounded(shape, minimum, None, meter)
        return None if counted.empty else StringText(spell(counted, meter))
    return _counted(shape, minimum, maximum, meter, spell)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """`least` to `most` characters of a class, None: any number. shape: any number of them."""

    shape: Dfa
    least: int
    most: int | None


def _repeated(shape: Dfa) -> _Repeated | None:
    """A chain of states that all read one class, the last of them again and again or not at all, as a class and a
    count, so that a register can count it."""
    states, endless = [0], False
    while shape.edges[states[-1]] and not endless:
        targets = {target for _, _, target in shape.edges[states[-1]]}
        if len(targets) > 1 or len(states) > len(shape.edges):
            return None
        endless = targets == {states[-1]}
        if not endless:
            states.append(targets.pop())
    if len(states) <= _LONG:
        return None
    classes = {tuple((low, high) for low, high, _ in shape.edges[s]) for s in (states if endless else states[:-1])}
    least = next(i for i, s in enumerate(states) if s in shape.finals)
    if len(classes) > 1 or not all(s in shape.finals for s in states[least:]):
        return None
    return _Repeated(Dfa((tuple((low, high, 0) for low, high in classes.pop()),), frozenset([0])), least,
                     None if endless else len(states) - 1)


def _counted(shape: Dfa, minimum: int, maximum: int, meter: Meter, spell: Speller) -> StringText | None:
    """Where some continuation may not end at once, a register that is full is a dead end. While the states stay few the
    length is in them there; else the register counts alone, and the engine, which knows the distance to the end for
    every count, keeps out of dead ends."""
    if not _meets(shape, minimum, maximum, meter):
        return None
    open_states = _open_states(shape)
    gladly = _GLADLY if spell is json_string else _GLADLY_FREELY
    if len(open_states) * (maximum + 1) + len(shape.edges) * (minimum + 1) > gladly:
        return StringText(spell(shape, meter), minimum, maximum)

    def step(state: tuple[int, int]) -> list[tuple[int, int, tuple[int, int]]]:
        at, length = state
        arcs: list[tuple[int, int, tuple[int, int]]] = []
        for low, high, target in shape.edges[at]:
            if target in open_states:
                if length < maximum:
                    arcs.append((low, high, (target, length + 1)))
            elif at not in open_states or length < maximum:
                arcs.append((low, high, (target, min(length + 1, minimum))))
        return arcs

    def final(state: tuple[int, int]) -> bool:
        return state[0] in shape.finals and state[1] >= minimum

    counted = trim(explore((0, 0), step, final, meter))
    # Where every state is open the states hold the whole length, and a register would only multiply them.
    held = len(open_states) == len(shape.edges)
    return StringText(spell(counted, meter), 0, None if held else maximum)


def _meets(shape: Dfa, minimum: int, maximum: int, meter: Meter) -> bool:
    """Whether the shape accepts a text of `minimum` to `maximum` characters."""
    layer = frozenset([0])
    seen: set[frozenset[int]] = set()
    for length in range(maximum + 1):
        if length >= minimum:
            if layer & shape.finals:
                return True
            if layer in seen:
                return False
            seen.add(layer)
        meter.states(0)
        layer = frozenset(target for state in layer for _, _, target in shape.edges[state])
    return False


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


def exactly(texts: Iterable[str]) -> str:
    """A pattern that these texts match, and no others."""
    spelled = ["".join(c if c.isalnum() else f"\\u{{{ord(c):x}}}" for c in text) for text in texts]
    return f"^(?:{'|'.join(spelled)})$"
