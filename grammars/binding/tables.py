"""All rules of a grammar as flat arrays that compiled code can index: byte edges, calls, finality, distances.

Columns. A rule's register has many values but few behaviours; distances are kept per *column*:
    no register     one column
    Counter         register r is column min(r, m) + max(0, r - P): between the minimum m and the plateau's end P no
                    bound is felt, because no shortest way home counts as often (_bounds)
    Order           register r <= n is column r; r > n (n + the number of a set of free keys) is column n
    Order.distinct  also column n + 1: no free key may begin any more; n + 2: the way to the next free key's begin
    Members         whatever the register (members.py makes the distance of these):
                    0 the distance when nothing was written; ALONE to the end, WAY to the next key's begin; from
                    behind a key to the end of its value, HOME for any and MEETS for one that meets the demand; from
                    inside a key there by a free key, FREE by any, OTHER by one that cannot meet the demand, MEETS by
                    one that does
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..errors import ConstraintTooLarge
from ..ir import COUNT, KEY, NOTHING, OPEN_KEY, Counter, Grammar, Members, Order, Rule
from ..jit import entry, inner
from .arena import SETS, intern_pair
from .characters import written_out
from .context import CONTEXT_TYPE, distance_of, next_required_of, rules_of, sets_of, states_of
from .flat import CALL_ACTION, COUNTER, DISTINCT, MEMBERS, ORDER, OWNER, PLAIN, UNLIKE, Flat
from .member_keys import MemberKeys, member_keys
from .names import with_names
from .used_keys import is_used
from .verify import verify
from .ways_home import longest_way_home

FAR = 1 << 30  # the distance of what cannot finish

__all__ = ["COUNTER", "DISTINCT", "MEMBERS", "ORDER", "PLAIN", "UNLIKE"]  # values of KIND

# columns of `states`; LOOSE: whether from here a frame can finish whatever its register; 2: while `maxProperties` has
# room (members.has_slack)
KIND, BASE, CALLS, CALLS_END, FINAL, RULE, LOOSE, LOOP = 0, 1, 2, 3, 4, 5, 6, 7
# of Members: where it lies (member_keys.py), its rows of `reach`; of Order REACH tells the next key (finishing.py)
PART, REACH, REACH_END = 8, 9, 10
# 0, or more values follow than are ever written: 1 always, else while the counter has AMPLE - 1 counts left (ample.py)
AMPLE = 11
# a PART of Order.distinct: inside a key that has finitely many ends, or where one of finitely many keys must come
NARROW = 1
# ... of Unlike, where two items must be equal: bytes of the cheapest one of which there may be two, and of two such
SAME, BOTH = 9, 10
# a PART of Unlike, where two items must be equal: items have differed so far, and a new one may follow or none; the one
# that returned here is equal to another by its value or its text; it was not compared
MAYBE, LASTLY, TWICE, COPIED, FREELY = 1, 2, 3, 4, 5
NO_LOOP, FREE_LOOP, COUNT_LOOP = 0, 1, 2  # values of LOOP: all plain bytes lead back here, with which action
# columns of `rules`: LOW is the counter's minimum or the number of properties
LOW, PLATEAU, HIGH, NEXT, START, EDGES, EDGES_END, TIGHT, WIDEST = 0, 1, 2, 3, 4, 5, 6, 7, 8
# ... and of Members: rows of `members`, how many of them are required and what these cost, the bounds, the cost of one
# more property, of the closing bracket, of comma and quote; the state before a key, whether there are free keys, and a
# demand
FIRST, SIZE, NEEDED, OWED, LEAST, MOST, FILLER, ENDING, COMMA, KEYS_AT, HAS_FREE, DEMAND = range(9, 21)
# of Members and Order: keys are compared decoded; they are items of a list, and the next one's price beside its bytes
DECODED, LISTED, SURPLUS = 21, 22, 23
ALIKE = 24  # of Unlike: two items must be equal
# columns of `members`: the cost with its comma, whether it is required, bytes behind the key, the i-th cheapest that is
# not required
COST, REQUIRED, BEHIND_KEY, RANKED = 0, 1, 2, 3
ALONE, WAY, HOME, FREE, OTHER, MEETS = 1, 2, 3, 4, 5, 6  # columns of the distances of Members
# columns of `calls`
CALLEE, BACK, ON_RETURN, CALLED_RULE = 0, 1, 2, 3

# Distances of a counter from which on a look at its ways home is the cheaper: it takes longer than so many.
_LOOK_FROM = 4_000
_i8, _i44 = types.int64, types.int32[:, ::1]


class Tables(NamedTuple):
    """classes[byte]: its class. go[state, class]: the target; -1 for none; -2 - e for edge e, which has an action.

    states, rules, calls: columns as named above. edges[e]: (source, target, action, class). first[rule, class]: 1 when
    the rule can begin so. distance[states[s, BASE] + column]: bytes to the end of the frame. next_required: per Order,
    by register, the least required index at or after it. single[byte]: 1 when some token is that byte alone. members:
    the declared keys of Members, columns as named above. reach: (declared key, bytes) that can be ended from a state.
    """

    classes: Any
    go: Any
    states: Any
    rules: Any
    calls: Any
    edges: Any
    first: Any
    distance: Any
    next_required: Any
    single: Any
    members: Any
    reach: Any


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def column(context, state, register):  # type: ignore[no-untyped-def]
    """The column of a register value in the distances of its rule."""
    states, rules = states_of(context), rules_of(context)
    kind = states[state, KIND]
    if kind in (PLAIN, MEMBERS):
        return _i8(0)
    rule = states[state, RULE]
    low = rules[rule, LOW]
    if kind == COUNTER:
        return _i8(min(register, low) + max(0, register - rules[rule, PLATEAU]))
    return _i8(min(register, low))


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def ample(context, state, register):  # type: ignore[no-untyped-def]
    """Whether from here to the end of the frame more values can be spelled than a list ever holds."""
    states = states_of(context)
    slack = states[state, AMPLE]
    if slack <= 1 or states[state, KIND] != COUNTER:
        return slack > 0
    high = rules_of(context)[states[state, RULE], HIGH]
    return high < 0 or high - register >= slack - 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def contains(context, keys, key):  # type: ignore[no-untyped-def]
    """Whether the set has the key."""
    sets = sets_of(context)
    while keys > 0:
        if sets[keys, 1] == key:
            return True
        keys = _i8(sets[keys, 0])
    return False


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def act(context, state, register, action, key, exact):  # type: ignore[no-untyped-def]
    """The register after an action of a frame in `state`, or -1 when the action is blocked.

    exact 0: free keys written before are ignored. exact 1: they block CLOSE_KEY and NEXT_KEY, and are remembered.
    """
    states, rules, next_required = states_of(context), rules_of(context), next_required_of(context)
    if action == NOTHING:
        return register
    rule = states[state, RULE]
    low = rules[rule, LOW]
    if action == COUNT:
        high = rules[rule, HIGH]
        if high < 0:
            return min(register + 1, _i8(low))
        return register + 1 if register < high else _i8(-1)
    following = next_required[rules[rule, NEXT] + min(register, low)]
    if action >= KEY:
        j = action - KEY
        return j + 1 if register <= j and following >= j else _i8(-1)
    if action == OPEN_KEY:
        return max(register, _i8(low)) if following >= low else _i8(-1)
    if states[state, KIND] != DISTINCT or exact == 0 or key == 0:
        return register
    keys = register - low
    if is_used(context, keys, key):
        return _i8(-1)
    return low + intern_pair(context, SETS, keys if keys > 0 else _i8(-1 - rule), key)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def returns(context, state, register):  # type: ignore[no-untyped-def]
    """Whether the frame may return: its state is final and the register allows it."""
    states, distance = states_of(context), distance_of(context)
    if states[state, KIND] == COUNTER:
        return states[state, FINAL] == 1 and register >= rules_of(context)[states[state, RULE], LOW]
    return states[state, FINAL] == 1 and distance[states[state, BASE] + column(context, state, register)] == 0


@entry(_i8(_i44, _i44))
def _highest_kind(states, rules):  # type: ignore[no-untyped-def]
    highest = 0
    for rule in range(rules.shape[0]):
        highest = max(highest, states[rules[rule, START], KIND])
    return _i8(highest)


def highest_kind(tables: Tables) -> int:
    """The highest KIND of a rule."""
    return int(_highest_kind(tables.states, tables.rules))


def has_unlike(tables: Tables) -> bool:
    """Whether the items of some list are compared by value."""
    return highest_kind(tables) == UNLIKE


class Layout:
    """Where each rule's states and columns lie in the flat arrays. flat: the rules, escapes written out. `entries`: how
    many distances there are. offsets, bases, columns: by rule, as lists; starts, base_of, column_counts: as arrays.
    single: uint8 [256], 1 for bytes that are tokens of their own.

    Raises BrokenGrammar for a grammar that the engine would misread, ConstraintTooLarge past the limits.
    """

    def __init__(self, grammar: Grammar, max_states: int, max_entries: int, single: Any) -> None:
        self.flat = written_out(with_names(verify(grammar)))
        if UNLIKE in self.flat.present:
            self.flat.calls[self.flat.kinds[self.flat.calls[:, OWNER]] == UNLIKE, CALL_ACTION] = NOTHING  # PART tells
        self.rules = grammar.rules
        self.bounds = [_bounds(rule, self.flat, index, single) for index, rule in enumerate(grammar.rules)]
        self._limits = max_states, max_entries
        self._lay()

    def _lay(self) -> None:
        counts = [_columns(rule, *bounds) for rule, bounds in zip(self.rules, self.bounds, strict=True)]
        sizes, (max_states, max_entries) = self.flat.states.tolist(), self._limits
        offsets, bases = [0, *accumulate(sizes)], [0, *accumulate(map(mul, sizes, counts))]
        self.states, self.entries = offsets.pop(), bases.pop()
        if self.states > max_states or self.entries > max_entries:
            raise ConstraintTooLarge(
                f"the constraint has {self.states} states with {self.entries} register columns; the limits are "
                f"{max_states} and {max_entries}", keyword="states", fix="Use smaller bounds or fewer alternatives.")
        self.offsets, self.bases, self.columns = offsets, bases, counts
        self.starts, self.base_of, self.column_counts = np.array((offsets, bases, counts), np.int64)
        self._keys: dict[bytes, MemberKeys] = {}

    def widen(self, counts: Mapping[int, int]) -> bool:
        """Gives counting rules the columns for ways home with so many counts; whether any had fewer."""
        before = list(self.bounds)
        for rule, count in counts.items():
            low, plateau, high = self.bounds[rule]
            if high >= 0:
                self.bounds[rule] = low, max(low, min(plateau, high - count)), high
        if self.bounds == before:
            return False
        self._lay()
        return True

    def keys(self, single: Any) -> MemberKeys:
        """What is told of the keys of Members. single: uint8 [256], 1 for bytes that are tokens of their own."""
        known = single.tobytes()
        if known not in self._keys:
            self._keys[known] = member_keys(self.flat, self.starts, self.states, single)
        return self._keys[known]


def _bounds(rule: Rule, flat: Flat, index: int, single: Any) -> tuple[int, int, int]:
    """(LOW, PLATEAU, HIGH) of a rule; HIGH is -1 without an upper bound.

    A shortest way home repeats no state, and has no more counts than bytes: from a register that many below HIGH, all
    of them are open.
    """
    if not isinstance(rule.register, Counter):
        return (len(rule.register.required) if isinstance(rule.register, Order) else 0), 0, 0
    low, high = rule.register.minimum, rule.register.maximum
    if high is None:
        return low, FAR, -1
    counts = rule.states
    if min(counts, high - low) * int(flat.states[index]) > _LOOK_FROM and not rule.calls:
        counts = min(counts, longest_way_home(flat, index, single, counts))
    return low, max(low, high - counts), high


def _columns(rule: Rule, low: int, plateau: int, high: int) -> int:
    if isinstance(rule.register, Counter):
        return low + 1 if high < 0 else low + 1 + max(0, high - plateau)
    if isinstance(rule.register, Order):
        return low + (3 if rule.register.distinct else 1)
    return MEETS + 1 if isinstance(rule.register, Members) else 1
