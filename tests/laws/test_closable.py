"""Law 4 through the whole runtime: from the least budget up every answer fits its constraint; below it nothing runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from espalier.grammars.constraint import AnyObject, Choices, Constraint, Gbnf, JsonSchema, Lark, Regex, Tag, Tags
from espalier.grammars.errors import BudgetTooSmall
from espalier.runtime.branch import Answer, GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.runtime import Runtime

from .asking import Alone, opened, read

SCHEMAS: tuple[Any, ...] = (
    {"type": "string", "minLength": 3, "maxLength": 30},
    {"type": "string", "pattern": "^(ab|é漢){2,9}$"},
    {"type": "integer", "minimum": -1200, "maximum": -7},
    {"type": "number", "exclusiveMinimum": 0.25, "maximum": 12},
    {"type": "array", "items": {"type": ["integer", "null"]}, "minItems": 2, "maxItems": 9},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
    {"type": "object", "properties": {"a": {"enum": ["x", 1, None, [1, {"b": "é"}]]}, "b": {"const": "the name"}},
     "required": ["b"]},
    {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}]},
    {"$defs": {"list": {
        "type": "object", "required": ["value", "next"], "additionalProperties": False,
        "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}},
    }}, "$ref": "#/$defs/list"},
    {"type": "string", "format": "date"},
    {},
)

CLOSED = {**SCHEMAS[6], "additionalProperties": False}
PATTERNS = ("a{3,40}", "(ab|c,)*x-", "[^\\n]{2}(é|漢+)", "(x-){2}|y*z")
TAGGED = Tags((Tag("<n>", JsonSchema('{"type":"integer"}'), "</n>"),), at_least_one=True)


def fits_schema(schema: Any) -> Callable[[str], None]:
    def judge(text: str) -> None:
        jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.FormatChecker())

    return judge


def fits_pattern(pattern: str) -> Callable[[str], None]:
    def judge(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return judge


def is_nested(opening: str, closing: str) -> Callable[[str], None]:
    def judge(text: str) -> None:
        depth = text.count(opening)
        assert depth
        assert text == opening * depth + closing * depth

    return judge


def is_one_of(*options: str) -> Callable[[str], None]:
    def judge(text: str) -> None:
        assert text in options

    return judge


CASES: list[tuple[Constraint, Callable[[str], None]]] = [
    *((JsonSchema(json.dumps(schema)), fits_schema(schema)) for schema in SCHEMAS),
    (JsonSchema(json.dumps(CLOSED), spacing="indented"), fits_schema(CLOSED)),
    (JsonSchema(json.dumps(CLOSED), order="any"), fits_schema(CLOSED)),
    (JsonSchema(json.dumps(CLOSED), order="any", spelling="any"), fits_schema(CLOSED)),
    (AnyObject(), fits_schema({"type": "object"})),
    *((Regex(pattern), fits_pattern(pattern)) for pattern in PATTERNS),
    (Lark('start: /[ab]+/ (";" /[ab]+/)~2..40\n%ignore " "'), fits_pattern(r" ?[ab]+( ?; ?[ab]+){2,40} ?")),
    (Gbnf('root ::= "x" root? "yz"'), is_nested("x", "yz")),
    (TAGGED, fits_pattern(r"(?s)(?:(?!<n>).)*(<n>-?\d+</n>(?:(?!<n>).)*)+")),
    (Choices(("abc", "ab", "the name of the abc", "é")), is_one_of("abc", "ab", "the name of the abc", "é")),
]


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with opened(EngineConfig(page=4, pages=2048, step_tokens=64, max_rows=16)) as runtime:
        yield runtime


async def answer(runtime: Runtime, constraint: Constraint, budget: int, seed: int) -> Answer:
    session = runtime.session()
    try:
        branch = session.branch()
        session.extend(branch, [Text("the name, ")])
        spec = GenerateSpec(max_tokens=budget, temperature=[0.0, 1.0, 8.0][seed % 3], seed=seed, constraint=constraint)
        return (await read(session, branch, spec))[1]
    finally:
        session.close()


@pytest.mark.parametrize(("constraint", "judge"), CASES, ids=[repr(constraint)[:60] for constraint, _ in CASES])
def test_every_budget_from_the_least_up_gives_an_answer_that_fits(
    runtime: Runtime, constraint: Constraint, judge: Callable[[str], None]
) -> None:
    async def all_of_them() -> list[tuple[int, Answer]]:
        budgets = [need + more for more in (*range(6), 11, 30) for _ in range(3)]
        answers = await asyncio.gather(*(answer(runtime, constraint, budget, seed)
                                         for seed, budget in enumerate(budgets)))
        return list(zip(budgets, answers, strict=True))

    need = Alone().grammar(constraint).min_tokens
    for budget, said in asyncio.run(all_of_them()):
        assert len(said.tokens) <= budget
        judge(said.text)


@pytest.mark.parametrize("constraint", [constraint for constraint, _ in CASES], ids=lambda c: repr(c)[:60])
def test_a_budget_below_the_least_is_refused_before_anything_runs(runtime: Runtime, constraint: Constraint) -> None:
    need = Alone().grammar(constraint).min_tokens
    before = asyncio.run(runtime.stats())
    for budget in {1, need - 1} - {0, need}:
        with pytest.raises(BudgetTooSmall) as refused:
            asyncio.run(answer(runtime, constraint, budget, 0))
        assert (refused.value.needed, refused.value.given) == (need, budget)
    after = asyncio.run(runtime.stats())
    assert (after.steps, after.tokens_computed) == (before.steps, before.tokens_computed)
