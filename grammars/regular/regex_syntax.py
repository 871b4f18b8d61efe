"""The text of a regular expression (ECMA-262, u flag) becomes a tree. Iterative, so nesting costs no Python stack."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from ..automata import charset
from ..automata.charset import Ranges
from ..automata.trees import Alternatives, Chars, Repeat, Sequence
from ..errors import ConstraintTooLarge
from ..limits import Meter
from .regex_reader import Reader, digits


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place, not a text: `^`, `$`, `\\b`, `\\B`."""

    kind: Literal["start", "end", "boundary", "inside"]


@dataclass(frozen=True, slots=True)
class Look:
    """What follows (behind: what came before) matches `body`, or does not."""

    body: Node
    negative: bool
    behind: bool = False


Node = Chars | Sequence["Node"] | Alternatives["Node"] | Repeat["Node"] | Assertion | Look

_SHORTHAND = {
    "d": charset.DIGIT, "D": charset.complement(charset.DIGIT),
    "w": charset.WORD, "W": charset.complement(charset.WORD),
    "s": charset.SPACE, "S": charset.complement(charset.SPACE),
}
_QUANTIFIER = frozenset("*+?{")
# What a group opens with, and whether it looks around: (negative, behind).
_OPENINGS: tuple[tuple[str, tuple[bool, bool] | None], ...] = (
    ("?:", None), ("?=", (False, False)), ("?!", (True, False)), ("?<=", (False, True)), ("?<!", (True, True)),
)
_FLAGS = re.compile(r"\(\?([isu]+)\)")
_MODIFIERS = re.compile(r"\?([is]*)(?:-([is]+))?:")  # of one group (ECMA-262 2025; Python writes them so too)
_UP_TO = re.compile(r"\{,\d+\}")
_NAMED = re.compile(r"\[[:.=]\^?\w+[:.=]\]")  # [:alpha:] of POSIX, which ECMA-262 would read as characters
_CLOSED = re.compile(r"(?:[^\[\]\\]|\\.)*\]", re.DOTALL)  # a bracket that nothing opened follows


@dataclass(slots=True)
class _Group:
    """An open parenthesis: finished alternatives, and the parts of the one being read."""

    column: int
    look: tuple[bool, bool] | None  # None: a plain group; else (negative, behind)
    options: list[Node]
    parts: list[Node]
    outside: tuple[bool, bool]  # what fold and dot_all were before it
    names: set[str] = field(default_factory=set)  # of the groups in the part that is being read
    before: set[str] = field(default_factory=set)  # and in the finished alternatives

    def close(self) -> Node:
        options = [*self.options, Sequence(tuple(self.parts))]
        body = options[0] if len(options) == 1 else Alternatives(tuple(options))
        return body if self.look is None else Look(body, *self.look)


def parse(pattern: str, meter: Meter, pointer: str = "", *, fold: bool = False, dot_all: bool = False) -> Node:
    """Raises InvalidConstraint or UnsupportedKeyword with the column, ConstraintTooLarge past a budget.

    pointer: the `pattern` it stands in. fold: letters stand for all their cases. dot_all: a dot is any character."""
    flags = _FLAGS.match(pattern)  # of the whole pattern, as Python writes them
    if flags:
        fold, dot_all = fold or "i" in flags[1], dot_all or "s" in flags[1]
    return _Parser(pattern, meter, pointer, fold, dot_all, flags.end() if flags else 0).parse()


