"""Sets of Unicode scalar values as sorted, disjoint, inclusive ranges. Surrogates belong to no set."""

from __future__ import annotations

from collections.abc import Iterable

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
    """With each letter also its lower and upper case, where that is one character."""
    found = list(one)
    for low, high in one:
        for code in range(low, min(high, _LAST_CASED) + 1):
            for variant in (chr(code).lower(), chr(code).upper()):
                if len(variant) == 1 and variant != chr(code):
                    found.append((ord(variant), ord(variant)))
    return ranges(found)


_LAST_CASED = 0x1E943  # Adlam, the last script with cases
DIGIT = ranges([(0x30, 0x39)])
WORD = ranges([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
LINE_END = chars("\n\r\u2028\u2029")
# ECMA-262 WhiteSpace and LineTerminator (TAB, VT, FF, SP, NBSP, ZWNBSP, USP).
SPACE = union(LINE_END, chars("\t\v\f \u00a0\u1680\u202f\u205f\u3000\ufeff"), ranges([(0x2000, 0x200A)]))
