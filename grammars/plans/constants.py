"""Values of an enum where they may be written in several ways: as the parts of a plan, not as texts."""

from __future__ import annotations

from decimal import Decimal

from ..automata.dfa import literals
from ..automata.utf8 import json_string_freely
from ..constraint import Writing
from ..limits import Meter
from ..schemas.json_text import JsonValue
from ..schemas.numbers import NumberSpec
from ..schemas.strings import StringText
from .number_text import NumberText, number_text
from .plan import ListPlan, Member, ObjectPlan, ValuePlan


def written_freely(plan: ValuePlan, writing: Writing, meter: Meter) -> ValuePlan:
    """A plan of the same values, of which none is a text with one spelling that could have another."""
    found = ValuePlan(plan.pointer, [], list(plan.words), list(plan.numbers), list(plan.strings), list(plan.lists),
                      list(plan.objects), possible=True)
    texts: list[str] = []
    for value in plan.values:
        if isinstance(value, list | dict) and writing.strict:
            found.values.append(value)
        elif isinstance(value, list):
            found.lists.append(_list(value, plan.pointer))
        elif isinstance(value, dict):
            found.objects.append(_object(value, plan.pointer))
        elif isinstance(value, str) and (plan.freely or writing.spelling == "any"):
            texts.append(value)
        else:
            found.values.append(value)
            if isinstance(value, int | Decimal) and not isinstance(value, bool) and writing.spelling == "any":
                found.numbers.append(_number(value, meter))
    if texts:
        words = literals([[*map(ord, text)] for text in texts], meter)
        found.strings.append(StringText(json_string_freely(words, meter)))
    found.numbers = [text for text in found.numbers if not text.dfa.empty]
    return found


def _number(value: int | Decimal, meter: Meter) -> NumberText:
    """All digits that mean this number, without an exponent."""
    number = Decimal(value)
    whole = number == number.to_integral_value()
    return number_text(NumberSpec(whole, number, False, number, False, zeros=True), meter)


def _constant(value: JsonValue, pointer: str) -> ValuePlan:
    return ValuePlan(pointer, [value], possible=True)


def _list(value: list[JsonValue], pointer: str) -> ListPlan:
    items = [_constant(item, pointer) for item in value]
    return ListPlan(pointer, items, ValuePlan(pointer), len(items), len(items), possible=True)


def _object(value: dict[str, JsonValue], pointer: str) -> ObjectPlan:
    members = [Member(name, _constant(item, pointer), True) for name, item in value.items()]
    return ObjectPlan(pointer, members, None, {}, [], 0, None, possible=True)
