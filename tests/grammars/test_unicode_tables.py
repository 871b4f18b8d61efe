"""The shipped Unicode tables: what Python's own tables say, and what only they hold."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from espalier.grammars.automata import charset
from espalier.grammars.automata.unicode_tables import property_set, unicode_version

CODES = [code for low, high in charset.ALL for code in range(low, high + 1)]
# Characters that a version of Unicode moved to another category; a handful in ten years.
MOVED = 40


def test_categories_are_those_of_python_where_it_knows_the_character() -> None:
    if tuple(map(int, unicodedata.unidata_version.split(".")[:2])) > tuple(map(int, unicode_version().split("."))):
        pytest.skip("this Python knows a newer Unicode")
    ours: dict[int, str] = {}
    for name in {unicodedata.category(chr(code)) for code in CODES}:
        for low, high in property_set(name) or ():
            ours.update(dict.fromkeys(range(low, high + 1), name))
    assert len(ours) == len(CODES)
    known = [code for code in CODES if unicodedata.category(chr(code)) != "Cn"]
    assert sum(ours[code] != unicodedata.category(chr(code)) for code in known) <= MOVED


@pytest.mark.parametrize("name", ["L", "Letter", "gc=L", "General_Category=Letter"])
def test_names_of_one_set_say_the_same(name: str) -> None:
    assert property_set(name) == property_set("L") != ()


MEMBERS = [
    ("Any", "a\u0000\U0010ffff", ""),
    ("Script=Han", "\u6f22\u3005", "a\u3042"),
    ("Script=Latin", "a\u00e9", "\u03b1-"),
    ("Script_Extensions=Katakana", "\u30a2\u30fc", "a"),
    ("Emoji", "\U0001f600#", "a"),
    ("Lowercase", "a\u00aa", "A1"),
    ("White_Space", " \u3000", "a"),
]


@pytest.mark.parametrize(("name", "inside", "outside"), MEMBERS, ids=[row[0] for row in MEMBERS])
def test_sets_hold_their_characters(name: str, inside: str, outside: str) -> None:
    members = property_set(name) or ()
    assert [c for c in inside if not any(low <= ord(c) <= high for low, high in members)] == []
    assert [c for c in outside if any(low <= ord(c) <= high for low, high in members)] == []


@pytest.mark.parametrize("name", ["Greek", "Script=greek", "gc=", "Block=Basic_Latin", "script=Greek", ""])
def test_names_that_the_standard_does_not_have_are_unknown(name: str) -> None:
    assert property_set(name) is None


def test_sets_are_sorted_and_apart() -> None:
    for name in ("L", "Script=Latin", "Emoji", "Assigned"):
        members = property_set(name) or ()
        assert members == charset.ranges(members)
        assert members[-1][1] <= sys.maxunicode
