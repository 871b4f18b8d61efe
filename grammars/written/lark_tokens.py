"""The words of a Lark grammar, with their places, cut into statements."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import UnsupportedKeyword
from .productions import Source

# Blanks, comments and a backslash at the end of a line are skipped. A line end is a word, since it may end a statement.
_SKIPPED = re.compile(r"(?:[ \t\f]+|\r(?=\n)|//[^\n]*|#[^\n]*|\\[ \t]*\r?\n)+")
_WORD = re.compile(
    r"""(?P<line>\n)
    |(?P<string>"(?:\\[^\n]|[^"\\\n])*"i?)
    |(?P<regex>/(?!/)(?:\\[^\n]|[^/\\])*/[a-zA-Z]*)
    |(?P<terminal>_*[A-Z][_A-Z0-9]*(?![A-Za-z0-9_]))
    |(?P<rule>_*[a-z][_a-z0-9]*(?![A-Za-z0-9_]))
    |(?P<number>[+-]?[0-9]+)
    |(?P<directive>%[a-z_]+)
    |(?P<mark>->|\.\.|::=|[()\[\]{}|:,.~?*+!])""",
    re.VERBOSE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Word:
    """kind: line, string, regex, terminal, rule, number, directive or mark."""

    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Statement:
    """words: without line ends. end: the place after the last."""

    words: tuple[Word, ...]
    end: int


def statements(source: Source) -> list[Statement]:
    """A statement ends with its line, except inside brackets and before `|`.

    Raises InvalidConstraint or UnsupportedKeyword.
    """
    found: list[Statement] = []
    current: list[Word] = []
    open_brackets = 0
    words = _words(source)
    for place, word in enumerate(words):
        if word.kind != "line":
            current.append(word)
            open_brackets = max(0, open_brackets + (word.text in _CLOSING) - (word.text in _CLOSING.values()))
            continue
        following = words[place + 1] if place + 1 < len(words) else None
        continues = following is not None and (following.kind == "line" or following.text == "|")
        if current and not open_brackets and not continues:
            found.append(_statement(current))
            current = []
    if current:
        found.append(_statement(current))
    return found


def _statement(words: list[Word]) -> Statement:
    return Statement(tuple(words), words[-1].at + len(words[-1].text))


def _words(source: Source) -> list[Word]:
    found: list[Word] = []
    text, at = source.text, 0
    while at < len(text):
        source.meter.states(0)
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        match = _WORD.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unexpected(source, at)
        if match.group() == "::=":
            raise source.invalid("'::=' is not Lark", at, fix="Send a grammar with ::= as GBNF.")
        found.append(Word(match.lastgroup, match.group(), at))
        at = match.end()
    return found


def _unexpected(source: Source, at: int) -> Exception:
    symbol = source.text[at]
    if symbol in "\"/":
        return source.invalid("a string or a regular expression is not closed", at)
    if symbol == "<":
        return UnsupportedKeyword("a token cannot be named in a grammar: it is over text", keyword="token",
                                  where=source.place(at), fix="Write the text of the token.")
    if symbol.isalpha():
        return source.invalid("a name is all small letters (a rule) or all capitals (a terminal)", at)
    fix = {"'": "Literals stand between double quotes.",
           "=": "A definition is name: body; a rule has no attributes in brackets."}.get(symbol, "")
    return source.invalid(f"unexpected {symbol!r}", at, fix)
