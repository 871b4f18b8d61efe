"""What is solved where distances are searched (distance.py), a context of its own: arcs, keys, and room to work in."""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.context import CONTEXT_TYPE, Context, Part, distance_of, rules_of, states_of
from ..binding.member_keys import MemberKeys
from ..binding.tables import BASE, START
from ..jit import inner
from .arcs import Arcs

_i8, _i4, _i44, _i88 = types.int64, types.int32[::1], types.int32[:, ::1], types.int64[:, ::1]
_SOLVING = Part()
rows_of, begins_of, into_of, arrives_of = _SOLVING.array(_i44, 7), *(_SOLVING.array(_i4) for _ in range(3))
linked_of, linked_by_rule_of, callers_of = _SOLVING.array(_i44, 2), _SOLVING.array(_i4), _SOLVING.array(_i4)
called_of, columns_of = _SOLVING.array(_i4), _SOLVING.array(_i4)
key_reach_of, key_begins_of, keys_of = _SOLVING.array(_i44, 2), _SOLVING.array(_i4), _SOLVING.array(_i44, 3)
# Room: a ring of all states, whether each waits in it (0 when a search begins), and two numbers for each.
queue_of, waits_of, counted_of = _SOLVING.array(_i4), _SOLVING.array(types.uint8[::1]), _SOLVING.array(_i88, 2)
_SOLVING.complete()


def solving_context(arcs: Arcs, keys: MemberKeys, states: int, *, counted: bool) -> Context:
    """counted: whether there is room for two numbers by state, which member_costs.py needs."""
    context = Context(_SOLVING.end)
    context.put(_SOLVING, (*arcs, keys.reach, keys.begins, keys.of_rule, np.empty(states, np.int32),
                           np.zeros(states, np.uint8), np.zeros((states if counted else 0, 2), np.int64)))
    return context


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8))
def price_calls(context, solving, rule):  # type: ignore[no-untyped-def]
    """What the calls of a rule cost now: the distances of the starts of what they call."""
    states, rules, distance, rows = states_of(context), rules_of(context), distance_of(context), rows_of(solving)
    linked, by_rule = linked_of(solving), linked_by_rule_of(solving)
    for k in range(by_rule[rule], by_rule[rule + 1]):
        rows[linked[k, 0], 3] = distance[states[rules[linked[k, 1], START], BASE]]
