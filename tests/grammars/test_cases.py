"""Real failure cases: every valid text can be produced, no invalid one, and refusals name their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.grammars.check import CaseReport, check_case, read_case

from .naive import Naive

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_case_comes_out_right(path: Path) -> None:
    case = read_case(path.read_text(encoding="utf-8"))
    report = check_case(case, lambda grammar: Naive(grammar).accepts, complete=True)
    assert isinstance(report, CaseReport)
    assert report.failures == ()


def test_there_are_cases_of_every_kind() -> None:
    kinds = {str(read_case(path.read_text(encoding="utf-8"))["kind"]) for path in CASES}
    assert kinds == {"json_schema", "regex", "gbnf", "ebnf_lark"}
