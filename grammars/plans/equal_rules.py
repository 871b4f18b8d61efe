"""Rules that read the same become one: what is told of a rule, and found for it, is then told and found once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..ir import Call, Rule, Unlike


def shared(rules: tuple[Rule, ...], start: int) -> tuple[tuple[Rule, ...], int]:
    """The rules without those that read what another does, which is called in their place, and the number of the start.
    Of equal ones the first stays. Rules of one recursion are taken to differ."""
    if len({(rule.states, rule.edges, rule.names) for rule in rules}) == len(rules):
        return rules, start
    if any(isinstance(rule.register, Unlike) for rule in rules):
        return rules, start  # there a rule is told by its number
    firsts = _firsts(rules)
    kept = [number for number, first in enumerate(firsts) if number == first]
    if len(kept) == len(rules):
        return rules, start
    places = {first: at for at, first in enumerate(kept)}
    numbers = [places[first] for first in firsts]
    return tuple([_calling(rules[first], numbers) for first in kept]), numbers[start]


def _firsts(rules: Sequence[Rule]) -> list[int]:
    """For each rule the first that is equal, callees being known before who calls them."""
    same = list(range(len(rules)))
    classes: dict[object, list[int]] = {}
    for number in _callees_first(rules):
        rule = rules[number]
        calls = tuple(dict.fromkeys([(call.source, same[call.rule], call.target, call.action) for call in rule.calls]))
        alike = classes.setdefault((rule.states, rule.edges, rule.finals, rule.register, rule.names, calls), [])
        alike.append(number)
        same[number] = alike[0]
    for alike in classes.values():
        for number in alike:
            same[number] = min(alike)
    return same


def _callees_first(rules: Sequence[Rule]) -> list[int]:
    order: list[int] = []
    seen = [False] * len(rules)
    for root in range(len(rules)):
        stack = [root]
        while stack:
            number = stack.pop()
            if number < 0:
                order.append(-1 - number)
            elif not seen[number]:
                seen[number] = True
                stack.append(-1 - number)
                stack += [call.rule for call in rules[number].calls if not seen[call.rule]]
    return order


def _calling(rule: Rule, numbers: Sequence[int]) -> Rule:
    if not rule.calls:
        return rule
    calls = [Call(call.source, numbers[call.rule], call.target, call.action) for call in rule.calls]
    return replace(rule, calls=tuple(dict.fromkeys(calls)))
