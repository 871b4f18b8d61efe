"""Types as schemas: what a user writes as an annotation is what comes back."""

import dataclasses
import enum
import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

import espalier as esp
from espalier.frontend.types import type_schema


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
