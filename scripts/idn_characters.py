"""What the characters of international host names are, from Unicode's data: RFC 5892, the Bidi rule, NFC."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from espalier.grammars.automata.unicode_tables import property_set

# What of Unicode every supported Python knows.
VERSION = "14.0.0"
_LEFT_SCRIPTS = (
    "Armn", "Beng", "Bopo", "Cyrl", "Deva", "Ethi", "Geor", "Grek", "Gujr", "Guru", "Hang", "Hani", "Hira", "Kana",
    "Knda", "Khmr", "Laoo", "Latn", "Mlym", "Mymr", "Orya", "Sinh", "Taml", "Telu", "Thai", "Tibt", "Zyyy", "Zinh",
)
_RIGHT_SCRIPTS = ("Arab", "Hebr", "Thaa")
_DOTS = ".\u3002\uff0e\uff61"
# RFC 5892, 2.6, without those that have a rule of their own or are beyond the scripts.
_PVALID = set("\u00df\u03c2\u06fd\u06fe\u0f0b\u3007")
_DISALLOWED = set("\u0640\u07fa\u302e\u302f\u3031\u3032\u3033\u3034\u3035\u303b")
_IGNORED_BLOCKS = (range(0x20D0, 0x2100), range(0x1D100, 0x1D250))
_OLD_HANGUL = (range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xD7B0, 0xD800))
# ArabicShaping: the letters of the block Arabic that join to the right only, or to neither side.
_RIGHT_JOINING = {*range(0x622, 0x626), 0x627, 0x629, *range(0x62F, 0x633), 0x648, *range(0x671, 0x674), 0x675, 0x676,
                  0x677, *range(0x688, 0x69A), 0x6C0, *range(0x6C3, 0x6CC), 0x6CD, 0x6CF, 0x6D2, 0x6D3, 0x6D5, 0x6EE,
                  0x6EF}
_UNJOINED = {0x621, 0x674}


def _members(names: Iterable[str]) -> set[int]:
    return {code for name in names for low, high in property_set(name) or () for code in range(low, high + 1)}


def _valid(code: int, ignored: set[int]) -> bool:
    """Whether the derived property of a character beyond ASCII is PVALID (RFC 5892, section 3)."""
    char = chr(code)
    if char in _PVALID or char in _DISALLOWED:
        return char in _PVALID
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    if folded != char or code in ignored or any(code in block for block in (*_IGNORED_BLOCKS, *_OLD_HANGUL)):
        return False
    return unicodedata.category(char) in ("Ll", "Lo", "Lm", "Mn", "Mc", "Nd")


def _compositions() -> tuple[set[int], set[int]]:
    """The characters that begin, and that end, a primary composite."""
    first, second = set(), set()
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and "<" not in parts[0]:
            a, b = (int(part, 16) for part in parts)
            if unicodedata.normalize("NFC", chr(a) + chr(b)) == chr(code):
                first.add(a)
                second.add(b)
    return first, second


class CharacterClasses:
    """The class of each character; of left-to-right ones a letter, then a script. Behind C no marks stand, behind K
    none that compose with some character."""

    def __init__(self) -> None:
        self._ignored = _members(["Default_Ignorable_Code_Point", "White_Space", "Noncharacter_Code_Point"])
        self._left = _members(f"Script={name}" for name in _LEFT_SCRIPTS)
        self._right = _members(f"Script={name}" for name in _RIGHT_SCRIPTS)
        self._hebrew, self._greek = _members(["Script=Hebr"]), _members(["Script=Grek"])
        self._japanese = _members(["Script=Hira", "Script=Kana", "Script=Hani"])
        self._first, self._second = _compositions()
        self.ranges = self._all()

    def _all(self) -> list[tuple[int, int, str]]:
        found = {**dict.fromkeys(range(0x61, 0x7B), "a"), **dict.fromkeys(range(0x41, 0x5B), "A"),
                 **dict.fromkeys(range(0x30, 0x3A), "0"), 0x2D: "-", ord("l"): "l", 0xB7: "middle",
                 0x375: "keraia", 0x30FB: "dot of katakana", 0x200C: "non-joiner", 0x200D: "joiner",
                 0x5F3: "geresh", 0x5F4: "geresh", **{ord(dot): "." for dot in _DOTS}}
        for code in range(0x80, 0x10000):
            if code not in found and not 0xD800 <= code < 0xE000:
                kind = self._kind(code)
                if kind:
                    found[code] = kind
        ordered = sorted(found)
        runs = groupby(enumerate(ordered), lambda pair: (pair[1] - pair[0], found[pair[1]]))
        return [(codes[0], codes[-1], kind) for (_, kind), group in runs for codes in [[code for _, code in group]]]

    def _kind(self, code: int) -> str:
        if 0x660 <= code <= 0x669:
            return "arabic digit"
        if 0x6F0 <= code <= 0x6F9:
            return "extended digit"
        if not _valid(code, self._ignored):
            return ""
        char = chr(code)
        bidi, mark = unicodedata.bidirectional(char), unicodedata.category(char)[0] == "M"
        if bidi in ("R", "AL") or (mark and 0x591 <= code < 0x7C0):
            return self._right_kind(code, mark) if code in self._right or mark else ""
        if code not in self._left or bidi not in ("L", "EN", "ES", "CS", "ET", "ON", "NSM"):
            return ""
        if code < 0x250:
            return "latin"
        return self._mark(code) if mark else self._letter(code)

    def _right_kind(self, code: int, mark: bool) -> str:
        if mark:
            return "" if code in self._second else "right mark"
        if code in self._hebrew:
            return "hebrew"
        if not 0x620 <= code < 0x700 or code in _UNJOINED or unicodedata.category(chr(code)) != "Lo":
            return "right"
        return "right-joining" if code in _RIGHT_JOINING else "joining"

    def _letter(self, code: int) -> str:
        script = " greek" if code in self._greek else " japanese" if code in self._japanese else ""
        last = unicodedata.normalize("NFD", chr(code))[-1]
        if unicodedata.combining(last):
            return "C" + script  # a mark behind it might have to stand before its own
        return ("K" if code in self._first else "I") + script

    def _mark(self, code: int) -> str:
        order = unicodedata.combining(chr(code))
        if order == 0:
            return ("composing " if code in self._second else "sign ") + self._letter(code)[0]
        kind = {9: "virama", 103: "103", 107: "107", 118: "118", 122: "122"}.get(order, "mark")
        if code in self._second:
            return "composing virama" if kind == "virama" else "composing mark"
        return kind
