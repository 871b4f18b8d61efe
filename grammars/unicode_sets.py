"""The sets that `\\p{...}` names, from the Unicode tables of the Python that runs: general categories, and the binary
properties that these tables hold. Scripts are not among them.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from . import charset
from .charset import Ranges

_CATEGORIES = {
    "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter", "Lm": "Modifier_Letter",
    "Lo": "Other_Letter", "Mn": "Nonspacing_Mark", "Mc": "Spacing_Mark", "Me": "Enclosing_Mark",
    "Nd": "Decimal_Number", "Nl": "Letter_Number", "No": "Other_Number", "Pc": "Connector_Punctuation",
    "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation", "Pe": "Close_Punctuation", "Pi": "Initial_Punctuation",
    "Pf": "Final_Punctuation", "Po": "Other_Punctuation", "Sm": "Math_Symbol", "Sc": "Currency_Symbol",
    "Sk": "Modifier_Symbol", "So": "Other_Symbol", "Zs": "Space_Separator", "Zl": "Line_Separator",
    "Zp": "Paragraph_Separator", "Cc": "Control", "Cf": "Format", "Cs": "Surrogate", "Co": "Private_Use",
    "Cn": "Unassigned",
}
_GROUPS = {"L": "Letter", "M": "Mark", "N": "Number", "P": "Punctuation", "S": "Symbol", "Z": "Separator", "C": "Other"}
_OTHER_NAMES = {"LC": "Cased_Letter", "Nd": "digit", "P": "punct", "M": "Combining_Mark", "Cc": "cntrl"}
_CASED = ("Lu", "Ll", "Lt")
_WHITE_SPACE = charset.union(
    charset.ranges([(0x09, 0x0D), (0x2000, 0x200A)]), charset.chars(" \x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000"))
_SHORT = {"AHex": "ASCII_Hex_Digit", "Lower": "Lowercase", "Upper": "Uppercase", "space": "White_Space"}


def property_set(name: str) -> Ranges | None:
    """The characters of `\\p{name}`; None for a name that is not known here."""
    key, equals, value = name.partition("=")
    if equals:
        return _category(value) if key in ("General_Category", "gc") and _known(value) else None
    if _known(name):
        return _category(name)
    make = _BINARY.get(_SHORT.get(name, name))
    return make() if make else None


@lru_cache(maxsize=1)
def _names() -> dict[str, tuple[str, ...]]:
    """Names of categories -> the two-letter categories that they stand for."""
    names: dict[str, tuple[str, ...]] = {"LC": _CASED}
    for short, long in _CATEGORIES.items():
        names[short] = names[long] = (short,)
    for letter, long in _GROUPS.items():
        names[letter] = names[long] = tuple(short for short in _CATEGORIES if short[0] == letter)
    for short, other in _OTHER_NAMES.items():
        names[other] = names[short]
    return names


def _known(name: str) -> bool:
    return name in _names()


def _category(name: str) -> Ranges:
    return charset.union(*(_tables()[short] for short in _names()[name]))


@lru_cache(maxsize=1)
def _tables() -> dict[str, Ranges]:
    """One pass over all characters: runs of the same category."""
    runs: dict[str, list[tuple[int, int]]] = {short: [] for short in _CATEGORIES}
    start, current = 0, unicodedata.category("\0")
    for code in range(1, sys.maxunicode + 2):
        kind = unicodedata.category(chr(code)) if code <= sys.maxunicode else ""
        if kind != current:
            runs[current].append((start, code - 1))
            start, current = code, kind
    return {short: charset.ranges(pairs) for short, pairs in runs.items()}


@lru_cache(maxsize=8)
def _where(test: Callable[[str], bool]) -> Ranges:
    return charset.ranges((code, code) for low, high in charset.ALL for code in range(low, high + 1) if test(chr(code)))


_BINARY: dict[str, Callable[[], Ranges]] = {
    "Any": lambda: charset.ALL,
    "ASCII": lambda: charset.ranges([(0, 0x7F)]),
    "ASCII_Hex_Digit": lambda: charset.ranges([(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)]),
    "Assigned": lambda: charset.complement(_category("Cn")),
    "Lowercase": lambda: _where(str.islower),
    "Uppercase": lambda: _where(str.isupper),
    "White_Space": lambda: _WHITE_SPACE,
}
