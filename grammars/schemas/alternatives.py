"""Unions that multiply: the alternatives of a conjunction where they are many.

What must hold is taken in first. Then options that it excludes are left out, unions of which it implies an option say
nothing more, one of which a single option is left is taken in too; of the others the smallest is taken apart, and so
on (Davis, Logemann and Loveland 1962). Where an option of a negation is about one property, the options behind it are
those in which it does not hold: alternatives do not overlap, and what it says of the property settles other unions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from ..errors import ConstraintTooLarge, InvalidConstraint
from .branches import KINDS, All, Any, Base, Chain, Part
from .document import pointer_of
from .evaluated import Links
from .shape import Places

if TYPE_CHECKING:
    from .expand import Expander

# Where something stands in the schemas: numbers of parts, of the outermost first. Alternatives list what they hold in
# this order.
_Key = tuple[int, ...]
_OBJECTS = frozenset(["object"])


class _Option(msgspec.Struct, frozen=True):
    """surely: the schemas without branches that hold where it does. left: those of them that nothing implies so far,
    but for what they require. kinds: the types that these leave. alone: no unions within. opposite: of it, where that
    is one schema; "": none."""

    places: Places
    surely: Places
    left: Places
    required: frozenset[str]
    kinds: frozenset[str]
    alone: bool
    opposite: str


class _Union(msgspec.Struct, frozen=True):
    """looked: how many of the schemas taken in its options were held against."""

    key: _Key
    chain: Chain | None
    options: tuple[_Option, ...]
    looked: int = 0


class _Todo(msgspec.Struct, frozen=True):
    key: _Key
    part: Part
    chain: Chain | None


class _Branch(msgspec.Struct, frozen=True):
    """bases: taken in, in the order of that. seen: all places met. required: names."""

    todo: tuple[_Todo, ...]
    unions: tuple[_Union, ...] = ()
    bases: tuple[tuple[_Key, str], ...] = ()
    seen: frozenset[str] = frozenset()
    kinds: frozenset[str] = KINDS
    links: Links = frozenset()
    required: frozenset[str] = frozenset()


class Alternatives:
    def __init__(self, expander: Expander, places: Places) -> None:
        self._expander = expander
        self._places = places
        self._unevaluated = expander.document.unevaluated
        self._steps = 0
        self._options: dict[Places, _Option | None] = {}

    def found(self) -> tuple[Places, ...]:
        """Raises ConstraintTooLarge when there are too many."""
        found: dict[Places, None] = {}
        stack = [_Branch(tuple([_Todo((i,), All(place), None) for i, place in enumerate(self._places)]))]
        while stack:
            branch = self._settled(stack.pop())
            if branch is None:
                continue
            if branch.unions:
                stack.extend(reversed(self._apart(branch)))
            else:
                bases = tuple([place for _, place in sorted(branch.bases)])
                rests = self._expander.rests.of(bases, branch.links) if self._unevaluated else ()
                found.setdefault((*bases, *rests))
                self._step(len(found))
        return tuple(found)

    def _step(self, found: int = 0) -> None:
        limit = self._expander.meter.limits.alternatives
        self._steps += 1
        if self._steps > limit * 8 or found > limit:
            raise ConstraintTooLarge(f"the unions here multiply out to more than {limit} alternatives", keyword="anyOf",
                                     where=pointer_of(self._places[0]), fix="Combine fewer unions with each other.")
        self._expander.meter.states(0)

    def _settled(self, branch: _Branch) -> _Branch | None:
        """With all that must hold taken in; None when nothing can fit."""
        while True:
            read = self._read(branch)
            if read is None:
                return None
            unions: list[_Union] = []
            todo: list[_Todo] = []
            readings = {self._expander.readings.number(place) for place in read.seen} if read.unions else set[int]()
            for union in read.unions:
                narrowed = self._narrowed(union, read, readings)
                if narrowed is None:
                    continue
                if not narrowed.options:
                    return None
                if len(narrowed.options) > 1:
                    unions.append(narrowed)
                else:
                    todo += self._taken(narrowed.options[0].places, narrowed)
            branch = replace(read, unions=tuple(unions), todo=tuple(todo))
            if not todo:
                return branch

    def _read(self, branch: _Branch) -> _Branch | None:
        """Nothing left to do but unions."""
        queue, unions, bases = list(branch.todo), list(branch.unions), list(branch.bases)
        seen, kinds, links, required = set(branch.seen), branch.kinds, branch.links, set(branch.required)
        for todo in queue:  # grows while it runs
            self._step()
            if isinstance(todo.part, Any):
                unions.append(self._union(todo.part, todo))
                continue
            if not isinstance(todo.part, All):
                raise ValueError("a base is taken in with its place")
            place, chain = todo.part.place, todo.chain
            self._check_loop(place, chain)
            if self._unevaluated and chain is not None and place not in self._expander.negative:
                links |= {(chain.place, place)}
            if place in seen:
                continue
            seen.add(place)
            parts = self._expander.parts(place)
            if parts is None:
                return None
            chain = Chain(place, chain)
            for number, part in enumerate(parts):
                key = (*todo.key, number)
                if isinstance(part, Base):
                    bases.append((key, place))
                    kinds &= self._expander.kinds(place)
                    required.update(self._expander.required(place))
                else:
                    queue.append(_Todo(key, part, chain))
            if not kinds:
                return None
        return _Branch((), tuple(unions), tuple(bases), frozenset(seen), kinds, links, frozenset(required))

    @staticmethod
    def _check_loop(place: str, chain: Chain | None) -> None:
        if chain is not None and chain.holds(place):
            raise InvalidConstraint("this reference leads back to itself without an instance in between",
                                    keyword="$ref", where=pointer_of(place), fix="Break the loop.")

    def _union(self, part: Any, todo: _Todo) -> _Union:
        options = [self._option(places) for places in self._expander.options(part, todo.chain)]
        return _Union(todo.key, todo.chain, tuple([option for option in options if option is not None]))

    def _option(self, places: Places) -> _Option | None:
        """None: nothing fits it."""
        if places not in self._options:
            held = self._expander.surely(places)
            if held is None:
                self._options[places] = None
                return None
            surely = held.bases
            kinds = KINDS
            for place in surely:
                kinds &= self._expander.kinds(place)
            left = tuple(place for place in surely if not self._expander.only_types(place))
            required = frozenset(name for place in surely for name in self._expander.required(place))
            self._options[places] = _Option(places, surely, left, required, kinds, held.alone,
                                            self._opposite(places))
        return self._options[places]

    def _opposite(self, places: Places) -> str:
        # What a derived schema declares would count as evaluated.
        return self._expander.opposite(places[0]) if len(places) == 1 and not self._unevaluated else ""

    def _narrowed(self, union: _Union, branch: _Branch, readings: set[int]) -> _Union | None:
        """With the options that what was taken in leaves; None when it implies one. readings: of all places met."""
        new = [place for _, place in branch.bases[union.looked:]]
        options: list[_Option] = []
        for option in union.options:
            kinds = branch.kinds & option.kinds
            if not kinds or (new and self._excluded(option, new)):
                continue
            left = option.left
            if branch.kinds == _OBJECTS:
                left = tuple([place for place in left if place not in branch.seen and not any(
                    self._expander.implied(base, place) for base in new)])
            implied = not left and option.alone and kinds == branch.kinds and option.required <= branch.required
            if not self._unevaluated and (implied or self._known(option, readings)):
                return None
            options.append(option if left == option.left else replace(option, left=left))
        return replace(union, options=tuple(options), looked=len(branch.bases))

    def _excluded(self, option: _Option, new: list[str]) -> bool:
        """One of the schemas that were taken in last excludes it."""
        apart = self._expander.apart
        for place in option.surely:
            for base in new:
                if apart(base, place, ""):
                    return True
        return False

    def _known(self, option: _Option, readings: set[int]) -> bool:
        """It reads like a schema that was taken in."""
        return len(option.places) == 1 and self._expander.readings.number(option.places[0]) in readings

    def _apart(self, branch: _Branch) -> list[_Branch]:
        """A branch for each option of a union."""
        union = min(branch.unions, key=lambda one: (len(one.options), one.key))
        rest = tuple([one for one in branch.unions if one is not union])
        branches: list[_Branch] = []
        not_these: list[str] = []
        for option in union.options:
            objects = branch.kinds & option.kinds == _OBJECTS
            todo = self._taken((*option.places, *(not_these if objects else ())), union)
            branches.append(replace(branch, unions=rest, todo=tuple(todo)))
            not_these += [option.opposite] if rest and option.opposite else []
        return branches

    @staticmethod
    def _taken(places: Iterable[str], union: _Union) -> list[_Todo]:
        return [_Todo((*union.key, number), All(place), union.chain) for number, place in enumerate(places)]
