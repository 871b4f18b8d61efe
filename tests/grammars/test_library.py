"""What one compilation made serves the next: same grammars, same charges, bounded memory."""

from __future__ import annotations

import json

import pytest

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintTooLarge
from espalier.grammars.library import Kept, Library
from espalier.grammars.limits import Limits, Meter

SCHEMAS = [
    {},
    {"type": "string", "maxLength": 40},
    {"type": "object", "properties": {"a": {"type": "string", "format": "hostname"}, "b": {"type": "number"}}},
    {"properties": {"a": {"enum": [1, "x", None]}, "b": {"pattern": "^a+$"}, "c": {"pattern": "^a+$", "maxLength": 9}}},
    {"anyOf": [{"type": "integer", "minimum": 3}, {"type": "string", "minLength": 9}, {"type": "array"}]},
    {"not": {"pattern": "^b", "type": "string"}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_grammar_is_the_same_whatever_was_compiled_before(schema: object) -> None:
    library, constraint = Library(), JsonSchema(json.dumps(schema))
    for other in SCHEMAS:
        compile_constraint(JsonSchema(json.dumps(other)), library=library)
    assert compile_constraint(constraint, library=library) == compile_constraint(constraint)


def test_a_budget_of_states_means_the_same_whatever_was_compiled_before() -> None:
    library, constraint = Library(), JsonSchema(json.dumps(SCHEMAS[2]))

    def states_that_do(library: Library | None) -> int:
        for states in range(0, 4000, 40):
            try:
                compile_constraint(constraint, Limits(states=states), library)
            except ConstraintTooLarge:
                continue
            return states
        raise AssertionError

    alone = states_that_do(None)
    compile_constraint(constraint, library=library)
    assert states_that_do(library) == alone > 0


def test_the_least_recently_used_go_when_the_bytes_run_out() -> None:
    library = Library(byte_budget=30)
    for key in "abcad":
        library.get(key, lambda: Kept(None, 0, 10))
    assert library.used_bytes == 30
    made: list[str] = []
    for key in "abcd":
        library.get(key, lambda key=key: made.append(key) or Kept(None, 0, 0))  # type: ignore[misc]
    assert made == ["b"]


def test_what_is_larger_than_the_budget_is_made_and_not_kept() -> None:
    library = Library(byte_budget=5)
    assert library.get("a", lambda: Kept(1, 0, 10)).value == 1
    assert len(library) == library.used_bytes == 0


def test_a_failure_is_not_kept() -> None:
    meter = Meter(Limits())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            meter.shared("a", lambda: 1 // 0, lambda value: 1)
    assert meter.shared("a", lambda: 7, lambda value: 1) == meter.shared("a", lambda: 8, lambda value: 1) == 7
