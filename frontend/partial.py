"""What JSON text says so far: the value of an answer that is still being written."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from .errors import ProgramError

_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_HIGH, _LOW = re.compile(r"\\u[dD][89abAB]"), re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_RUN = re.compile(r'[^"\\\x00-\x1f]+')
_SPACE = re.compile(r"[ \t\n\r]+")
_ATOM = re.compile(r"[-+.\w]+")
_WORDS = {"true": True, "false": False, "null": None}


class _Open:
    """A list or object that is still open. key: the one whose value comes or came last."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = ""

    def put(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value[self.key] = value

    def replace(self, value: Any) -> None:
        """In the place of the one that was put last."""
        self.value[-1 if isinstance(self.value, list) else self.key] = value


class Partial(ABC):
    """Fed a text in pieces, wherever it is cut."""

    _fed = 0

    @property
    @abstractmethod
    def value(self) -> Any:
        """What the text so far says."""

    def feed(self, piece: str) -> bool:
        """Whether the value changed. Raises ProgramError where the text is none of its kind."""
        self._fed += len(piece)
        return self._take(piece)

    def finish(self, whole: str) -> bool:
        """The whole text is known, of which perhaps not all was fed. Whether the value changed."""
        return self._take(whole[self._fed:], last=True)

    @abstractmethod
    def _take(self, piece: str, *, last: bool = False) -> bool: ...


class PartialText(Partial):
    """The text itself."""

    def __init__(self) -> None:
        self._text = ""

    @property
    def value(self) -> str:
        return self._text

    def _take(self, piece: str, *, last: bool = False) -> bool:
        self._text += piece
        return bool(piece)


class PartialJson(Partial):
    """The value of a JSON text.

    A string that is open stands with its text so far, less an escape that is cut; lists and objects stand from their
    first character; numbers and words when they are complete, which a number is known to be when something follows it
    or the text is finished. A key stands when its value does.
    """

    def __init__(self) -> None:
        self._text = ""  # from a token that is cut on
        self._at = 0
        self._open = [_Open([])]  # the first holds the whole
        self._read: Callable[[], bool] = self._value
        self._string: list[str] = []
        self._finished = False
        self._changed = False

    @property
    def value(self) -> Any:
        """A copy as far as it can still grow; finished parts are shared by all copies. None before it has begun."""
        inner: list[Any] = []
        for part in reversed(self._open):
            whole = part.value.copy()
            if inner:
                whole[-1 if isinstance(whole, list) else part.key] = inner[0]
            inner = [whole]
        return inner[0][0] if inner[0] else None

    def _take(self, piece: str, *, last: bool = False) -> bool:
        self._text, self._at = self._text[self._at:] + piece, 0
        self._finished, self._changed = last, False
        while self._at < len(self._text) and self._read():
            pass
        return self._changed

    # Each reads one token, or returns False where it is cut.

    def _peek(self) -> str:
        """The next character that is no space; "" at the end."""
        if space := _SPACE.match(self._text, self._at):
            self._at = space.end()
        return self._text[self._at:self._at + 1]

    def _value(self) -> bool:
        first = self._peek()
        if first == '"':
            return self._begin_string(self._in_string, "")
        if first in ("[", "{"):
            self._at += 1
            self._put([] if first == "[" else {})
            self._open.append(_Open(self._last()))
            self._read = self._first_item if first == "[" else self._first_key
            return True
        return self._atom() if first else False

    def _atom(self) -> bool:
        found = _ATOM.match(self._text, self._at)
        text = found[0] if found else self._text[self._at]
        if text not in _WORDS and found and found.end() == len(self._text) and not self._finished:
            return False
        try:
            value = _WORDS[text] if text in _WORDS else json.loads(text, parse_constant=self._refuse)
        except json.JSONDecodeError:
            self._refuse(text)
        self._at += len(text)
        self._put(value)
        self._read = self._after
        return True

    def _first_item(self) -> bool:
        return self._close() if self._peek() == "]" else self._value()

    def _first_key(self) -> bool:
        return self._close() if self._peek() == "}" else self._key()

    def _key(self) -> bool:
        following = self._peek()
        if following not in ('"', ""):
            self._refuse(following)
        return bool(following) and self._begin_string(self._in_key, None)

    def _colon(self) -> bool:
        return self._expect(":", self._value)

    def _after(self) -> bool:
        """What follows a value: a comma, or the end of what holds it."""
        following = self._peek()
        holder = self._open[-1].value
        if following == ("]" if isinstance(holder, list) else "}") and len(self._open) > 1:
            return self._close()
        if following and len(self._open) == 1:
            self._refuse(following)
        return self._expect(",", self._value if isinstance(holder, list) else self._key)

    def _expect(self, character: str, then: Callable[[], bool]) -> bool:
        following = self._peek()
        if following not in (character, ""):
            self._refuse(following)
        self._at += len(following)
        self._read = then if following else self._read
        return bool(following)

    def _close(self) -> bool:
        self._at += 1
        self._open.pop()
        self._read = self._after
        return True

    # Strings

    def _begin_string(self, read: Callable[[], bool], put: str | None) -> bool:
        self._at += 1
        self._string = []
        self._read = read
        if put is not None:
            self._put(put)
        return True

    def _in_string(self) -> bool:
        before = len(self._string)
        whole = self._characters()
        if len(self._string) > before:
            self._open[-1].replace("".join(self._string))
            self._changed = True
        if whole:
            self._read = self._after
        return whole

    def _in_key(self) -> bool:
        if not self._characters():
            return False
        self._open[-1].key = "".join(self._string)
        self._read = self._colon
        return True

    def _characters(self) -> bool:
        """Reads on in a string; whether its end was read."""
        while self._at < len(self._text):
            if run := _RUN.match(self._text, self._at):
                self._string.append(run[0])
                self._at = run.end()
            elif self._text[self._at] == '"':
                self._at += 1
                return True
            elif not self._escape():
                return False
        return False

    def _escape(self) -> bool:
        text, at = self._text, self._at
        found = _ESCAPE.match(text, at)
        if found is None:
            if text[at] != "\\" or len(text) - at >= 6 or self._finished:
                self._refuse(text[at:at + 6])
            return False
        end = found.end()
        if _HIGH.match(text, at):
            rest = text[end:end + 6]
            if len(rest) < 6 and "\\u".startswith(rest[:2]) and not self._finished:
                return False
            end += 6 * bool(_LOW.match(rest))
        self._string.append(json.loads(f'"{text[at:end]}"'))
        self._at = end
        return True

    # The value

    def _put(self, value: Any) -> None:
        self._open[-1].put(value)
        self._changed = True

    def _last(self) -> Any:
        holder = self._open[-1]
        return holder.value[-1 if isinstance(holder.value, list) else holder.key]

    @staticmethod
    def _refuse(text: str) -> Any:
        raise ProgramError(f"the answer is no JSON at {text!r}", fix="Read its text instead.")
