"""Keeps special tokens that stand in a message's text apart from those that the chat template writes.

Before rendering, one character of each special string in a content is swapped for a private-use character that stands
nowhere else; after the special strings of the rendered text are found, it is swapped back. One character for one:
trimming or slicing by the template cannot cut a placeholder. A content's edges are treated too, where it could make a
special string together with its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import TemplateError

_PRIVATE_USE = (*range(0xF0000, 0xFFFFE), *range(0x100000, 0x10FFFE))


class Placeholders:
    """specials: the strings to keep apart. texts: everything that will be rendered, the template's source included."""

    def __init__(self, specials: Iterable[str], texts: Iterable[str]) -> None:
        """Raises TemplateError in the odd case that the texts use all private-use characters."""
        self._specials = tuple(specials)
        taken = {ord(char) for text in texts if not text.isascii() for char in text}
        free = (code for code in _PRIVATE_USE if code not in taken)
        alphabet = sorted(set("".join(self._specials)))
        self._hidden = {char: chr(code) for char, code in zip(alphabet, free, strict=False)}
        if len(self._hidden) < len(alphabet):
            raise TemplateError("the messages use all private-use characters", where="messages")
        self._shown = {ord(hidden): char for char, hidden in self._hidden.items()}
        self._anywhere = re.compile("|".join(f"(?={re.escape(special)})" for special in self._specials) or "(?!)")

    def hide(self, content: str) -> str:
        """`content` in which, and with whose edges, no special string can be read."""
        places = {match.start() for match in self._anywhere.finditer(content)} | self._edges(content)
        if not places:
            return content
        chars = list(content)
        for place in places:
            chars[place] = self._hidden[chars[place]]
        return "".join(chars)

    def show(self, text: str) -> str:
        return text.translate(self._shown)

    def _edges(self, content: str) -> set[int]:
        """Where to break a beginning of a special string at the end, an end of one at the beginning, or an inner part
        that is the whole content; with and without the white space that templates like to trim."""
        start = len(content) - len(content.lstrip())
        end = len(content.rstrip())
        places: set[int] = set()
        for left, right in {(0, len(content)), (start, end), (0, end), (start, len(content))}:
            places |= self._edges_of(content, left, right)
        return places

    def _edges_of(self, content: str, left: int, right: int) -> set[int]:
        places: set[int] = set()
        for special in self._specials:
            for size in range(1, min(len(special), right - left + 1)):
                if content.endswith(special[:size], left, right):
                    places.add(right - size)
                if content.startswith(special[-size:], left, right):
                    places.add(left + size - 1)
            if 0 < right - left < len(special) and content[left:right] in special:
                places.add(left)
        return places
