"""Written grammars in gen: the answer is a string that the grammar derives."""

import re
from typing import Any

import pytest

import espalier as esp
from espalier.frontend.backends.local import LocalModel

SUM = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]{1,3}/\n%ignore " "'
NESTED = 'root ::= "(" root? ")" root?'


@pytest.mark.parametrize("seed", range(3))
def test_the_answer_is_derived_by_the_grammar_and_closed_in_time(babbling: LocalModel, seed: int) -> None:
    @esp.function
    def program(s: esp.State) -> tuple[str, str]:
        s += "sum " + esp.gen("sum", lark=SUM, max_tokens=30, temperature=20.0, seed=seed)
        s += " nested " + esp.gen("nested", gbnf=NESTED, max_tokens=30, temperature=20.0, seed=seed)
        return s["sum"], s["nested"]

    total, nested = program.run(backend=babbling).result
    assert re.fullmatch(r" ?\d{1,3}( ?\+ ?\d{1,3})* ?", total)
    assert nested
    while "()" in nested:
        nested = nested.replace("()", "")
    assert nested == ""


@pytest.mark.parametrize("begin", ["<call>", "<turn>"])
def test_tags_stand_in_free_text_and_special_tokens_are_shown_by_name(babbling: LocalModel, begin: str) -> None:
    call = esp.tag(begin, "</call>", regex="[0-9]{2,4}")

    @esp.function
    def program(s: esp.State) -> str:
        s += "x " + esp.gen("x", tags=esp.Tags((call,), at_least_one=True, stop_after_first=True), max_tokens=40,
                            temperature=20.0, seed=3)
        return s["x"]

    free, _, held = program.run(backend=babbling).result.partition(begin)
    assert re.fullmatch("[0-9]{2,4}</call>", held)
    assert begin not in free


def test_a_broken_grammar_is_an_error_with_its_place(babbling: LocalModel) -> None:
    @esp.function
    def program(s: esp.State) -> None:
        s += "x " + esp.gen("x", gbnf='root ::= "a"\n  | missing')

    error = program.run_batch([()], backend=babbling)[0].error
    assert isinstance(error, esp.ConstraintError)
    assert (error.keyword, error.where) == ("missing", "line 2, column 5")


@pytest.mark.parametrize("kinds", [
    {"lark": SUM, "gbnf": NESTED}, {"lark": 1}, {"gbnf": "\ud800"}, {"gbnf": b"root"}, {"tags": "x"}, {"tags": [1]},
])
def test_grammars_are_strings_and_one_at_a_time(kinds: dict[str, Any]) -> None:
    with pytest.raises(esp.ProgramError):
        esp.gen("x", **kinds)
