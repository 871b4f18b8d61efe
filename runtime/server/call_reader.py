"""The text of an answer with calls, read as it comes: what is content, and which function is called with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..call_format import CallFormat


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Begun:
    """Call `index` is of the function `name`; its arguments follow."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the arguments of call `index`."""

    index: int
    text: str


News = Content | Begun | Arguments
_State = Literal["content", "name", "arguments", "plain"]


class CallReader:
    """Reads what the constraint of a CallFormat lets through; white space between content and calls is dropped."""

    def __init__(self, calls: CallFormat, *, whole: bool = False) -> None:
        """whole: an answer that does not begin with a call is content, whatever it holds."""
        self._calls = calls
        self._whole = whole
        self._text = ""  # not told yet
        self._state: _State = "content"
        self._object = _ObjectEnd()
        self.count = 0

    def push(self, text: str) -> list[News]:
        self._text += text
        news: list[News] = []
        while self._step(news):
            pass
        return news

    def finish(self) -> list[News]:
        """No text follows: what was held because a call might have followed is content."""
        held, self._text = self._text, ""
        return [Content(held)] if held and self.count == 0 and self._state == "content" else []

    def _step(self, news: list[News]) -> bool:
        """Whether there may be more to say."""
        match self._state:
            case "content":
                return self._content(news)
            case "name":
                return self._name(news)
            case "plain":
                return self._all(news)
            case _:
                return self._arguments(news)

    def _content(self, news: list[News]) -> bool:
        if self._whole and self.count == 0 and not self._calls.before.startswith(self._text[:len(self._calls.before)]):
            return self._all(news)
        before, found, after = self._text.partition(self._calls.before)
        if found:
            self._say(news, before.rstrip())
            self._text, self._state = after, "name"
            return True
        told = len(self._text) - _held(self._text, self._calls.before)
        told = len(self._text[:told].rstrip())
        self._say(news, self._text[:told])
        self._text = self._text[told:]
        return False

    def _all(self, news: list[News]) -> bool:
        """No call can begin any more."""
        self._say(news, self._text)
        self._text, self._state = "", "plain"
        return False

    def _say(self, news: list[News], text: str) -> None:
        """Between calls and behind them nothing is content."""
        if text and self.count == 0:
            news.append(Content(text))

    def _name(self, news: list[News]) -> bool:
        name, found, after = self._text.partition(self._calls.middle)
        if not found:
            return False
        news.append(Begun(self.count, name))
        self.count += 1
        self._text, self._state, self._object = after, "arguments", _ObjectEnd()
        return True

    def _arguments(self, news: list[News]) -> bool:
        size = self._object.push(self._text)
        if size:
            news.append(Arguments(self.count - 1, self._text[:size]))
            self._text = self._text[size:]
        if not self._object.closed:
            return False
        self._state = "content"  # the end of the call is dropped there
        return True


class _ObjectEnd:
    """Where the JSON object that begins a text ends."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = self.closed = False

    def push(self, text: str) -> int:
        """How many characters of the text still belong to it."""
        for at, char in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = char == "\\", char != '"'
            elif char == '"':
                self._quoted = True
            elif char in "{[":
                self._depth += 1
            elif char in "]}":
                self._depth -= 1
                if self._depth == 0:
                    self.closed = True
                    return at + 1
        return len(text)


def _held(text: str, pattern: str) -> int:
    """Characters at the end of the text that may begin the pattern."""
    most = min(len(text), len(pattern) - 1)
    return next((size for size in range(most, 0, -1) if text.endswith(pattern[:size])), 0)
