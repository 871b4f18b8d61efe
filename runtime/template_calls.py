"""How a chat template writes calls of functions, learned from a rendering of one and of two calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..grammars.constraint import Spacing
from .call_format import CallFormat
from .conversation import Call, Message, Tool
from .errors import TemplateError, TemplateLimit

RenderCalls = Callable[[Sequence[Message], bool, Sequence[Tool]], str]
"""Messages, whether to open the assistant's answer, and tools -> the template's text."""

_SPACINGS: dict[str, Spacing] = {'{"%s": "%s"}': "spaced", '{"%s":"%s"}': "compact"}


def learn_calls(render: RenderCalls, closing: str, mark: str) -> CallFormat | None:
    """closing: what the template writes after a message of the assistant. mark: a word that the template does not hold.

    None when the template tells no functions, or writes calls in another way than name, arguments as JSON, end."""
    try:
        return _Learner(render, closing, mark).learn()
    except TemplateLimit:
        raise
    except TemplateError:
        return None


class _Learner:
    def __init__(self, render: RenderCalls, closing: str, mark: str) -> None:
        self._render = render
        self._closing = closing
        self._question = Message("user", f"{mark}q")
        self._result = f"{mark}r"
        self._id = f"{mark}i"
        self._key, self._value = f"{mark}k", f"{mark}v"
        self._names = (f"{mark}f", f"{mark}g")
        schema = {"type": "object", "properties": {self._key: {"type": "string"}}, "required": [self._key]}
        self._tools = [Tool(name, f"{mark}d", json.dumps(schema)) for name in self._names]

    def learn(self) -> CallFormat | None:
        asked = self._render([self._question], True, self._tools)
        if not all(word in asked for word in (*self._names, self._tools[0].description, self._key)):
            return None
        one = self._answer(asked, self._names[:1])
        found = None if one is None else self._read(one)
        if found is None:
            return None
        return self._with_more(found, asked)

    def _answer(self, asked: str, names: Sequence[str]) -> str | None:
        """What follows the question: the calls, the closing, the results."""
        arguments = json.dumps({self._key: self._value})
        calls = tuple(Call(f"{self._id}{at}", name, arguments) for at, name in enumerate(names))
        results = [Message("tool", self._result, answers=call) for call in calls]
        whole = self._render([self._question, Message("assistant", "", calls), *results], False, self._tools)
        return whole[len(asked):] if whole.startswith(asked) and self._result in whole else None

    def _read(self, answer: str) -> CallFormat | None:
        before, name, rest = answer.partition(self._names[0])
        for pattern, spacing in _SPACINGS.items():
            middle, arguments, tail = rest.partition(pattern % (self._key, self._value))
            end, closed, _ = tail.partition(self._closing)
            if not (name and arguments and closed and self._closing):
                continue
            parts = (before, middle, end)
            if before.strip() and middle and not any(self._id in part or self._result in part for part in parts):
                return CallFormat(before.lstrip(), middle, end, None, spacing, told=True)
        return None

    def _with_more(self, found: CallFormat, asked: str) -> CallFormat:
        """With what stands between two calls, where the template takes two."""
        try:
            answer = self._answer(asked, self._names)
        except TemplateError:
            answer = None
        first = found.begin(self._names[0]) + self._written(found)
        _, has_first, rest = (answer or "").partition(first)
        between, has_second, _ = rest.partition(found.begin(self._names[1]))
        if not has_first or not has_second or self._closing in between or self._id in between:
            return found
        return CallFormat(found.before, found.middle, found.end, between, found.spacing, told=True)

    def _written(self, found: CallFormat) -> str:
        pattern = next(pattern for pattern, spacing in _SPACINGS.items() if spacing == found.spacing)
        return pattern % (self._key, self._value) + found.end
