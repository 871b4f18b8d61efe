"""GBNF, the grammar notation of llama.cpp, and the EBNF of other engines where it says the same.

    root ::= "a" item{1,3} (", " item)* [^"\\\\\\x00-\\x1f]+ .      # a comment

A rule ends with its line, except inside parentheses, after `::=` and beside `|`.
"""

from __future__ import annotations

import re

from ..automata import charset
from ..automata.charset import Ranges
from ..automata.trees import Chars
from ..errors import UnsupportedKeyword
from ..limits import Meter
from .productions import Group, Node, Production, Reference, Source, word

_SIMPLE = {"n": 0x0A, "r": 0x0D, "t": 0x09}
_ITSELF = frozenset("\\\"'[]-^/")
_LENGTHS = {"x": 2, "u": 4, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t]+|#[^\n]*)+")
_LINES = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")


def read_gbnf(text: str, meter: Meter) -> list[Production]:
    """The rules in order. Raises InvalidConstraint, UnsupportedKeyword or ConstraintTooLarge with line and column."""
    return _Reader(Source(text, "gbnf", meter)).rules()


class _Reader:
    """Iterative, so nesting costs no Python stack."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = source.text
        self._at = 0

    def rules(self) -> list[Production]:
        found: dict[str, Production] = {}
        self._blank(lines=True)
        while self._at < len(self._text):
            self._source.meter.time()
            at = self._at
            self._source.rule = ""
            name = self._name()
            if not name:
                raise self._source.invalid(
                    f"expected the name of a rule, not {self._text[at]!r}", at, fix="A rule is: name ::= ...")
            self._source.rule = name
            if name in found:
                raise self._source.invalid(f"the rule {name} is defined twice", at)
            self._blank()
            if not self._text.startswith("::=", self._at):
                raise self._source.invalid(f"expected ::= after {name}", self._at, fix="A rule is: name ::= ...")
            self._at += 3
            self._blank(lines=True)
            found[name] = Production(name, self._body(), self._source.place(at))
            self._blank(lines=True)
        return list(found.values())

    def _body(self) -> Node:
        """Alternatives up to the end of the rule."""
        groups = [Group("", self._at, [], [])]
        while not self._ended(len(groups) > 1):
            at, symbol = self._at, self._text[self._at]
            if symbol == "(":
                self._at += 1
                self._source.check_depth(len(groups), at)
                groups.append(Group("(", at, [], []))
            elif symbol == "|":
                self._at += 1
                groups[-1].bar()
                self._blank(lines=True)
            elif symbol == ")":
                if len(groups) == 1:
                    raise self._source.invalid("')' closes nothing", at)
                self._at += 1
                node = groups.pop().close()
                groups[-1].parts.append(self._repeated(node))
            else:
                groups[-1].parts.append(self._repeated(self._atom(symbol, at)))
        if len(groups) > 1:
            raise self._source.invalid("a group is not closed", groups[-1].at)
        return groups[0].close()

    def _ended(self, nested: bool) -> bool:
        """Whether the rule ends here, blanks skipped."""
        self._blank(lines=nested)
        if nested or self._at >= len(self._text):
            return self._at >= len(self._text)
        if self._text[self._at] not in "\r\n":
            return False
        before = self._at
        self._blank(lines=True)
        if self._text.startswith("|", self._at):
            return False
        self._at = before
        return True

    def _atom(self, symbol: str, at: int) -> Node:
        if symbol == '"':
            return self._literal(at)
        if symbol == "[":
            return Chars(self._class(at))
        if symbol == ".":
            self._at += 1
            return Chars(charset.ALL)
        if symbol == "<" or self._text.startswith("!<", at):
            raise UnsupportedKeyword("a token cannot be named in a grammar: it is over text", keyword="token",
                                     where=self._source.place(at), fix="Write the text of the token.")
        name = self._name()
        if not name:
            fix = "Literals stand between double quotes." if symbol == "'" else ""
            raise self._source.invalid(f"unexpected {symbol!r}", at, fix)
        return Reference(name, self._source.place(at))

    # Repetition

    def _repeated(self, node: Node) -> Node:
        while True:
            at = self._at
            self._blank()
            symbol = self._text[self._at:self._at + 1]
            if symbol in _REPEATS:
                self._at += 1
                node = self._source.repeat(node, *_REPEATS[symbol], at)
            elif symbol == "{":
                node = self._counted(node)
            else:
                return node

    def _counted(self, node: Node) -> Node:
        """`{n}`, `{n,}` or `{n,m}`."""
        at = self._at
        end = self._text.find("}", at)
        low, comma, high = self._text[at + 1:end].partition(",")
        low, high = low.strip(" \t"), high.strip(" \t")
        if end < 0 or not _digits(low) or (high and not _digits(high)):
            raise self._source.invalid("a repetition is {n}, {n,} or {n,m}", at)
        self._at = end + 1
        minimum = self._source.number(low, at)
        maximum = (self._source.number(high, at) if high else None) if comma else minimum
        return self._source.repeat(node, minimum, maximum, at)

    # Characters

    def _literal(self, start: int) -> Node:
        self._at += 1
        found: list[str] = []
        while self._peek() != '"':
            if self._at >= len(self._text) or self._peek() == "\n":
                raise self._source.invalid("a literal is not closed", start)
            found.append(chr(self._character()))
        self._at += 1
        return word("".join(found), self._source, start)

    def _class(self, start: int) -> Ranges:
        self._at += 1
        negative = self._peek() == "^"
        self._at += negative
        pairs: list[tuple[int, int]] = []
        while self._peek() != "]":
            if self._at >= len(self._text) or self._peek() == "\n":
                raise self._source.invalid("a class is not closed", start)
            at = self._at
            low = high = self._character()
            if self._peek() == "-" and not self._text.startswith("-]", self._at):
                self._at += 1
                if self._at >= len(self._text):
                    raise self._source.invalid("a class is not closed", start)
                high = self._character()
            if low > high:
                raise self._source.invalid("a range of a class is out of order", at)
            pairs.append((low, high))
        self._at += 1
        if not pairs:
            raise self._source.invalid("a class is empty", start, fix="Any character is written as a dot.")
        members = charset.ranges(pairs)
        return charset.complement(members) if negative else members

    def _character(self) -> int:
        """One character of a literal or class, escapes read."""
        at = self._at
        symbol = self._text[at]
        self._at += 1
        if symbol != "\\":
            return self._source.scalar(ord(symbol), at)
        symbol = self._peek()
        self._at += 1
        if symbol in _SIMPLE:
            return _SIMPLE[symbol]
        if symbol in _ITSELF:
            return ord(symbol)
        if symbol not in _LENGTHS:
            raise self._source.invalid(f"the escape \\{symbol} is not known", at)
        digits = self._text[self._at:self._at + _LENGTHS[symbol]]
        if len(digits) < _LENGTHS[symbol] or not _HEX.issuperset(digits):
            raise self._source.invalid(f"\\{symbol} needs {_LENGTHS[symbol]} hexadecimal digits", at)
        self._at += len(digits)
        return self._source.scalar(int(digits, 16), at)

    # Reading

    def _peek(self) -> str:
        return self._text[self._at:self._at + 1] or "end"

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match.group()

    def _blank(self, *, lines: bool = False) -> None:
        """Skips blanks and comments; line ends too when `lines`."""
        text, at = self._text, self._at
        if at >= len(text) or text[at] not in " \t\r\n#":
            return
        if text[at] == " " and text[at + 1:at + 2] not in " \t\r\n#":  # one blank, as between most words
            self._at += 1
            return
        match = (_LINES if lines else _BLANK).match(text, at)
        if match is not None:
            self._at = match.end()


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
