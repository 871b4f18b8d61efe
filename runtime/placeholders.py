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


class SpecialStrings:
    """Immutable. Where a text holds one of the strings, or could with a neighbour's help."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings), default=0)
        self._beginnings = {text[:size] for text in self._strings for size in range(1, len(text))}
        self._endings = {text[-size:] for text in self._strings for size in range(1, len(text))}
        self._anywhere = re.compile("|".join(f"(?={re.escape(text)})" for text in self._strings) or "(?!)")
        self.alphabet = sorted(set("".join(self._strings)))

    def breaks(self, content: str) -> set[int]:
        """Positions such that, with their characters changed, no special string can be read in `content`, nor across
        its edges; also when the template trims white space there."""
        start = len(content) - len(content.lstrip())
        end = len(content.rstrip())
        places = {match.start() for match in self._anywhere.finditer(content)}
        for left, right in {(0, len(content)), (start, end), (0, end), (start, len(content))}:
            places |= self._edge_breaks(content, left, right)
        return places

    def _edge_breaks(self, content: str, left: int, right: int) -> set[int]:
        """A beginning of a special string at the right edge is broken at its first character, an ending of one at the
        left edge at its last, and an inner part that is the whole content at its first."""
        sizes = range(1, min(self._longest, right - left + 1))
        places = {right - size for size in sizes if content[right - size : right] in self._beginnings}
        places |= {left + size - 1 for size in sizes if content[left : left + size] in self._endings}
        if 0 < right - left < self._longest and any(content[left:right] in text for text in self._strings):
            places.add(left)
        return places


class Placeholders:
    """Those of one rendering. texts: everything that will be rendered, the template's source included."""

    def __init__(self, specials: SpecialStrings, texts: Iterable[str]) -> None:
        """Raises TemplateError in the odd case that the texts use all private-use characters."""
        self._specials = specials
        taken = {ord(char) for text in texts if not text.isascii() for char in text}
        free = (code for code in _PRIVATE_USE if code not in taken)
        self._hidden = {char: chr(code) for char, code in zip(specials.alphabet, free, strict=False)}
        if len(self._hidden) < len(specials.alphabet):
            raise TemplateError("the messages use all private-use characters", where="messages")
        self._shown = {ord(hidden): char for char, hidden in self._hidden.items()}

    def hide(self, content: str) -> str:
        places = self._specials.breaks(content)
        if not places:
            return content
        chars = list(content)
        for place in places:
            chars[place] = self._hidden[chars[place]]
        return "".join(chars)

    def show(self, text: str) -> str:
        return text.translate(self._shown)
