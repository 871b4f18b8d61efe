"""Typed results: a schema goes out as a closed constraint and comes back as the user's own class."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator

import espalier as esp
from espalier.frontend.backends.local import LocalModel
from espalier.frontend.backends.scripted import Asked
from espalier.grammars.constraint import JsonSchema

from .conftest import Script


class Person(BaseModel):
    name: str
    age: int


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("odd")
        return number


@esp.function
def extract(s: esp.State, schema: Any) -> object:
    s += esp.gen("x", schema=schema)
    return s["x"]


TEXT = '{"name":"Ann","age":3}'
PLAIN = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Person, Person(name="Ann", age=3)),
        (PLAIN, {"name": "Ann", "age": 3}),
        (json.dumps(PLAIN), {"name": "Ann", "age": 3}),
        (True, {"name": "Ann", "age": 3}),
        (Person | None, Person(name="Ann", age=3)),
        (dict[str, str | int], {"name": "Ann", "age": 3}),
    ],
    ids=["class", "dict", "text", "true", "union", "type"],
)
def test_values_are_typed_and_the_text_stays(script: Script, schema: Any, value: object) -> None:
    state = extract.run(schema, backend=script([TEXT]))
    assert state.result == value
    assert state.raw("x") == state.text() == TEXT
    assert state["x"] is state["x"]


def constraint_of(script: Script, schema: Any) -> JsonSchema:
    seen: list[Asked] = []

    def answer(asked: Asked) -> str:
        seen.append(asked)
        return "{}"

    @esp.function
    def program(s: esp.State) -> None:
        s += esp.gen(schema=schema, spacing="spaced")

    program.run(backend=script(answer))
    assert seen[0].spec is not None
    assert isinstance(seen[0].spec.constraint, JsonSchema)
    return seen[0].spec.constraint


def test_a_class_is_closed_and_a_raw_schema_means_what_it_says(script: Script) -> None:
    of_class = constraint_of(script, Person)
    assert json.loads(of_class.schema)["additionalProperties"] is False
    assert of_class.spacing == "spaced"
    assert "additionalProperties" not in json.loads(constraint_of(script, PLAIN).schema)


def test_a_schema_with_options_is_taken_as_it_is(script: Script) -> None:
    asked = esp.JsonSchema('{"type":"object"}', order="any", spacing="spaced")

    @esp.function
    def program(s: esp.State) -> object:
        s += esp.gen("x", schema=asked)
        return s["x"]

    state = program.run(backend=script(lambda seen: '{"a": 1}' if seen.spec and seen.spec.constraint == asked else "0"))
    assert state.result == {"a": 1}


def test_a_validator_that_refuses_fails_that_value_and_nothing_else(script: Script) -> None:
    @esp.function
    def program(s: esp.State) -> str:
        s += esp.gen("odd", schema=Even)
        s += " then " + esp.gen("after")
        with pytest.raises(ValidationError, match="odd"):
            s["odd"]
        return s["after"]

    state = program.run(backend=script(['{"number":3}', "fine"]))
    assert state.result == "fine"
    assert state.ok
    assert state.raw("odd") == '{"number":3}'


def test_a_refused_item_of_a_batch_is_its_own_result(script: Script) -> None:
    states = extract.run_batch([(Even,), (Even,)], backend=script(['{"number":3}', '{"number":4}']), concurrency=1)
    assert isinstance(states[0].error, ValidationError)
    assert states[1].result == Even(number=4)


class Order(BaseModel):
    kind: Literal["buy", "sell"]
    count: Annotated[int, Field(ge=1, le=99)]
    notes: Annotated[list[Annotated[str, Field(max_length=4)]], Field(max_length=2)]


@pytest.mark.parametrize("schema", [Order, list[Order], int, bool, Literal["a", "bc"], dict[str, int]], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_model_says_the_value_has_the_type(babbling: LocalModel, schema: Any, seed: int) -> None:
    @esp.function
    def program(s: esp.State) -> object:
        s += "now " + esp.gen("x", schema=schema, max_tokens=120, temperature=20.0, seed=seed)
        return s["x"]

    state = program.run(backend=babbling)
    json.loads(state.raw("x"))
    answer = state.answer("x")
    assert answer is not None
    assert answer.usage.generated <= 120


def test_constraints_that_cannot_hold_are_the_error_of_their_gen_only(babbling: LocalModel) -> None:
    @esp.function
    def program(s: esp.State, schema: Any, budget: int) -> object:
        s += "now " + esp.gen("x", schema=schema, max_tokens=budget)
        return s["x"]

    states = program.run_batch(
        [(Order, 3), ({"type": "nonsense"}, 50), (int, 50)], backend=babbling
    )
    assert isinstance(states[0].error, esp.BudgetTooSmall)
    assert isinstance(states[1].error, esp.ConstraintError)
    assert isinstance(states[2].result, int)


def test_224_branches_of_one_prefix_obey_their_own_constraints(babbling: LocalModel) -> None:
    @esp.function
    def program(s: esp.State) -> list[object]:
        s += "a prefix that all of them share, long enough to fill pages of the tree " * 4
        with s.fork(4) as forks:
            forks += [
                esp.gen("x", regex="[0-9]{3}", max_tokens=20, temperature=9.0),
                esp.gen("x", schema=Order, max_tokens=120, temperature=9.0),
                esp.gen("x", choices=["left", "right"], max_tokens=20, temperature=9.0),
                esp.gen("x", max_tokens=5, temperature=0),
            ]
        cached = [branch.usage.cached / max(1, branch.usage.prompt) for branch in forks]
        return [*forks["x"], min(cached)]

    digits, order, side, _, least_cached = program.run(backend=babbling).result
    assert digits.isdigit()
    assert len(digits) == 3
    assert isinstance(order, Order)
    assert side in {"left", "right"}
    assert least_cached > 0.9
