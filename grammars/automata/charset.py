"""Sets of Unicode scalar values as sorted, disjoint, inclusive ranges. Surrogates belong to no set."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable
from itertools import chain

Ranges = tuple[tuple[int, int], ...]

ALL: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
EMPTY: Ranges = ()


def ranges(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Any inclusive pairs, sorted, merged and freed of surrogates."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return _without_surrogates(merged)


def _without_surrogates(pairs: list[tuple[int, int]]) -> Ranges:
    kept: list[tuple[int, int]] = []
    for low, high in pairs:
        if high < 0xD800 or low > 0xDFFF:
            kept.append((low, high))
            continue
        if low < 0xD800:
            kept.append((low, 0xD7FF))
        if high > 0xDFFF:
            kept.append((0xE000, high))
    return tuple(kept)


def chars(text: str) -> Ranges:
    """The characters of `text`."""
    return ranges((ord(c), ord(c)) for c in text)


def union(*sets: Ranges) -> Ranges:
    return ranges(pair for one in sets for pair in one)


def complement(one: Ranges) -> Ranges:
    """Every scalar value that is not in `one`."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in one:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return ranges(gaps)


def intersection(a: Ranges, b: Ranges) -> Ranges:
    return complement(union(complement(a), complement(b)))


def folded(one: Ranges) -> Ranges:
    """With each character all that are the same by Unicode's simple case folding (ECMA-262, Canonicalize with the flags
    i and u): a k is the Kelvin sign too, and a sigma the final one."""
    cases = _cases()
    if sum(high - low for low, high in one) < len(cases):
        met = [code for low, high in one for code in range(low, high + 1) if code in cases]
    else:
        starts = [low for low, _ in one]
        met = [code for code in cases if code >= starts[0] and code <= one[bisect_right(starts, code) - 1][1]]
    return ranges([*one, *((code, code) for some in met for code in cases[some])])


@functools.cache
def _cases() -> dict[int, tuple[int, ...]]:
    """Each character that has another one with the same simple case folding, and all of these."""
    same: dict[str, list[int]] = {}
    for code in chain(*(range(low, high + 1) for low, high in _CASED)):
        same.setdefault(_folding(chr(code)), []).append(code)
    return {code: tuple(codes) for codes in same.values() if len(codes) > 1 for code in codes}


def _folding(character: str) -> str:
    """Of the full foldings those of one character are simple ones; else what is lower case is."""
    known = _SIMPLE.get(character)
    whole = known or character.casefold()
    return whole if len(whole) == 1 else character.lower() if len(character.lower()) == 1 else character


# Simple foldings of small letters to each other (Unicode 15.1; Python tells the full ones).
_SIMPLE = {"\u1fd3": "\u0390", "\u1fe3": "\u03b0", "\ufb05": "\ufb06"}
# The scripts that have cases.
_CASED = ((0, 0x24FF), (0x2C00, 0x2D2F), (0xA640, 0xA7FF), (0xAB30, 0xABBF), (0xFB00, 0xFB06), (0xFF21, 0xFF5A),
          (0x10400, 0x105FF), (0x10C80, 0x10CFF), (0x10D50, 0x10D8F), (0x118A0, 0x118DF), (0x16E40, 0x16EDF),
          (0x1E900, 0x1E943))
DIGIT = ranges([(0x30, 0x39)])
WORD = ranges([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_END = chars("\n\r\u2028\u2029")
# ECMA-262 WhiteSpace and LineTerminator (TAB, VT, FF, SP, NBSP, ZWNBSP, USP).
SPACE = union(LINE_END, chars("\t\v\f \u00a0\u1680\u202f\u205f\u3000\ufeff"), ranges([(0x2000, 0x200A)]))
