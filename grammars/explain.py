"""What may come next, in words: "expected ',', '0'..'9' or '}' in integer at #/properties/age"."""

from __future__ import annotations

from collections.abc import Sequence

_ASCII_END, _LEAD, _LEADS = 0x80, 0xC2, bytes(range(0xC2, 0xF5))
_LONGEST = 40  # characters of a text that are shown


def expected(allowed: bytes, text: bytes, others: Sequence[str], places: Sequence[str]) -> str:
    """allowed: the bytes that may come next, in order. text: what every continuation begins with, b"" where there is a
    choice. others: what may come that is no text. places: the rules that would go on."""
    shared = text.decode("utf-8", "ignore")
    options = [_shown(shared)] if shared and not others else [*_characters(allowed), *others]
    *most, last = options or ["nothing"]
    listed = f"{', '.join(most)} or {last}" if most else last
    return f"expected {listed} in {' or '.join(places)}"


def place(name: str, pointer: str) -> str:
    """A rule by its name, and by its pointer unless the name tells it."""
    name = name.lstrip("%")
    return f"{name} ({pointer})" if pointer and not name.endswith(f"at {pointer}") else name


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}..."


def _characters(allowed: bytes) -> list[str]:
    """Bytes as readable ranges of characters; of those above ASCII only whether there are some."""
    ranges: list[list[int]] = []
    for byte in allowed:
        if byte >= _ASCII_END:
            break
        if ranges and ranges[-1][1] == byte - 1:
            ranges[-1][1] = byte
        else:
            ranges.append([byte, byte])
    found = [repr(chr(low)) if low == high else f"{chr(low)!r}..{chr(high)!r}" for low, high in ranges]
    above = bytes(byte for byte in allowed if byte >= _ASCII_END)
    if above:
        kind = "the rest of a character" if above[0] < _LEAD else (
            "any character above ASCII" if above == _LEADS else "some characters above ASCII")
        found.append(kind)
    return found
