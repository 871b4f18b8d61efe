"""Reading and spelling JSON: exact numbers, places of errors, no key twice, any nesting up to a limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.errors import ConstraintError, ConstraintTooLarge, InvalidConstraint
from espalier.grammars.limits import Limits
from espalier.grammars.schemas.json_text import ExactReader, JsonValue, identity, read_json, spell

SCALARS = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4),
    max_leaves=12)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.sampled_from(["compact", "spaced", "indented"]))
def test_spelling_is_that_of_json_dumps(value: object, spacing: str) -> None:
    styles = {"compact": {"separators": (",", ":")}, "spaced": {}, "indented": {"indent": 2}}
    text = json.dumps(value, ensure_ascii=False, **styles[spacing])  # type: ignore[arg-type]
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    read = read_json(text, Limits())
    assert json.loads(spell(read, spacing)) == value  # type: ignore[arg-type]
    assert spell(read, spacing) == text.replace("-0.0", "-0.0")  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "place"), [
    ("", "line 1 column 1"),
    ('{"a":1,\n "a":2}', "line 2 column 2"),
    ('{"a" 1}', "line 1 column 6"),
    ("[1,]", "line 1 column 4"),
    ("[1 2]", "line 1 column 4"),
    ("{,}", "line 1 column 2"),
    ("[01]", "line 1 column 2"),
    ("nul", "line 1 column 1"),
    ("[NaN]", "line 1 column 2"),
    ('"\\ud800"', "line 1 column 1"),
    ('"a\nb"', "line 1 column 1"),
    ("{} {}", "line 1 column 4"),
    ("[[1]", "line 1 column 5"),
    ('{"a":}', "line 1 column 6"),
])
def test_errors_name_line_and_column(text: str, place: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        read_json(text, Limits())
    assert caught.value.where == place


@pytest.mark.parametrize("text", [
    '"' + "a" * 5000, '"' + "\\n" * 5000, '{"' + "ab\\t" * 2000 + '\x00": 1}', "[" + "1" * 900 + "x]",
])
def test_what_is_not_closed_is_refused_in_one_pass(text: str) -> None:
    """An expression that tries every way to cut a string in runs would not come back."""
    with pytest.raises(InvalidConstraint):
        read_json(text, Limits())


def test_numbers_are_kept_exactly() -> None:
    assert read_json("[9007199254740993, 0.1, 1e-8]", Limits()) == [9007199254740993, Decimal("0.1"), Decimal("1e-8")]


def test_depth_and_size_are_limits_and_no_crash() -> None:
    assert read_json("[" * 1000 + "]" * 1000, Limits()) is not None
    for limits in (Limits(), Limits(source_bytes=10)):
        with pytest.raises(ConstraintTooLarge):
            read_json("[" * 100_000 + "]" * 100_000, limits)


def test_equality_is_that_of_json_schema() -> None:
    assert identity(1) == identity(Decimal("1.0"))
    assert identity(True) != identity(1)
    assert identity({"a": 1, "b": [2]}) == identity({"b": [Decimal("2.0")], "a": 1})
    assert identity("1") != identity(1)
    assert identity(None) != identity("null")


def _answer(read: Callable[[], JsonValue]) -> str:
    try:
        return repr(read())
    except ConstraintError as error:
        return f"{error} at {error.where}"


PIECES = ["[",
          "]", "{", "}", ",", ":", '"a"', '"b"', '"', "\\", "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\n", "1", "-0",
          "01", "1.50", "1e400", "1e401", "9" * 1001, "9" * 5000, "0." + "1" * 1000, "true", "null", "NaN", "-Infinity",
          " ", "\n", "\x00", "\ufeff", "é", "\ud800", '{"a":', '{"a":1,"a":2}', "[[[[[", "]]]]]"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_both_readers_read_and_refuse_the_same(text: str) -> None:
    limits = Limits(depth=4)
    assert _answer(lambda: read_json(text, limits)) == _answer(lambda: ExactReader(text, limits).read())
