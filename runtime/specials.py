"""Special tokens by name: which ones a constraint may name, and how an answer that holds them is shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import structs

from ..grammars.constraint import Constraint, Tags
from .words import TokenBytes, Words


def named_specials(words: Words) -> dict[str, int]:
    """Special tokens by the strings that templates call them by, without those that end an answer."""
    ids = sorted(frozenset(words.special_ids).difference(words.stop_ids))
    return {text: i for i in ids if (text := words.text_of_special(i))}


def naming_specials(constraint: Constraint, names: Collection[str]) -> Constraint:
    """Tags whose delimiters hold special tokens, told so."""
    if not isinstance(constraint, Tags):
        return constraint
    delimiters = [text for tag in constraint.tags for text in (tag.begin, tag.end)]
    held = sorted(name for name in names if any(name in text for text in delimiters))
    return structs.replace(constraint, specials=tuple(held))


class Shown:
    """token_bytes with special tokens as their strings: what an answer in which a grammar asked for them is read as."""

    def __init__(self, token_bytes: TokenBytes, specials: Mapping[str, int]) -> None:
        self._token_bytes = token_bytes
        self._specials = {token: text.encode() for text, token in specials.items()}

    def __getitem__(self, token: int) -> bytes:
        return self._specials.get(token) or self._token_bytes[token]
