"""What a tokenizer makes of a text before it cuts it into tokens: letters composed, a space put in front."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers.normalizers import NFC

from .words import Place

SPACE_MARK = "\u2581"  # how SentencePiece spells a space

@dataclass(frozen=True, slots=True)
class TextChanges:
    """composed: by Unicode's NFC, as the library's tables have it. spaced: places where a text gets a space in front.
    doubled: also one that begins with a space."""

    composed: bool = False
    spaced: frozenset[Place] = frozenset()
    doubled: bool = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self.composed or bool(self.spaced)

    def applied(self, text: str, place: Place) -> str:
        """text: no lone surrogates."""
        if self.composed:
            text = NFC().normalize_str(text)
        if not text or place not in self.spaced or (not self.doubled and text.startswith((" ", SPACE_MARK))):
            return text
        return " " + text


NO_CHANGES = TextChanges()
COMPOSED = TextChanges(composed=True)
