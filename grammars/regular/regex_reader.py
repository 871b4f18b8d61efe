"""A pattern and a place in it: its characters and escapes, and refusals that name the column."""

from __future__ import annotations

from ..automata import charset
from ..automata.charset import Ranges
from ..automata.unicode_tables import is_script, property_set
from ..errors import InvalidConstraint, UnsupportedKeyword

_CONTROL = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_ANCHORS = {"A": "^", "Z": "$", "z": "$"}  # of other dialects
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_PUNCTUATION = frozenset("!\"#%&',-:;<=>@_`~ ") | _SYNTAX


class Reader:
    """pointer: the `pattern` of a schema that the text stands in, else "". fold: letters stand for all their cases."""

    def __init__(self, pattern: str, pointer: str, fold: bool, start: int) -> None:
        self._text = pattern
        self._pointer = pointer
        self._fold = fold
        self._at = start
        self._properties: dict[tuple[str, str, bool], Ranges] = {}

    def _peek(self) -> str:
        return self._text[self._at:self._at + 1] or "\0end"

    def _take(self) -> str:
        self._at += 1
        return self._text[self._at - 1]

    def _take_escaped(self, start: int) -> str:
        if self._at >= len(self._text):
            raise self._invalid("the pattern ends in a backslash", start)
        return self._take()

    def _cased(self, members: Ranges) -> Ranges:
        return charset.folded(members) if self._fold else members

    # Escapes

    def _property(self, symbol: str, start: int) -> Ranges:
        """`\\p{...}` or `\\P{...}`, its letter read."""
        end = self._text.find("}", self._at)
        if self._peek() != "{" or end < 0:
            raise self._invalid(f"\\{symbol} needs a name in braces", start)
        name = self._text[self._at + 1:end]
        self._at, key = end + 1, (symbol, name, self._fold)
        if key not in self._properties:
            self._properties[key] = self._members(symbol, name, start)
        return self._properties[key]

    def _members(self, symbol: str, name: str, start: int) -> Ranges:
        members = property_set(name)
        if members is None:
            known = f" (write \\p{{Script={name}}})" if is_script(name) else ""
            raise self._unsupported("\\p", f"the Unicode property {name!r}{known}", start)
        members = self._cased(members)
        return members if symbol == "p" else charset.complement(members)

    def _code(self, symbol: str, start: int) -> int:
        """The character that an escape stands for; its backslash and `symbol` were read."""
        if symbol in _CONTROL:
            return _CONTROL[symbol]
        if symbol == "0" and not digits(self._peek()):
            return 0
        if symbol == "c":
            letter = self._take_escaped(start)
            if letter.isascii() and letter.isalpha():
                return ord(letter) % 32
            raise self._invalid("\\c needs a letter", start)
        if symbol == "x":
            return self._hex(2, start)
        if symbol == "u":
            return self._unicode(start)
        if symbol in _PUNCTUATION:
            return ord(symbol)
        meant = f" (write {_ANCHORS[symbol]})" if symbol in _ANCHORS else ""
        raise self._invalid(f"the escape \\{symbol} is not known{meant}", start)

    def _unicode(self, start: int) -> int:
        if self._peek() == "{":
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1:end]
            if end < 0 or not hex_digits(digits) or int(digits[-8:], 16) > 0x10FFFF:
                raise self._invalid("\\u{...} needs a code point", start)
            self._at = end + 1
            return self._scalar(int(digits, 16), start)
        code = self._hex(4, start)
        if 0xD800 <= code < 0xDC00 and self._text.startswith("\\u", self._at):
            self._at += 2
            low = self._hex(4, start)
            if 0xDC00 <= low < 0xE000:
                return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
        return self._scalar(code, start)

    def _scalar(self, code: int, start: int) -> int:
        if 0xD800 <= code < 0xE000:
            raise self._invalid("a lone surrogate matches no text", start)
        return code

    def _hex(self, length: int, start: int) -> int:
        digits = self._text[self._at:self._at + length]
        if len(digits) < length or not hex_digits(digits):
            raise self._invalid(f"the escape needs {length} hexadecimal digits", start)
        self._at += length
        return int(digits, 16)

    # Refusals

    def _place(self, at: int) -> str:
        column = f"column {at + 1}"
        return f"{self._pointer} {column}" if self._pointer else column

    def _invalid(self, message: str, at: int) -> InvalidConstraint:
        return InvalidConstraint(f"not a regular expression: {message}", where=self._place(at),
                                 keyword="pattern" if self._pointer else "regex")

    def _unsupported(self, keyword: str, what: str, at: int) -> UnsupportedKeyword:
        return UnsupportedKeyword(f"{what} is not supported in a regular expression", keyword=keyword,
                                  where=self._place(at), fix="Write the pattern without it.")


def digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def hex_digits(text: str) -> bool:
    return bool(text) and all(c in "0123456789abcdefABCDEF" for c in text)
