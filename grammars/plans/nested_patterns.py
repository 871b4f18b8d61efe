"""Strings that are patterns (format `regex`) as rules: what is in a group is a call, so groups nest to any depth."""

from __future__ import annotations

from msgspec.structs import replace

from ..automata.build import RuleBuilder
from ..automata.dfa import Dfa
from ..ir import Rule
from ..limits import Meter
from ..regular.pattern_format import CLOSED, INSIDE
from ..schemas.formats import calling_table
from ..schemas.strings import Speller
from .plan import ListPlan, ValuePlan, mentioned

GROUPS = range(CLOSED + 1)


def pattern_rule(inside: list[int], speller: Speller, meter: Meter) -> Rule:
    """A pattern in quotes. inside: the rules of what is in a group, by how many groups were closed before."""
    builder = RuleBuilder("pattern", "", meter)
    body, end = builder.state(), builder.state()
    builder.edge(0, 0x22, 0x22, body)
    for state in _written(builder, body, calling_table("whole", meter), inside, speller, meter):
        builder.edge(state, 0x22, 0x22, end)
    builder.final(end)
    return builder.finish()


def group_rule(closed: int, inside: int, speller: Speller, meter: Meter) -> Rule:
    """What is in a group, but for nothing. inside: the number of this rule."""
    builder = RuleBuilder("group of a pattern", "", meter)
    rules = [inside] * len(GROUPS)
    for state in _written(builder, 0, calling_table(f"group {closed}", meter), rules, speller, meter):
        builder.final(state)
    return builder.finish()


def flatten_patterns(compared: list[ListPlan]) -> None:
    """Patterns inside items that are compared are written as automata, as their texts are compared as such."""
    queue = [ValuePlan("", lists=[one]) for one in compared]
    seen = {id(plan) for plan in queue}
    for plan in queue:  # grows while it runs
        plan.strings = [replace(text, nested=None) for text in plan.strings]
        more = [inner for inner in mentioned(plan) if id(inner) not in seen]
        seen.update(map(id, more))
        queue += more


def _written(builder: RuleBuilder, start: int, table: Dfa, rules: list[int], speller: Speller,
             meter: Meter) -> list[int]:
    """Writes a table from `start` on; returns the states in which it may end."""
    rows = tuple([tuple([edge for edge in row if edge[1] < INSIDE]) for row in table.edges])
    places = builder.graft(speller(Dfa(rows, table.finals), meter).dfa, start)
    for state, row in enumerate(table.edges):
        for low, high, target in row:
            for symbol in range(max(low, INSIDE), high + 1):
                builder.call(places[state], rules[symbol - INSIDE], places[target])
    return [places[state] for state in table.finals]
