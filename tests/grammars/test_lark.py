"""Lark grammars: what they mean, against Lark's own Earley parser; what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Lark
from espalier.grammars.errors import ConstraintError, ConstraintTooLarge, InvalidConstraint, UnsupportedKeyword

from .naive import Naive

COMMON = "%import common.{}\nstart: {}"


def naive(grammar: str, start: str = "start") -> Naive:
    return Naive(compile_constraint(Lark(grammar, start)))


MEANINGS = [
    ("modifiers, priorities and aliases change no text", '?start.2: x | "b" -> bee\n!x: "a"+ -> many\n',
     ["a", "aa", "b"], ["", "ab"]),
    ("a terminal's priority changes no text", 'start: A B\nA.-1: "a"+\nB.10: "a" | "b"', ["ab", "aa", "aab"],
     ["a", "b"]),
    ("maybe", 'start: "a" ["b" | "c"] ["d"]', ["a", "ab", "acd", "ad"], ["abc", ""]),
    ("counted", 'start: "a"~2 "b"~0..2 ("c" "d")~1', ["aacd", "aabcd", "aabbcd"], ["acd", "aaacd", "aabbbcd", "aa"]),
    ("ranges", 'start: "a".."c" X\nX: "0".."9"', ["a0", "c9"], ["d0", "a"]),
    ("insensitive strings", 'start: "Select"i "É"i', ["SELECTé", "selectÉ", "sELECTé"], ["Selecte", "seléct"]),
    ("insensitive classes", "start: /[^a-c]x/i", ["dX", "Zx"], ["Ax", "bX"]),
    ("a dot over lines", "start: /a.b/s /c.d/", ["a\nbc-d"], ["a\nbc\nd"]),
    ("escapes", r'start: "\x41\u00e9\t\\\"" /\// /\u4e00\./', ['Aé\t\\"/一.'], ["A"]),
    ("lines go on before a bar and in brackets", 'start: "a"\n   | (\n "b"\n "c"\n)\n\n // no rule\n  | "d"  # last\n',
     ["a", "bc", "d"], ["b", "abc"]),
    ("an empty alternative", 'start: "a" x "c"\nx: | "b"', ["ac", "abc"], ["a"]),
    ("an empty rule", 'start: x "a" x\nx:', ["a"], [""]),
    ("left recursion", 'start: start "+" n | n\nn: /[0-9]/', ["1", "1+2+3"], ["+", "1+", "12"]),
    ("hidden left recursion", 'start: x start "b" | "a"\nx: "c"?', ["a", "ab", "cabb", "ccabb"], ["ca", "b"]),
    ("indirect left recursion", 'start: x "a" | "a"\nx: y "b"\ny: start "c" | "d"', ["a", "acba", "dba", "dbacba"],
     ["ba", "aa"]),
    ("templates", 'start: _list{n, ","} | pair{"x", pair{n, n}}\nn: /[0-9]/\n_list{item, sep}: item (sep item)*\n'
                  'pair{a, b}: "<" a b ">"', ["1", "1,2,3", "<x<12>>"], ["1,", "<xx>", "<<12>x>"]),
    ("recursive templates", 'start: many{"a"}\nmany{x}: x | many{x} x', ["a", "aaa"], ["", "b"]),
    ("an imported name under another", '%import common.INT -> N\nstart: N "," N', ["1,20"], [",", "a,1"]),
    ("several imports", '%import common (INT, CNAME)\nstart: CNAME "=" INT', ["x_1=10"], ["1=1"]),
    ("a carriage return ends no line by itself", 'start: "a"\r\n  | B\r\nB: "b"\r\n', ["a", "b"], ["ab"]),
    ("a backslash continues a line", 'start: "a" \\\n "b"', ["ab"], ["a"]),
]


@pytest.mark.parametrize(("grammar", "valid", "invalid"), [m[1:] for m in MEANINGS], ids=[m[0] for m in MEANINGS])
def test_it_means(grammar: str, valid: list[str], invalid: list[str]) -> None:
    rules = naive(grammar)
    assert [text for text in valid if not rules.accepts(text)] == []
    assert [text for text in invalid if rules.accepts(text)] == []


def test_the_start_is_any_rule_or_terminal() -> None:
    grammar = 'start: "a"\nother: B\nB: "b"'
    assert naive(grammar, "other").accepts("b")
    assert naive(grammar, "B").accepts("b")


@pytest.mark.parametrize(("name", "valid", "invalid"), [
    ("DIGIT", "7", "77"), ("HEXDIGIT", "f", "g"), ("INT", "007", "-1"), ("SIGNED_INT", "-12", "1.0"),
    ("DECIMAL", ".5", "5"), ("FLOAT", "1e5", "1"), ("SIGNED_FLOAT", "+1.5E-3", "1"), ("NUMBER", "1.5e10", "-1"),
    ("SIGNED_NUMBER", "-3.", "--3"), ("ESCAPED_STRING", '"a\\"b\\\\"', '"a"b"'), ("LCASE_LETTER", "a", "A"),
    ("UCASE_LETTER", "A", "a"), ("LETTER", "x", "1"), ("WORD", "Word", "two words"), ("CNAME", "_a1", "1a"),
    ("CR", "\r", "\n"), ("LF", "\n", "\r"), ("NEWLINE", "\r\n\n", "\r"), ("WS_INLINE", " \t", "\n"),
    ("WS", " \n\t\r\f", "x"), ("SH_COMMENT", "# x", "# x\n"), ("SQL_COMMENT", "-- x", "- x"),
    ("CPP_COMMENT", "// x", "/ x"), ("C_COMMENT", "/* a ** / */", "/* */ */"),
])
def test_the_common_terminals_are_those_of_lark(name: str, valid: str, invalid: str) -> None:
    lark = pytest.importorskip("lark")
    rules = naive(COMMON.format(name, name))
    parser = lark.Lark(COMMON.format(name, name), parser="earley", lexer="dynamic_complete")
    for text in (valid, invalid):
        assert rules.accepts(text) == _parses(parser, text) == (text is valid)


def _parses(parser, text: str) -> bool:
    import lark
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


IGNORING = [
    'start: "a" B\nB: "b" "c"\n%ignore / +/',
    'start: x* ";"?\nx: "a" | "bc" [x]\n%ignore / +/',
    'start: (A | B)+\nA: /a+/\nB: /ab/\n%ignore / +/\n%ignore /#[ab]*#/',
    'start: pair{A, "b"}\npair{x, y}: x y | x "c" pair{x, y}\nA: "a"i\n%ignore " "+',
    'start: "a"?\n%import common.WS\n%ignore WS',
    'start: start "a" | x\nx: | "b" x\n%ignore / +/',
]


@pytest.mark.parametrize("grammar", IGNORING)
@settings(max_examples=80, deadline=None)
@given(text=st.text("aabbcA #; ", max_size=7))
def test_ignored_text_stands_where_lark_reads_it(grammar: str, text: str) -> None:
    lark = pytest.importorskip("lark")
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    assert naive(grammar).accepts(text) == _parses(parser, text)


def test_bounded_ignored_text_stands_once_in_a_gap() -> None:
    rules = naive('start: "a" "b"\n%ignore " "\n%ignore /-{1,2}/')
    assert all(rules.accepts(text) for text in ("ab", " a--b-", "a b"))
    assert not any(rules.accepts(text) for text in ("a  b", "a---b", "a -b", "  ab"))


REFUSALS = [
    ('start: "a" b', InvalidConstraint, "b", "line 1, column 12"),
    ('other: "a"', InvalidConstraint, "start", "line 1, column 1"),
    ('start: "a\nb: "c"', InvalidConstraint, "lark", "line 1, column 8"),
    ('start: "a"\nstart: "b"', InvalidConstraint, "start", "line 2, column 1"),
    ('start: ("a"\n', InvalidConstraint, "start", "line 1, column 8"),
    ('start: "a")', InvalidConstraint, "start", "line 1, column 11"),
    ('start: ("a"]', InvalidConstraint, "start", "line 1, column 12"),
    ('start "a"', InvalidConstraint, "start", "line 1, column 7"),
    ('start: "a"\n\nfoo "b"', InvalidConstraint, "foo", "line 3, column 5"),
    ('start: "a"~3..2', InvalidConstraint, "start", "line 1, column 11"),
    ('start: "a"~x', InvalidConstraint, "start", "line 1, column 11"),
    ('start: "b".."a"', InvalidConstraint, "start", "line 1, column 8"),
    ('start: "ab".."c"', InvalidConstraint, "start", "line 1, column 8"),
    (r'start: "\d"', InvalidConstraint, "start", "line 1, column 9"),
    ('start: "a" -> x "b"', InvalidConstraint, "start", "line 1, column 17"),
    ("start: 'a'", InvalidConstraint, "lark", "line 1, column 8"),
    ("start: fooBar", InvalidConstraint, "lark", "line 1, column 8"),
    ('root ::= "a"', InvalidConstraint, "lark", "line 1, column 6"),
    ("start: A\nA: /[a/", InvalidConstraint, "A", "line 2, column 5"),
    ("start: A\nA: b\nb: /x/", InvalidConstraint, "A", "line 2, column 4"),
    ('start: A\nA: B "x"\nB: A | "y"', InvalidConstraint, "A", "line 2, column 1"),
    ('start: t{"a"}\nt{x, y}: x y', InvalidConstraint, "start", "line 1, column 8"),
    ('start: t\nt{x}: x', InvalidConstraint, "start", "line 1, column 8"),
    ('start: t{"a"\nt{x}: x', InvalidConstraint, "start", "line 1, column 8"),
    ('start: t{"a"}\nt{x, x}: x', InvalidConstraint, "t", "line 2, column 2"),
    ("%import common.NOTHING\nstart: NOTHING", InvalidConstraint, "%import", "line 1, column 16"),
    ('%import common.WS\nstart: WS\nWS: " "', InvalidConstraint, "%import", "line 1, column 16"),
    ("%import common WS\nstart: WS", InvalidConstraint, "lark", "line 1, column 1"),
    ("%import python.NAME\nstart: NAME", UnsupportedKeyword, "%import", "line 1, column 9"),
    ("%import .other.X\nstart: X", UnsupportedKeyword, "%import", "line 1, column 9"),
    ("%declare X\nstart: X", UnsupportedKeyword, "%declare", "line 1, column 1"),
    ('start: "a"\n%override start: "b"', UnsupportedKeyword, "%override", "line 2, column 1"),
    ('start: "a"\n%extend start: "b"', UnsupportedKeyword, "%extend", "line 2, column 1"),
    ('start: "a"\n%json {}', UnsupportedKeyword, "%json", "line 2, column 1"),
    ('start: "a" b\nb: %json {"type": "object"}', UnsupportedKeyword, "%json", "line 2, column 4"),
    ("start: <|end|>", UnsupportedKeyword, "token", "line 1, column 8"),
    ("start: /a(?=b)/", UnsupportedKeyword, "lookahead", "line 1, column 9"),
    (r"start: /a\b/", UnsupportedKeyword, "anchor", "line 1, column 9"),
    ("start: /a/x", UnsupportedKeyword, "flags", "line 1, column 11"),
    (r"start: /(a)\1/", UnsupportedKeyword, "backreference", "line 1, column 12"),
    ('start: t{"a"}\nt{x}: "b" | t{u{x}}\nu{x}: x x', ConstraintTooLarge, "t", "line 2, column 13"),
    ('start: "a"~0..20000', ConstraintTooLarge, "start", "line 1, column 11"),
    (f"start: {'(' * 3000}", ConstraintTooLarge, "start", "line 1, column 1032"),
]


@pytest.mark.parametrize(("grammar", "error", "keyword", "where"), REFUSALS, ids=[r[0][:40] for r in REFUSALS])
def test_it_is_refused_with_its_place(grammar: str, error: type, keyword: str, where: str) -> None:
    with pytest.raises(error) as caught:
        compile_constraint(Lark(grammar))
    assert (caught.value.keyword, caught.value.where) == (keyword, where)


PIECES = ["start", ":", "A", "a", '"x"', '"x"i', "/[a-z]+/", "/a/i", "|", "(", ")", "[", "]", "*", "+", "?", "~", "2",
          "..", "->", "{", "}", ",", "\n", "\n", " ", "%ignore", "%import", "common", ".", "WS", "!", "%declare", "//",
          "#", "::=", "\\", "é", "\ud800", '"', "/"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", "start: ", "start: A\nA: "]))
def test_any_text_compiles_or_is_refused_with_a_place(pieces: list[str], head: str) -> None:
    refusal = None
    try:
        compile_constraint(Lark(head + " ".join(pieces)))
    except ConstraintError as error:
        refusal = error
    assert refusal is None or (refusal.where.startswith("line ") and refusal.keyword)
