"""GBNF: what it means, what is refused, and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import Gbnf
from espalier.grammars.errors import ConstraintError, ConstraintTooLarge, InvalidConstraint, UnsupportedKeyword

from .naive import Naive


def naive(grammar: str, root: str = "root") -> Naive:
    return Naive(compile_constraint(Gbnf(grammar, root)))


MEANINGS = [
    ("escapes", r'root ::= "\x41\u00e9\U0001F600\n\t\r\\\"\[\]"', ['Aé\U0001f600\n\t\r\\"[]'], ["A"]),
    ("classes", r'root ::= [a-c\]\-] [^a-z\n] [-x] [x-]', ["a1-x", "-1x-", "]éx-"], ["aa--", "d1-x", "a\n-x"]),
    ("code points of a class", "root ::= [\\u4e00-\\u9fff] [é-\U0001f600]", ["漢é", "一\U0001f600"], ["aé", "漢a"]),
    ("a dot is any character", "root ::= . .", ["\n漢", "ab"], ["a", "abc"]),
    ("counts", 'root ::= "a"{2} "b"{1,} "c"{0,2} [0-9]{1,3}', ["aab1", "aabbcc123"],
     ["aab", "ab1", "aabccc1", "aab1234"]),
    ("repeated repetitions", 'root ::= "a"*? "b"+{2}', ["bb", "abbb"], ["ab", "a"]),
    ("lines", 'root ::=\n  "a" |\n  "b"\n  | ( "c"\n  "d" ) # end\n# none\nother ::= "x"', ["a", "b", "cd"],
     ["c", "x"]),
    ("names", 'root ::= a-b a_b rule2\na-b ::= "1"\na_b ::= "2"\nrule2 ::= "3"', ["123"], ["12"]),
    ("an empty alternative", 'root ::= "a" ( | "b") "" x\nx ::= "c" |', ["a", "ab", "abc"], ["b"]),
    ("a mark in a literal is not a comment", 'root ::= "#" [#] # "a"', ["##"], ["#"]),
    ("right and left recursion", 'root ::= a b\na ::= "x" a | "y"\nb ::= b "z" | ""', ["y", "xxyzz"], ["x", "zy"]),
    ("mutual recursion through the middle", 'root ::= "(" r ")" | "n"\nr ::= "[" root "]"', ["n", "([n])", "([([n])])"],
     ["()", "([n)]"]),
]


@pytest.mark.parametrize(("grammar", "valid", "invalid"), [m[1:] for m in MEANINGS], ids=[m[0] for m in MEANINGS])
def test_it_means(grammar: str, valid: list[str], invalid: list[str]) -> None:
    rules = naive(grammar)
    assert [text for text in valid if not rules.accepts(text)] == []
    assert [text for text in invalid if rules.accepts(text)] == []


def test_the_root_can_be_named() -> None:
    assert naive('root ::= "a"\nother ::= "b"', "other").accepts("b")


REFUSALS = [
    ("", InvalidConstraint, "root", "line 1, column 1"),
    ('start: "a"', InvalidConstraint, "start", "line 1, column 6"),
    ("root ::= 'a'", InvalidConstraint, "root", "line 1, column 10"),
    ('root ::= "a', InvalidConstraint, "root", "line 1, column 10"),
    ('root ::= "a"\n\n  = "b"', InvalidConstraint, "gbnf", "line 3, column 3"),
    ('root ::= "a"\n"b"', InvalidConstraint, "gbnf", "line 2, column 1"),
    ('root ::= "a"\nroot ::= "b"', InvalidConstraint, "root", "line 2, column 1"),
    ('root ::= ("a"', InvalidConstraint, "root", "line 1, column 10"),
    ('root ::= "a")', InvalidConstraint, "root", "line 1, column 13"),
    ("root ::= []", InvalidConstraint, "root", "line 1, column 10"),
    ("root ::= [z-a]", InvalidConstraint, "root", "line 1, column 11"),
    ("root ::= [a", InvalidConstraint, "root", "line 1, column 10"),
    (r'root ::= "\q"', InvalidConstraint, "root", "line 1, column 11"),
    (r'root ::= "\x4"', InvalidConstraint, "root", "line 1, column 11"),
    (r'root ::= "\ud800"', InvalidConstraint, "root", "line 1, column 11"),
    ('root ::= "a"{3,2}', InvalidConstraint, "root", "line 1, column 13"),
    ('root ::= "a"{,2}', InvalidConstraint, "root", "line 1, column 13"),
    ('root ::= "a"{x}', InvalidConstraint, "root", "line 1, column 13"),
    ('root ::= "a"{10001}', ConstraintTooLarge, "root", "line 1, column 13"),
    ('root ::= "a"{9999999999999999999999}', ConstraintTooLarge, "root", "line 1, column 13"),
    ("root ::= <think>", UnsupportedKeyword, "token", "line 1, column 10"),
    ("root ::= !<[7]>", UnsupportedKeyword, "token", "line 1, column 10"),
]


@pytest.mark.parametrize(("grammar", "error", "keyword", "where"), REFUSALS, ids=[r[0] or "empty" for r in REFUSALS])
def test_it_is_refused_with_its_place(grammar: str, error: type, keyword: str, where: str) -> None:
    with pytest.raises(error) as caught:
        compile_constraint(Gbnf(grammar))
    assert (caught.value.keyword, caught.value.where) == (keyword, where)


PIECES = ["root", "a", "::=", '"x"', "[a-z]", "[^a]", "|", "(", ")", "*", "+", "?", "{2}", "{1,3}", "{", "}", ".", "\n",
          "\n", "#", "\\", '"', "[", "]", "é", "\ud800", "<", "!", "\r",
          "-"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", "root ::= ", 'root ::= a\na ::= "b" ']))
def test_any_text_compiles_or_is_refused_with_a_place(pieces: list[str], head: str) -> None:
    refusal = None
    try:
        compile_constraint(Gbnf(head + " ".join(pieces)))
    except ConstraintError as error:
        refusal = error
    assert refusal is None or (refusal.where.startswith("line ") and refusal.keyword)