class _Parser(Reader):
    def __init__(self, pattern: str, meter: Meter, pointer: str, fold: bool, dot_all: bool, start: int) -> None:
        super().__init__(pattern, pointer, fold, start)
        self._dot_all = dot_all
        self._meter = meter
        self._groups = [_Group(0, None, [], [], (fold, dot_all))]

    def parse(self) -> Node:
        while self._at < len(self._text):
            self._term()
        if len(self._groups) > 1:
            raise self._invalid("a group is not closed", self._groups[-1].column)
        return self._groups[0].close()

    # Terms

    def _term(self) -> None:
        self._meter.states(0)
        start = self._at
        symbol = self._take()
        group = self._groups[-1]
        if symbol == "(":
            self._open(start)
            return
        if symbol == "|":
            group.options.append(Sequence(tuple(group.parts)))
            group.parts = []
            group.before |= group.names
            group.names = set()
            return
        node = self._close(start) if symbol == ")" else self._atom(symbol, start)
        self._groups[-1].parts.append(self._quantified(node))

    def _atom(self, symbol: str, start: int) -> Node:
        if symbol == "[":
            return Chars(self._class(start))
        if symbol == ".":
            return Chars(charset.ALL if self._dot_all else charset.complement(charset.LINE_END))
        if symbol in "^$":
            return Assertion("start" if symbol == "^" else "end")
        if symbol == "\\":
            return self._escape(start)
        if symbol in _QUANTIFIER and symbol != "{":
            raise self._invalid(f"nothing to repeat before {symbol!r}", start)
        if symbol == "{" and self._braces() is not None:
            raise self._invalid("nothing to repeat before '{'", start)
        if 0xD800 <= ord(symbol) <= 0xDFFF:
            raise self._invalid("a lone surrogate matches no text", start)
        if symbol == "{" and _UP_TO.match(self._text, start):
            raise self._unsupported("{,n}", "a repetition without a lower bound (dialects differ)", start)
        # A lone ], { or } is an error under the u flag, but Python and web regexes read it as itself, and so do we.
        return Chars(self._cased(((ord(symbol), ord(symbol)),)))

    def _open(self, start: int) -> None:
        if len(self._groups) > self._meter.limits.depth:
            raise ConstraintTooLarge(f"groups are nested deeper than {self._meter.limits.depth}", keyword="regex",
                                     where=self._place(start), fix="Flatten the pattern.")
        look: tuple[bool, bool] | None = None
        outside = self._fold, self._dot_all
        if self._text.startswith("?", self._at):
            look = self._group_kind(start)
        self._groups.append(_Group(start, look, [], [], outside))

    def _group_kind(self, start: int) -> tuple[bool, bool] | None:
        for opening, look in _OPENINGS:
            if self._text.startswith(opening, self._at):
                self._at += len(opening)
                return look
        named = "?P<" if self._text.startswith("?P<", self._at) else "?<"
        if self._text.startswith(named, self._at):
            end = self._text.find(">", self._at)
            name = self._text[self._at + len(named):end]
            if end < 0 or not name.replace("$", "_").isidentifier():
                raise self._invalid("the name of a group is broken", start)
            if any(name in group.names for group in self._groups):  # ECMA-262 2025 allows it in other alternatives
                raise self._invalid(f"two groups have the name {name}", start)
            self._groups[-1].names.add(name)
            self._at = end + 1
            return None
        if self._text.startswith("?P=", self._at):
            raise self._unsupported("backreference", "a backreference", start)
        modifiers = _MODIFIERS.match(self._text, self._at)
        if modifiers is None:
            raise self._unsupported("flags", "a flag inside the pattern or an unknown group", start)
        self._modify(modifiers[1], modifiers[2] or "", start)
        self._at = modifiers.end()
        return None

    def _modify(self, on: str, off: str, start: int) -> None:
        if len(set(on + off)) < len(on + off):
            raise self._invalid("a flag is named twice", start)
        self._fold = (self._fold or "i" in on) and "i" not in off
        self._dot_all = (self._dot_all or "s" in on) and "s" not in off

    def _close(self, start: int) -> Node:
        if len(self._groups) == 1:
            raise self._invalid("')' closes nothing", start)
        group = self._groups.pop()
        self._fold, self._dot_all = group.outside
        self._groups[-1].names |= group.names | group.before
        return group.close()

    # Quantifiers

    def _quantified(self, node: Node) -> Node:
        start = self._at
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Assertion):
            raise self._invalid("an assertion cannot be repeated", start)
        if self._peek() == "?":  # lazy: the same texts match
            self._at += 1
        elif self._peek() == "+":
            raise self._unsupported("possessive", "a possessive quantifier", self._at)
        if self._peek() in _QUANTIFIER and (self._peek() != "{" or self._braces(self._at + 1) is not None):
            raise self._invalid("a quantifier follows a quantifier", self._at)
        low, high = bounds
        if high is not None and low > high:
            raise self._invalid(f"the repetition {{{low},{high}}} is out of order", start)
        if isinstance(node, Look):  # repeating a place adds nothing
            return node if low else Sequence(())
        return Repeat(node, low, high)

    def _bounds(self) -> tuple[int, int | None] | None:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        symbol = self._peek()
        if symbol in simple:
            self._at += 1
            return simple[symbol]
        if symbol != "{":
            return None
        found = self._braces(self._at + 1)
        if found is None:
            return None
        self._at = found[0]
        return found[1]

    def _braces(self, at: int | None = None) -> tuple[int, tuple[int, int | None]] | None:
        """`{n}`, `{n,}` or `{n,m}` whose opening brace was read: (place after it, bounds)."""
        at = self._at if at is None else at
        end = self._text.find("}", at)
        if end < 0:
            return None
        low, comma, high = self._text[at:end].partition(",")
        if not digits(low) or (high and not digits(high)):
            return None
        if max(len(low), len(high)) > 9:
            raise ConstraintTooLarge("a repetition count has more than 9 digits", keyword="regex",
                                     where=self._place(at), fix="Use a smaller count.")
        minimum = int(low)
        return end + 1, (minimum, (int(high) if high else None) if comma else minimum)

    # Escapes

    def _escape(self, start: int) -> Node:
        symbol = self._take_escaped(start)
        if symbol in "bB":
            return Assertion("boundary" if symbol == "b" else "inside")
        if symbol in _SHORTHAND:
            return Chars(_SHORTHAND[symbol])
        if symbol in "pP":
            return Chars(self._property(symbol, start))
        if symbol in "123456789" or symbol == "k":
            raise self._unsupported("backreference", "a backreference", start)
        code = self._code(symbol, start)
        return Chars(self._cased(charset.ranges([(code, code)])))

    # Classes

    def _class(self, start: int) -> Ranges:
        negative = self._peek() == "^"
        self._at += negative
        found: list[Ranges] = []
        while self._peek() != "]":
            low = self._member(start)
            if self._peek() != "-" or self._text.startswith("-]", self._at):
                found.append(low)
                continue
            dash = self._at
            self._at += 1
            high = self._member(start)
            found.append(self._range(low, high, dash))
        self._at += 1
        if not found and _CLOSED.match(self._text, self._at):
            raise self._unsupported("class", "a bracket first in a class (dialects differ; write \\])", start)
        members = self._cased(charset.union(*found))
        return charset.complement(members) if negative else members

    def _range(self, low: Ranges, high: Ranges, dash: int) -> Ranges:
        if not (_single(low) and _single(high)):  # a dash beside a shorthand is a literal
            return charset.union(low, charset.chars("-"), high)
        if low[0][0] > high[0][0]:
            raise self._invalid("a range of a class is out of order", dash)
        return charset.ranges([(low[0][0], high[0][0])])

    def _member(self, start: int) -> Ranges:
        if self._at >= len(self._text):
            raise self._invalid("a class is not closed", start)
        place = self._at
        if _NAMED.match(self._text, place):
            raise self._unsupported("class", "a class of POSIX (dialects differ; write A-Z, \\d or \\p{L})", place)
        symbol = self._take()
        if symbol != "\\":
            if 0xD800 <= ord(symbol) <= 0xDFFF:
                raise self._invalid("a lone surrogate matches no text", place)
            return ((ord(symbol), ord(symbol)),)
        symbol = self._take_escaped(place)
        if symbol in _SHORTHAND:
            return _SHORTHAND[symbol]
        if symbol in "pP":
            return self._property(symbol, place)
        code = 0x08 if symbol == "b" else self._code(symbol, place)
        return charset.ranges([(code, code)])

def _single(members: Ranges) -> bool:
    return len(members) == 1 and members[0][0] == members[0][1]
