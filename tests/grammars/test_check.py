"""The case checker: verdicts, failures and refusals."""

from __future__ import annotations

import json

import pytest

from espalier.grammars.check import CaseReport, Skipped, check_case, check_samples, read_case
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import InvalidConstraint, MissingByte
from espalier.grammars.ir import Grammar

from .naive import Naive


def produce(grammar: Grammar) -> object:
    return Naive(grammar).accepts


def check(complete: bool = False, **case: object) -> CaseReport:
    report = check_case({"id": "1", "kind": "json_schema", **case}, produce,
        complete=complete)  # type: ignore[arg-type]
    assert isinstance(report, CaseReport)
    return report


def test_a_right_case_passes() -> None:
    report = check(input={"schema": {"type": "integer"}}, valid=["1"], invalid=["x", "1.0"], may=["-0"],
        should_not=["2"])
    assert report.passed
    assert json.loads(report.line()) == {
        "id": "1", "compiled": True, "error": None, "valid": [True], "invalid": [False, False], "may": [False],
        "should_not": [True], "ms": report.ms,
    }


def test_wrong_verdicts_fail() -> None:
    report = check(input={"schema": {"type": "integer"}}, valid=['"a"'], invalid=["1"])
    assert len(report.failures) == 2
    assert not check(input={"schema": {}}, policy="must_reject_schema").passed


@pytest.mark.parametrize(("policy", "complete", "passes"), [
    (None, False, True), (None, True, False), ("enforce_or_400", True, True), ("no_dead_end", True, False),
])
def test_a_refusal_passes_unless_completeness_is_asked_for(policy: str | None, complete: bool, passes: bool) -> None:
    case = {"input": {"schema": {"$ref": "https://example.com/other.json"}}, **({"policy": policy} if policy else {})}
    report = check(complete, **case)
    assert report.passed == passes
    assert not report.compiled
    assert report.error is not None
    assert (report.error.keyword, report.error.pointer) == ("$ref", "#/$ref")
    assert report.valid == ()


def test_a_refusal_without_a_place_fails() -> None:
    def refuse(grammar: Grammar) -> object:
        raise MissingByte("no token has the byte 0x04")
    report = check_case({"id": "1", "kind": "regex", "input": {"regex": "\\x04"}}, refuse)  # type: ignore[arg-type]
    assert isinstance(report, CaseReport)
    assert not report.passed


def test_a_case_without_a_constraint_is_refused_and_other_kinds_are_skipped() -> None:
    report = check_case({"id": "2", "kind": "gbnf", "input": {}}, produce)  # type: ignore[arg-type]
    assert isinstance(report, CaseReport)
    assert report.error is not None
    assert report.error.keyword == "input"
    assert check_case({"id": "3", "kind": "http_api"}, produce) == Skipped("3", "http_api")  # type: ignore[arg-type]


def test_case_files_keep_their_numbers() -> None:
    case = read_case('{"id":"1","kind":"json_schema","input":{"schema":{"const":0.30000000000000000001}},"valid":[]}')
    report = check_case(case, produce)  # type: ignore[arg-type]
    assert isinstance(report, CaseReport)
    for text in ("[]", "{", '{"id":1}'):
        with pytest.raises(InvalidConstraint):
            read_case(text)


def test_samples_are_spelled_in_the_chosen_style() -> None:
    numbers = '{"type":"array","items":{"type":"number"}}'
    schema = f'{{"type":"object","properties":{{"a":{numbers}}},"additionalProperties":false}}'
    samples = {"good": ' { "a" : [ 1 , 2.50 ] } ', "bad": '{"b":1}', "broken": "{"}
    for spacing in ("compact", "spaced", "indented"):
        report = check_samples(JsonSchema(schema, spacing), samples, produce)  # type: ignore[arg-type]
        assert report.accepted == {"good": True, "bad": False, "broken": False}
        assert len(report.failures) == 2
    refused = check_samples(JsonSchema('{"type":"int"}'), samples, produce)
    assert refused.error is not None
    assert refused.error.pointer == "#/type"
