"""The text of a branch as a chain of shared parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextChain:
    """Immutable: appending makes a new end and shares the rest, so that a fork is O(1)."""

    before: TextChain | None = None
    text: str = ""

    def append(self, text: str) -> TextChain:
        return TextChain(self, text) if text else self

    def whole(self) -> str:
        parts: list[str] = []
        chain: TextChain | None = self
        while chain is not None:
            parts.append(chain.text)
            chain = chain.before
        return "".join(reversed(parts))
