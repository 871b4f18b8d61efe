"""From what a caller has to the text of a schema; a Pydantic class is closed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import InvalidConstraint
from espalier.grammars.schema import schema_text

from .naive import Naive


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    size: Annotated[int, Field(ge=0, lt=10)]


class Tree(BaseModel):
    kind: Literal["tree"]
    left: Leaf | Tree | None = None
    tags: Annotated[list[Annotated[str, Field(max_length=3)]], Field(min_length=1, max_length=2)]
    counts: dict[str, int] = {}
    weight: float | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Empty(BaseModel):
    pass


def accepts(source: object, text: str) -> bool:
    return Naive(compile_constraint(JsonSchema(schema_text(source)))).accepts(text)


def test_a_pydantic_class_is_closed_everywhere() -> None:
    assert accepts(Tree,
        '{"kind":"tree","left":{"kind":"leaf","size":9},"tags":["abc"],"counts":{"x":1},"weight":-0.5}')
    assert accepts(Tree, '{"kind":"tree","left":{"kind":"tree","tags":["a","b"]},"tags":["a"]}')
    assert not accepts(Tree, '{"kind":"tree","tags":["a"],"more":1}')
    assert not accepts(Tree, '{"kind":"tree","left":{"size":1,"more":1},"tags":["a"]}')
    assert not accepts(Tree, '{"kind":"tree","tags":[]}')
    assert not accepts(Tree, '{"kind":"tree","tags":["abcd"]}')
    assert not accepts(Empty, '{"a":1}')
    assert accepts(Empty, "{}")


def test_extra_keys_stay_when_the_class_allows_them() -> None:
    assert accepts(Open, '{"a":1,"b":[2]}')
    assert not accepts(Open, '{"b":1}')


def test_a_raw_schema_means_what_the_standard_says() -> None:
    raw = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert accepts(raw, '{"b":1}')
    assert accepts(json.dumps(raw), '{"b":1}')
    assert accepts(True, "[1]")


def test_what_is_no_schema_is_refused() -> None:
    for source in (3, None, [1], {"const": float("nan")}, {"const": {1}}):
        with pytest.raises(InvalidConstraint):
            schema_text(source)


def test_the_module_is_light() -> None:
    code = ("import sys, espalier.grammars.schema, espalier.grammars.constraint\n"
            "heavy = {'numpy', 'numba', 'torch', 'pydantic', 'lark'} & set(sys.modules)\n"
            "sys.exit(str(heavy) if heavy else 0)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
