"""Types as schemas: what a user writes as an annotation is what comes back."""

import dataclasses
import enum
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

import espalier as esp
from espalier.frontend.types import type_schema
from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.schema import schema_text
from espalier.grammars.vocabulary import Vocabulary

from ..grammars.engine import bind
from ..grammars.samplers import WAYS, answer


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int | None = None


class Person(BaseModel):
    name: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "12345678901234567890123", 12345678901234567890123),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (str, '"a"', "a"),
        (list[int], "[1,2]", [1, 2]),
        (dict[str, int], '{"a":1}', {"a": 1}),
        (Literal["a", "b"], '"b"', "b"),
        (int | None, "null", None),
        (Colour, '"red"', Colour.RED),
        (Point, '{"x":1}', Point(1)),
        (list[Point], '[{"x":1,"y":2}]', [Point(1, 2)]),
        (list[Person], '[{"name":"Ann"}]', [Person(name="Ann")]),
        (Person | None, "null", None),
    ],
    ids=str,
)
def test_the_value_has_the_type(annotation: Any, text: str, value: object) -> None:
    typed = type_schema(annotation)
    json.dumps(typed.schema)
    assert typed.read(text) == value
    assert type(typed.read(text)) is type(value)


@pytest.mark.parametrize("annotation", [Point, list[Point], list[Person]], ids=str)
def test_classes_are_closed(annotation: Any) -> None:
    (component,) = type_schema(annotation).schema["$defs"].values()  # type: ignore[attr-defined]
    assert component["additionalProperties"] is False


def test_a_class_that_allows_other_keys_stays_open() -> None:
    assert type_schema(list[Open]).schema["$defs"]["Open"]["additionalProperties"] is True  # type: ignore[index]


@pytest.mark.parametrize("annotation", [3, object, object(), "int", print], ids=lambda one: type(one).__name__)
def test_what_json_cannot_carry_is_refused(annotation: Any) -> None:
    with pytest.raises(esp.ProgramError) as caught:
        type_schema(annotation)
    assert caught.value.where == "schema"


@dataclasses.dataclass
class Bill:
    total: Decimal
    days: timedelta
    scan: bytes


@pytest.mark.parametrize("annotation", [Decimal, bytes, timedelta, date, datetime, time, UUID, list[Decimal], Bill, int,
                                        float, dict[str, float]], ids=str)
def test_every_answer_that_fits_a_type_is_read_as_one(annotation: Any) -> None:
    typed = type_schema(annotation)
    grammar = bind(compile_constraint(JsonSchema(schema_text(typed.schema))), Vocabulary.bytes_only())
    for draw in range(30):
        typed.read(answer(grammar, 200, WAYS[draw % len(WAYS)], Random(draw)).decode())
