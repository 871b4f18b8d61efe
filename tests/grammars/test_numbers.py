"""Numbers: exact bounds and divisors on decimal text, forty digits, no negative zero."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.compile import compile_constraint
from espalier.grammars.constraint import JsonSchema
from espalier.grammars.errors import ConstraintTooLarge, InvalidConstraint, Unsatisfiable
from espalier.grammars.limits import Limits, Meter
from espalier.grammars.plans.number_text import number_text
from espalier.grammars.schemas.multiples import states_of
from espalier.grammars.schemas.numbers import NumberSpec, spelled

from .naive import Naive

TABLE = [
    ('{"type":"integer"}', ["0", "-1", "9" * 40], ["-0", "01", "1.0", "1e2", "+1", "", "-", "9" * 41]),
    ('{"type":"number"}', ["0.0", "-0.50", "1e10", "1E-07", "2.5e+3", "0." + "1" * 39],
     ["1e100", "-0", "-0.0", ".5", "5.", "1e", "NaN", "Infinity", "0." + "1" * 40]),
    ('{"type":"integer","minimum":10,"maximum":1e2}', ["10", "99", "100"], ["9", "101", "1e2", "10.0"]),
    ('{"type":"integer","minimum":0.5,"maximum":2.5}', ["1", "2"], ["0", "3"]),
    ('{"type":"number","exclusiveMinimum":0}', ["0.1", "5", "1.00"], ["0", "0.0", "-1", "1e2"]),
    ('{"type":"number","minimum":-1.5,"exclusiveMaximum":-0.25}', ["-1.5", "-0.26", "-1", "-0.250001"],
     ["-0.25", "0", "-1.51", "-0.25000"]),
    ('{"type":"number","maximum":0}', ["0", "0.0", "-3"], ["-0", "0.1", "-0.0"]),
    ('{"type":"integer","multipleOf":7,"minimum":-14}', ["0", "7", "-14", "70"], ["1", "-21", "8"]),
    ('{"type":"number","multipleOf":0.01}', ["0.1", "12.34", "5", "0.250"], ["0.001", "1.234", "1e2"]),
    ('{"type":"integer","multipleOf":1.5}', ["3", "0", "-6"], ["1", "2"]),
    ('{"type":"number","allOf":[{"multipleOf":0.2},{"multipleOf":0.5}]}', ["1", "3.0"], ["0.2", "0.5", "1.5"]),
    ('{"type":"integer","minimum":9007199254740993}', ["9007199254740993"], ["9007199254740992"]),
    ('{"type":"number","minimum":0.1,"maximum":0.1}', ["0.1", "0.10"], ["0.10000000000000001", "0"]),
    ('{"type":"integer","minimum":3.0}', ["3"], ["2"]),
    ('{"type":["integer","number"],"maximum":1}', ["0.5", "1"], ["1.5"]),
    ('{"type":"integer","enum":[1.0,2,2.5]}', ["1", "2"], ["1.0", "2.5"]),
    ('{"type":"integer","multipleOf":365}', ["0", "365", "-730", str(365 * 10**37), str(10**40 - 10**40 % 365)],
     ["366", "-0", "365.0", str(365 * 10**38), "0365"]),
    ('{"type":["number","string"],"multipleOf":19.99,"minimum":1}',
     ["19.99", "1999", "39.980", str(1999 * 10**36), '"a"'], ["0", "-19.99", "19.98", str(1999 * 10**37), "1.999"]),
    ('{"type":"integer","not":{"multipleOf":97}}', ["1", "-96", "9" * 40], ["0", "97", "-194", "9" * 41]),
    ('{"type":"integer","multipleOf":65536}', ["0", str(65536 * 10**30 + 65536), "-131072"],
     ["65537", "32768", "5" * 40]),
    ('{"type":"integer","multipleOf":0.123456789}', ["0", "123456789", "-246913578"],
     ["1" + "0" * 39, "123456788", "0.0"]),
    ('{"type":"number","multipleOf":0.123456789}',
     ["0", "0.0", "0.123456789", "-0.2469135780", "1.23456789", "0.61728394500"],
     ["0.123456788", "1.", "-0", "-0.0", "1e2", "00", "0.12345678"]),
    ('{"type":"number","multipleOf":123456789,"minimum":1e20,"maximum":1.00000000001e20}',
     [str(123456789 * 810000007372), "100000000000246905297.00"], ["123456789", str(123456789 * 810000007371)]),
    ('{"type":"number","not":{"multipleOf":123456.789}}', ["1", "-123456.788", "0.001", "123456.7890001"],
     ["0", "0.00", "123456.789", "-246913.5780"]),
    ('{"type":"integer","multipleOf":365,"not":{"multipleOf":1000003}}', ["365", "-730", str(365 * 1000002)],
     ["0", "366", str(365 * 1000003), "9" * 41]),
    ('{"const":2.5}', ["2.5"], ["2.50", "2"]),
    ('{"enum":[100,1e2]}', ["100"], ["1e2", "100.0"]),
]


@pytest.mark.parametrize(("schema", "accepted", "rejected"), TABLE, ids=[row[0] for row in TABLE])
def test_numbers_are_held_to_their_schema(schema: str, accepted: list[str], rejected: list[str]) -> None:
    naive = Naive(compile_constraint(JsonSchema(schema)))
    assert [text for text in accepted if not naive.accepts(text)] == []
    assert [text for text in rejected if naive.accepts(text)] == []


@pytest.mark.parametrize(("schema", "error", "keyword"), [
    ('{"type":"integer","minimum":5,"maximum":4}', Unsatisfiable, "schema"),
    ('{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":1}', Unsatisfiable, "schema"),
    ('{"minimum":"3"}', InvalidConstraint, "minimum"),
    ('{"multipleOf":0}', InvalidConstraint, "multipleOf"),
    ('{"$schema":"https://json-schema.org/draft/2020-12/schema","exclusiveMaximum":true}', InvalidConstraint,
     "exclusiveMaximum"),
    ('{"type":"integer","multipleOf":123456789,"not":{"multipleOf":41152263}}', Unsatisfiable, "schema"),
    ('{"type":"integer","multipleOf":1e-45}', ConstraintTooLarge, "multipleOf"),
    ('{"minimum":1e999999999}', ConstraintTooLarge, "number"),
])
def test_impossible_numbers_are_refused(schema: str, error: type[Exception], keyword: str) -> None:
    with pytest.raises(error) as caught:
        compile_constraint(JsonSchema(schema))
    assert caught.value.keyword == keyword  # type: ignore[attr-defined]
    assert caught.value.where  # type: ignore[attr-defined]


DECIMALS = st.decimals(min_value=-120, max_value=120, places=2).map(lambda d: d.normalize() + 0)
BOUNDS = st.one_of(st.none(), DECIMALS)
STEPS = st.sampled_from([(), (Decimal(3),), (Decimal("0.25"),), (Decimal("0.5"), Decimal("0.2")), (Decimal(10),),
                         (Decimal(29),), (Decimal("4.1"),), (Decimal("0.0000123457"),), (Decimal("15") * 2**20,)])
SPECS = st.builds(NumberSpec, st.booleans(), BOUNDS, st.booleans(), BOUNDS, st.booleans(), STEPS, st.booleans())
NUMERALS = st.builds(
    lambda sign, whole, fraction: f"{sign}{whole}{fraction}", st.sampled_from(["", "-"]), st.integers(0, 130),
    st.sampled_from(["", ".0", ".0000123457", ".00006172850", ".5", ".25", ".250", ".01", ".99", ".2", ".125"]),
)


@settings(max_examples=60, deadline=None)
@given(SPECS, st.lists(NUMERALS, min_size=5, max_size=30))
def test_text_is_accepted_exactly_when_its_value_fits(spec: NumberSpec, numerals: list[str]) -> None:
    meter = Meter(Limits())
    dfa = number_text(spec, meter).limited(meter)
    for text in numerals:
        value = Decimal(text)
        spelled_right = not (text.startswith("-") and value == 0) and not (spec.integer and "." in text)
        assert dfa.accepts(text.encode()) == (spelled_right and spec.admits(value)), text


@pytest.mark.parametrize("step", [1, 7, 8, 12, 30, 625, 1024, 9000, 65536])
def test_digits_tell_of_a_remainder_as_little_as_they_must(step: int) -> None:
    least = spelled(NumberSpec(integer=True, lower=Decimal(0), divisors=(Decimal(step),)), Meter(Limits()))
    assert states_of(step) <= len(least.edges) <= states_of(step) + 2  # no digit yet, and a zero that nothing follows


def test_multiples_that_are_left_out_are_noted() -> None:
    compiled = compile_constraint(JsonSchema('{"type":"integer","multipleOf":123456789}'))
    assert compiled.notes == ("multipleOf at #: numbers are written from -68518517895 to 68518517895",)
    few = compile_constraint(JsonSchema('{"type":"integer","multipleOf":123456789,"minimum":0,"maximum":1e9}'))
    assert few.notes == ()
