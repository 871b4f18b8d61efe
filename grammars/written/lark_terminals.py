"""Strings, ranges and regular expressions of a Lark grammar."""

from __future__ import annotations

from ..automata import charset
from ..automata.trees import Alternatives, Chars, Repeat, Sequence
from ..automata.utf8 import plain
from ..errors import ConstraintError, InvalidConstraint, UnsupportedKeyword
from ..regular import regex_syntax
from ..regular.regex import compile_regex
from .lark_tokens import Word
from .productions import Automaton, Node, Source, word

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "\\": "\\", '"': '"'}
_LENGTHS = {"x": 2, "u": 4, "U": 8}
_HEX = frozenset("0123456789abcdefABCDEF")


def string(given: Word, source: Source) -> Node:
    """`"text"`, or `"text"i` in either case of each letter."""
    text, insensitive = _unescaped(given, source)
    if not insensitive:
        return word(text, source, given.at)
    return Sequence(tuple(Chars(charset.folded(charset.chars(c))) for c in text))


def letters(first: Word, last: Word, source: Source) -> Node:
    """`"a".."z"`."""
    low, _ = _unescaped(first, source)
    high, _ = _unescaped(last, source)
    if len(low) != 1 or len(high) != 1:
        raise source.invalid("a range is between two single characters", first.at)
    if low > high:
        raise source.invalid("a range is out of order", first.at)
    members = charset.ranges([(ord(low), ord(high))])
    insensitive = first.text.endswith("i") or last.text.endswith("i")
    return Chars(charset.folded(members) if insensitive else members)


def _unescaped(given: Word, source: Source) -> tuple[str, bool]:
    """(the text of a string, whether it stands for either case)."""
    insensitive = given.text.endswith("i")
    text = given.text[1:-2] if insensitive else given.text[1:-1]
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            found.append(chr(source.scalar(ord(text[at]), given.at + 1 + at)))
            at += 1
            continue
        symbol = text[at + 1]
        if symbol in _SIMPLE:
            found.append(_SIMPLE[symbol])
            at += 2
            continue
        digits = text[at + 2:at + 2 + _LENGTHS.get(symbol, 0)]
        if symbol not in _LENGTHS or len(digits) < _LENGTHS[symbol] or not _HEX.issuperset(digits):
            raise source.invalid(f"the escape \\{symbol} of a string is not known", given.at + 1 + at,
                                 fix="Write \\\\ for a backslash.")
        found.append(chr(source.scalar(int(digits, 16), given.at + 1 + at)))
        at += 2 + len(digits)
    return "".join(found), insensitive


def regex(given: Word, source: Source) -> Node:
    """`/pattern/flags`: the texts that the pattern matches as a whole."""
    end = given.text.rindex("/")
    pattern, flags = given.text[1:end], given.text[end + 1:]
    for place, flag in enumerate(flags):
        if flag not in "imsu":
            raise UnsupportedKeyword(f"the flag {flag} of a regular expression is not supported", keyword="flags",
                                     where=source.place(given.at + end + 1 + place),
                                     fix="Write the pattern without it.")
    if "\n" in pattern:
        raise source.invalid("a regular expression runs over the end of its line", given.at)
    try:
        tree = regex_syntax.parse(pattern, source.meter, fold="i" in flags, dot_all="s" in flags)
        _check_context_free(tree)
        dfa = compile_regex(pattern, source.meter, fold="i" in flags, dot_all="s" in flags)
    except ConstraintError as error:
        raise _placed(error, given, source) from error
    return Automaton(plain(dfa, source.meter).dfa)


def _check_context_free(tree: regex_syntax.Node) -> None:
    """A terminal is a set of texts; what depends on the text around it is not."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, regex_syntax.Look | regex_syntax.Assertion):
            kind = "look-ahead" if isinstance(node, regex_syntax.Look) else "an anchor or word boundary"
            raise UnsupportedKeyword(
                f"{kind} in a terminal depends on the text around it, and is not supported",
                keyword="lookahead" if isinstance(node, regex_syntax.Look) else "anchor", where="column 1",
                fix="Write the terminal without it.")
        if isinstance(node, Sequence):
            stack.extend(node.parts)
        elif isinstance(node, Alternatives):
            stack.extend(node.options)
        elif isinstance(node, Repeat):
            stack.append(node.body)


def _placed(error: ConstraintError, given: Word, source: Source) -> ConstraintError:
    """The refusal of a pattern, its column counted in the grammar."""
    column = error.where.removeprefix("column ")
    at = given.at + int(column) if column.isdigit() else given.at
    keyword = (source.rule or source.dialect) if isinstance(error, InvalidConstraint) else error.keyword
    return type(error)(error.message, keyword=keyword, where=source.place(min(at, len(source.text))), fix=error.fix)
