"""International host names as an automaton, from Unicode's data: what RFC 5890 to 5893 (IDNA2008) ask of a label, as
far as states can tell.

Narrowed where they cannot, so that every name that is accepted is one. Characters are those of the Basic Multilingual
Plane in the scripts in common use (UAX 31, table 5). NFC: at most one mark behind a character (Thai and Lao: two), a
mark that composes with some characters only behind one that composes with none. 63 octets: at most 14 characters in a
label, or 40 of which at most 3 are Latin letters beyond ASCII, which no Punycode makes longer. Beside labels that are
written from right to left only such and ASCII stand. Joiners stand behind a virama, or between letters of Arabic.
No A-labels.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from espalier.grammars.automata.dfa import Dfa, combine, explore, trim
from espalier.grammars.automata.minimise import minimise
from espalier.grammars.limits import Meter
from espalier.grammars.regular.regex import compile_regex
from espalier.grammars.schemas.formats import ADDRESS, IDN_LOCAL

from .idn_characters import VERSION, CharacterClasses

_ASCII, _CHARACTERS, _LATIN_CHARACTERS, _LATIN_LETTERS = 63, 14, 40, 3


class _Label(NamedTuple):
    """Where a text is. names: "any" as yet, "left" where a label breaks the Bidi rule, "right" where one is written
    from right to left. kind: of the label, "" before it. last: what its last character was. more: of ASCII, whether an
    international label may begin so; of Latin, its letters beyond ASCII; from right to left, its sort of digits."""

    names: str
    kind: str = ""
    length: int = 0
    last: str = ""
    more: str | int = ""


_ENDS = ("C", "K", "I", "virama", "mark", "103", "118")
_HIGHER = {"103": ("107", "118", "122"), "118": ("122",)}


def _left(last: str, kind: str) -> str:
    """What the last character of a label from left to right is, behind one more; "" where that may not come."""
    base = kind.partition(" ")[0]
    if last in ("greek", "japanese"):  # what must follow a keraia, or a dot of Katakana
        return base if kind.endswith(last) else ""
    if base in ("C", "K", "I") or kind == "extended digit":
        return "I" if kind == "extended digit" else base
    if kind in ("a", "l", "0"):
        return "C"
    if kind in ("keraia", "dot of katakana"):
        return "greek" if kind == "keraia" else "japanese"
    if kind == "-":
        return "hyphen" if last in _ENDS else ""
    if kind in ("non-joiner", "joiner"):
        return "joiner" if last == "virama" else ""
    if last not in _ENDS or last == "C":
        return ""
    if base == "sign":
        return kind[-1]
    if base == "composing":
        return "" if last != "I" else {"mark": "mark", "virama": "virama"}.get(kind[10:], kind[-1])
    if kind not in ("mark", "virama", "103", "107", "118", "122"):
        return ""
    allowed = last in ("K", "I") or kind in _HIGHER.get(last, ())
    return ("mark" if kind in ("107", "122") else kind) if allowed else ""


def _right(last: str, digits: str, kind: str) -> tuple[str, str] | None:
    """As _left, of a label from right to left, with the digits that it has: EN, AN or none."""
    if last == "non-joiner" and kind not in ("joining", "right-joining"):
        return None
    if kind in ("hebrew", "right", "right-joining", "joining"):
        return kind if kind in ("hebrew", "joining") else "right", digits
    if last == "":
        return None
    if kind in ("0", "extended digit", "arabic digit"):
        sort = "AN" if kind == "arabic digit" else "EN"
        return ("digit", sort) if digits in ("", sort) else None
    letter = last in ("hebrew", "right", "joining")
    if kind == "right mark" and letter:
        return "mark", digits
    if kind == "geresh" and last == "hebrew":
        return "right", digits
    if kind == "non-joiner" and last == "joining":
        return "non-joiner", digits
    return ("hyphen", digits) if kind == "-" and last != "hyphen" else None


class _Names:
    """The states of host names, by classes of characters."""

    def __init__(self) -> None:
        self._ranges = CharacterClasses().ranges
        self._kinds = sorted({kind for _, _, kind in self._ranges})

    def step(self, state: _Label) -> Iterable[tuple[int, int, _Label]]:
        after = {kind: self._after(state, kind) for kind in self._kinds}
        merged: list[tuple[int, int, _Label]] = []
        for low, high, kind in self._ranges:
            follower = after[kind]
            if follower is not None and merged and merged[-1][1] + 1 == low and merged[-1][2] == follower:
                merged[-1] = merged[-1][0], high, follower
            elif follower is not None:
                merged.append((low, high, follower))
        return merged

    @staticmethod
    def final(state: _Label) -> bool:
        return {"": False, "ascii": state.last != "hyphen", "latin": state.last in ("letter", "l"),
                "left": state.last in _ENDS,
                "right": state.last not in ("hyphen", "non-joiner")}[state.kind]

    def _after(self, state: _Label, kind: str) -> _Label | None:
        if kind == ".":
            return _Label(state.names) if self.final(state) else None
        followers = {"": self._after_start, "ascii": self._after_ascii, "latin": self._after_latin,
                     "left": self._after_left, "right": self._after_right}
        return followers[state.kind](state, kind)

    def _after_start(self, state: _Label, kind: str) -> _Label | None:
        if kind in ("a", "l", "A", "0"):
            if kind == "0" and state.names == "right":
                return None
            names = "left" if kind == "0" else state.names  # a digit may not begin a label where the Bidi rule holds
            clean = kind != "A" and names != "right"
            return _Label(names, "ascii", 1, "l" if kind == "l" and clean else "letter", "clean" if clean else "")
        if kind == "latin" and state.names != "right":
            return _Label("left", "latin", 1, "letter", 1)
        last = _left("", kind) if state.names != "right" else ""
        if last not in ("", "hyphen", "joiner"):
            return _Label("left", "left", 1, last)
        found = _right("", "", kind) if state.names != "left" else None
        return None if found is None else _Label("right", "right", 1, *found)

    def _after_ascii(self, state: _Label, kind: str) -> _Label | None:
        length, clean = state.length + 1, state.more == "clean"
        if kind in ("a", "l", "A", "0", "-"):
            double = kind == "-" and state.last == "hyphen"
            if length > _ASCII or (double and length == 4):
                return None
            clean = clean and kind != "A" and not double and length <= _LATIN_CHARACTERS
            last = "hyphen" if kind == "-" else "l" if kind == "l" and clean else "letter"
            return _Label(state.names, "ascii", length, last, "clean" if clean else "")
        if not clean:
            return None
        if kind in ("latin", "middle"):
            return self._after_latin(state._replace(names="left", more=0), kind)
        return self._after_left(
            state._replace(names="left", last="hyphen" if state.last == "hyphen" else "C", more=""), kind)

    @staticmethod
    def _after_latin(state: _Label, kind: str) -> _Label | None:
        length, letters = state.length + 1, int(state.more) + (kind in ("latin", "middle"))
        if length > _LATIN_CHARACTERS or letters > _LATIN_LETTERS or (state.last == "middle" and kind != "l"):
            return None
        if kind in ("a", "0", "latin", "l"):
            return _Label("left", "latin", length, "l" if kind == "l" else "letter", letters)
        if kind == "middle" and state.last == "l":
            return _Label("left", "latin", length, "middle", letters)
        return _Label("left", "latin", length, "hyphen", letters) if kind == "-" and state.last != "hyphen" else None

    @staticmethod
    def _after_left(state: _Label, kind: str) -> _Label | None:
        last = _left(state.last, kind)
        return _Label("left", "left", state.length + 1, last) if last and state.length < _CHARACTERS else None

    @staticmethod
    def _after_right(state: _Label, kind: str) -> _Label | None:
        found = _right(state.last, str(state.more), kind) if state.length < _CHARACTERS else None
        return None if found is None else _Label("right", "right", state.length + 1, *found)


def idn_mail(hosts: Dfa, meter: Meter) -> Dfa:
    """Mail addresses with these hosts (RFC 6531)."""
    local = compile_regex(f"{IDN_LOCAL}@", meter)
    domain = minimise(combine([hosts, compile_regex(ADDRESS, meter)], any, meter))
    rows = [*local.edges, *(tuple((low, high, target + len(local.edges)) for low, high, target in row)
                            for row in domain.edges)]
    for end in local.finals:  # nothing follows the @ in it
        rows[end] = rows[len(local.edges)]
    return minimise(trim(Dfa(tuple(rows), frozenset(final + len(local.edges) for final in domain.finals))))


def idn_hosts(meter: Meter) -> Dfa:
    """Raises SystemExit under a Python whose Unicode is another."""
    if unicodedata.unidata_version != VERSION:
        raise SystemExit(f"these tables are made with Unicode {VERSION}, that of Python 3.11")
    names = _Names()
    return minimise(trim(explore(_Label("any"), names.step, names.final, meter)))
