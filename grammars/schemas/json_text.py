"""JSON text read exactly (decimals, places, no key twice) and values spelled as json.dumps(ensure_ascii=False) would.

Python's own reader is five times as fast and knows no places, so it goes first; what it may not judge is read again by
one that is iterative: nesting is a stated limit and never a RecursionError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from decimal import Decimal

from ..constraint import Spacing
from ..errors import ConstraintTooLarge, InvalidConstraint
from ..limits import Limits

JsonValue = None | bool | int | Decimal | str | list["JsonValue"] | dict[str, "JsonValue"]

_TOKEN = re.compile(
    r"""[ \t\n\r]*(?:
      (?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")
    | (?P<number>-?(?:0|[1-9][0-9]*)(?P<real>(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![0-9.eE+-]))
    | (?P<word>true|false|null)(?![A-Za-z0-9_])
    | (?P<mark>[\[\]{},:])
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\n\r]*")
_HALF = re.compile(r"[\ud800-\udfff]|\\u[dD][89a-fA-F]")  # of a pair, or so it looks
_CONTAINERS = (list, dict)
_WORDS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}
# A literal of a schema: nobody means more, and arithmetic on it stays cheap.
_MAX_NUMBER_TEXT = 1000
_MAX_EXPONENT = 400
# Depth of a value that is spelled out (enum, const).
MAX_VALUE_DEPTH = 200


def read_json(text: str, limits: Limits) -> JsonValue:
    """Raises InvalidConstraint with line and column, ConstraintTooLarge past limits.source_bytes or limits.depth."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > limits.source_bytes:
        raise ConstraintTooLarge(f"the schema is longer than {limits.source_bytes} bytes", keyword="source_bytes",
                                 where="#", fix="Send a smaller schema.")
    try:
        return _plain(text, limits)
    except (_Unusual, RecursionError, json.JSONDecodeError):
        return ExactReader(text, limits).read()


class _Unusual(Exception):
    """A text for the exact reader: it is refused, or seldom written."""


def _plain(text: str, limits: Limits) -> JsonValue:
    """What `ExactReader` reads. Raises _Unusual, RecursionError or JSONDecodeError where that must be asked."""
    if not (text.isascii() and "\\u" not in text) and _HALF.search(text):
        raise _Unusual
    value: JsonValue = _READER.decode(text)
    brackets = text.count("[") + text.count("{")
    if brackets > limits.depth and depth_of(value) > limits.depth:
        raise _Unusual
    return value


def _object(members: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(members)
    if len(found) < len(members):
        raise _Unusual
    return found


def _integer(text: str) -> int:
    if len(text) > _MAX_NUMBER_TEXT:
        raise _Unusual
    return int(text)


def _real(text: str) -> Decimal:
    """Also of NaN and infinities, which are refused."""
    value = Decimal(text) if len(text) <= _MAX_NUMBER_TEXT else Decimal("NaN")
    if not value.is_finite() or (value and not -_MAX_EXPONENT <= value.adjusted() <= _MAX_EXPONENT):
        raise _Unusual
    return value


_READER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_real)


def names_in(value: JsonValue) -> set[str]:
    """The keys of all objects."""
    found: set[str] = set()
    stack = [value]
    for top in stack:  # grows while it runs
        if isinstance(top, dict):
            found.update(top)
            stack.extend(top.values())
        elif isinstance(top, list):
            stack.extend(top)
    return found


class ExactReader:
    """Reads one text, and tells where it is refused."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._at = 0
        self._start = 0
        self._stack: list[list[JsonValue] | dict[str, JsonValue]] = []
        self._keys: list[str] = []  # the key that each open object waits to fill

    def read(self) -> JsonValue:
        while True:
            value = self._value()
            while not isinstance(value, _Opened):
                if not self._stack:
                    self._finish()
                    return value
                closed = self._store(value)
                if not closed:
                    break
                value = self._stack.pop()

    def _value(self) -> JsonValue | _Opened:
        """The next value; an opened container that has members is pushed, and its first key read."""
        kind, token = self._next("a value")
        if kind == "string":
            return self._string(token)
        if kind == "word":
            return _WORDS[token]
        if kind == "mark" and token in "[{":
            return self._open(token)
        if kind == "mark":
            raise self._error(f"expected a value and found {token!r}")
        return self._number(token)

    def _open(self, mark: str) -> JsonValue | _Opened:
        if len(self._stack) >= self._limits.depth:
            raise ConstraintTooLarge(f"the schema is nested deeper than {self._limits.depth} levels of JSON",
                                     keyword="depth", where=self._place(), fix="Flatten it, or use $ref.")
        empty: list[JsonValue] | dict[str, JsonValue] = [] if mark == "[" else {}
        closing = "]" if mark == "[" else "}"
        after = _BLANK.match(self._text, self._at)
        end = after.end() if after else self._at
        if self._text.startswith(closing, end):
            self._at = end + 1
            return empty
        self._stack.append(empty)
        if isinstance(empty, dict):
            self._keys.append("")
            self._key(empty)
        return _OPENED

    def _store(self, value: JsonValue) -> bool:
        """Put a value into the innermost container; True when that closes the container."""
        top = self._stack[-1]
        if isinstance(top, list):
            top.append(value)
        else:
            top[self._keys[-1]] = value
        closing = "]" if isinstance(top, list) else "}"
        kind, token = self._next(f"',' or {closing!r}")
        if kind == "mark" and token == closing:
            if isinstance(top, dict):
                self._keys.pop()
            return True
        if kind != "mark" or token != ",":
            raise self._error(f"expected ',' or {closing!r}")
        if isinstance(top, dict):
            self._key(top)
        return False

    def _key(self, owner: dict[str, JsonValue]) -> None:
        kind, token = self._next("a key")
        if kind != "string":
            raise self._error("expected a key in double quotes")
        key = self._string(token)
        if key in owner:
            raise self._error(f"the key {key!r} is written twice")
        if self._next("':'") != ("mark", ":"):
            raise self._error("expected ':'")
        self._keys[-1] = key

    def _string(self, token: str) -> str:
        value = str(json.loads(token)) if "\\" in token else token[1:-1]
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise self._error("a lone surrogate is not a character")
        return value

    def _number(self, token: str) -> int | Decimal:
        if len(token) > _MAX_NUMBER_TEXT:
            raise ConstraintTooLarge(f"a number is longer than {_MAX_NUMBER_TEXT} characters", keyword="number",
                                     where=self._place(), fix="Use a shorter number.")
        if token.lstrip("-").isdigit():
            return int(token)
        value = Decimal(token)
        if value and not -_MAX_EXPONENT <= value.adjusted() <= _MAX_EXPONENT:
            raise ConstraintTooLarge(f"the exponent of {token} is beyond {_MAX_EXPONENT}", keyword="number",
                                     where=self._place(), fix="Use a number nearer to one.")
        return value

    def _next(self, wanted: str) -> tuple[str, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            blank = _BLANK.match(self._text, self._at)
            self._start = blank.end() if blank else self._at
            at_end = self._start >= len(self._text)
            raise self._error(f"expected {wanted} and found " + ("the end of the text" if at_end else
                                                                 repr(self._text[self._start:self._start + 20])))
        kind = found.lastgroup or "mark"
        kind = "number" if kind == "real" else kind
        token = found.group(kind)
        self._start = found.end() - len(token)
        self._at = found.end()
        return kind, token

    def _finish(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._start = blank.end() if blank else self._at
        if self._start < len(self._text):
            raise self._error("text follows the end of the value")

    def _place(self) -> str:
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - (self._text.rfind("\n", 0, self._start) + 1) + 1
        return f"line {line} column {column}"

    def _error(self, message: str) -> InvalidConstraint:
        return InvalidConstraint(f"the schema is not JSON: {message}", keyword="json", where=self._place())


class _Opened:
    """A container was opened and waits for its members."""


_OPENED = _Opened()


def identity(value: JsonValue) -> Hashable:
    """Equal exactly for values that JSON Schema calls equal: 1 is 1.0 and not true; the order of keys is free."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return ("word", value)
    if isinstance(value, Decimal):
        return ("number", value.normalize())
    if isinstance(value, int):
        return ("number", value)
    if isinstance(value, list):
        return ("list", tuple(identity(item) for item in value))
    return ("object", frozenset((key, identity(item)) for key, item in value.items()))


def spell_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _spell_number(value: int | Decimal) -> str:
    if isinstance(value, int):
        return str(value)
    near = float(value)
    return json.dumps(near) if Decimal(repr(near)) == value else str(value).replace("E", "e")


def spell(value: JsonValue, spacing: Spacing, depth: int = 0) -> str:
    """The one spelling of a value. depth: levels of indentation around it (indented only)."""
    if isinstance(value, str):
        return spell_string(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | Decimal):
        return _spell_number(value)
    layout = Layout(spacing, depth)
    if isinstance(value, list):
        items = [spell(item, spacing, depth + 1) for item in value]
        opening, closing = "[", "]"
    else:
        items = [spell_string(k) + layout.colon + spell(v, spacing, depth + 1) for k, v in value.items()]
        opening, closing = "{", "}"
    if not items:
        return opening + closing
    return opening + layout.inside + layout.comma.join(items) + layout.outside + closing


class Layout:
    """The blanks of one container at `depth`: after the opening, around ':' and ',', before the closing. None where
    spacing is free."""

    def __init__(self, spacing: Spacing, depth: int) -> None:
        indented = spacing == "indented"
        self.inside = "\n" + "  " * (depth + 1) if indented else ""
        self.outside = "\n" + "  " * depth if indented else ""
        tight = spacing in ("compact", "any")
        self.colon = ":" if tight else ": "
        self.comma = "," + self.inside if indented else ("," if tight else ", ")


def depth_of(value: JsonValue) -> int:
    """Levels of containers; iterative."""
    deepest = 0
    stack = [(value, 1)]
    while stack:
        top, depth = stack.pop()
        if isinstance(top, _CONTAINERS):
            deepest = max(deepest, depth)
            stack.extend((item, depth + 1) for item in (top.values() if isinstance(top, dict) else top))
    return deepest
