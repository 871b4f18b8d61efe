"""The rules of a written grammar, whatever language it was written in: named trees over bytes and references."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ..automata.dfa import Dfa
from ..automata.trees import Alternatives, Chars, Repeat, Sequence
from ..errors import ConstraintTooLarge, InvalidConstraint
from ..limits import Meter


@dataclass(frozen=True, slots=True)
class Word:
    """Exactly these bytes; none: the empty text."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Automaton:
    """The texts of an automaton over bytes."""

    dfa: Dfa


@dataclass(frozen=True, slots=True)
class Reference:
    """Another rule. where: line and column of the mention."""

    name: str
    where: str


Node = Chars | Sequence["Node"] | Alternatives["Node"] | Repeat["Node"] | Word | Automaton | Reference


@dataclass(frozen=True, slots=True)
class Production:
    """where: line and column of the rule's name."""

    name: str
    body: Node
    where: str


@dataclass(slots=True)
class Group:
    """A group being read: finished alternatives, and the parts of the one at hand. opening: its bracket, "" for the
    whole body; at: where it was opened."""

    opening: str
    at: int
    options: list[Node]
    parts: list[Node]

    def bar(self) -> None:
        self.options.append(joined(self.parts))
        self.parts = []

    def close(self) -> Node:
        options = [*self.options, joined(self.parts)]
        return options[0] if len(options) == 1 else Alternatives(tuple(options))


def joined(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


class Source:
    """The text of a grammar, its places as "line L, column C", and refusals that name them."""

    def __init__(self, text: str, dialect: str, meter: Meter) -> None:
        self.text = text
        self.dialect = dialect
        self.meter = meter
        self.rule = ""  # the rule that is being read, for messages
        self._lines = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def place(self, at: int) -> str:
        line = bisect_right(self._lines, at)
        return f"line {line}, column {at - self._lines[line - 1] + 1}"

    def invalid(self, message: str, at: int, fix: str = "") -> InvalidConstraint:
        return InvalidConstraint(message, keyword=self.rule or self.dialect, where=self.place(at), fix=fix)

    def check_depth(self, depth: int, at: int) -> None:
        limit = self.meter.limits.depth
        if depth > limit:
            raise ConstraintTooLarge(f"groups are nested deeper than {limit}", keyword=self.rule or self.dialect,
                                     where=self.place(at), fix="Give the inner groups rules of their own.")

    def repeat(self, body: Node, minimum: int, maximum: int | None, at: int) -> Node:
        """A counted repetition, its bounds checked."""
        if maximum is not None and minimum > maximum:
            raise self.invalid(f"the repetition from {minimum} to {maximum} is out of order", at)
        limit = self.meter.limits.repetitions
        if max(minimum, maximum or 0) > limit:
            raise ConstraintTooLarge(f"a repetition counts beyond {limit}", keyword=self.rule or self.dialect,
                                     where=self.place(at), fix="Use a smaller count.")
        return Repeat(body, minimum, maximum)

    def number(self, digits: str, at: int) -> int:
        """A count; more than 12 digits are refused before they are read."""
        if len(digits) > 12:
            raise ConstraintTooLarge("a count has more than 12 digits", keyword=self.rule or self.dialect,
                                     where=self.place(at), fix="Use a smaller count.")
        return int(digits)

    def scalar(self, code: int, at: int) -> int:
        """A code point that stands for a character."""
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.invalid(f"U+{code:04X} is not a character", at)
        return code


def word(text: str, source: Source, at: int) -> Word:
    """A literal. Raises InvalidConstraint for a lone surrogate in it."""
    try:
        return Word(text.encode())
    except UnicodeEncodeError as error:
        raise source.invalid("a lone surrogate is not a character", at) from error
