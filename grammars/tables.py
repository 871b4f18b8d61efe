"""All rules of a grammar as flat arrays that compiled code can index: byte edges, calls, finality, distances.

Columns. A rule's register has many values but few behaviours; distances are kept per *column*:
    no register     one column
    Counter         register r is column min(r, m) + max(0, r - P): between the minimum m and the plateau's end
                    P = max(m, maximum - states) no bound is felt, because a shortest way home repeats no state
    Order           register r <= n is column r; r > n (n + the number of a set of free keys) is column n
    Order.distinct  also column n + 1: no free key may begin any more; n + 2: the way to the next free key's begin
    Members         whatever the register (members.py makes the distance of these):
                    0 the distance when nothing was written; ALONE to the end, WAY to the next key's begin; from
                    behind a key to the end of its value, HOME for any and MEETS for one that meets the demand; from
                    inside a key there by a free key, FREE by any, OTHER by one that cannot meet the demand, MEETS by
                    one that does
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from .arena import ARENA_TYPE, SETS, intern_pair
from .errors import ConstraintTooLarge, InvalidConstraint
from .ir import CLOSE_KEY, COUNT, KEY, MEET, NOTHING, OPEN_KEY, WRITTEN, Counter, Grammar, Members, Order, Rule
from .jit import kernel
from .member_keys import MemberKeys, member_keys

FAR = 1 << 30  # the distance of what cannot finish

# columns of `states`
KIND, BASE, CALLS, CALLS_END, FINAL, RULE, LOOSE, LOOP = 0, 1, 2, 3, 4, 5, 6, 7
PART, REACH, REACH_END = 8, 9, 10  # of Members: where it lies (member_keys.py), its rows of `reach`
NO_LOOP, FREE_LOOP, COUNT_LOOP = 0, 1, 2  # values of LOOP: all plain bytes lead back here, with which action
PLAIN, COUNTER, ORDER, DISTINCT, MEMBERS = 0, 1, 2, 3, 4  # values of KIND
# columns of `rules`: LOW is the counter's minimum or the number of properties
LOW, PLATEAU, HIGH, NEXT, START, EDGES, EDGES_END, TIGHT, WIDEST = 0, 1, 2, 3, 4, 5, 6, 7, 8
# ... and of Members: rows of `members`, how many of them are required and what these cost, the bounds, the cost of one
# more property, of the closing bracket, of comma and quote; the state before a key, whether there are free keys, and a
# demand
FIRST, SIZE, NEEDED, OWED, LEAST, MOST, FILLER, ENDING, COMMA, KEYS_AT, HAS_FREE, DEMAND = range(9, 21)
# columns of `members`: the cost with its comma, whether it is required, bytes behind the key, the i-th cheapest that is
# not required
COST, REQUIRED, BEHIND_KEY, RANKED = 0, 1, 2, 3
ALONE, WAY, HOME, FREE, OTHER, MEETS = 1, 2, 3, 4, 5, 6  # columns of the distances of Members
# columns of `calls`
CALLEE, BACK, ON_RETURN, CALLED_RULE = 0, 1, 2, 3

_i8 = types.int64
_i4, _i44, _u1, _u11 = types.int32[::1], types.int32[:, ::1], types.uint8[::1], types.uint8[:, ::1]
TABLES_TYPE = types.Tuple((_u1, _i44, _i44, _i44, _i44, _i44, _u11, _i4, _i4, _u1, _i44, _i44))  # type: ignore[no-untyped-call]


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


@kernel(_i8(TABLES_TYPE, _i8, _i8))
def column(tables, state, register):  # type: ignore[no-untyped-def]
    """The column of a register value in the distances of its rule."""
    kind = tables[2][state, KIND]
    if kind in (PLAIN, MEMBERS):
        return _i8(0)
    rule = tables[2][state, RULE]
    low = tables[3][rule, LOW]
    if kind == COUNTER:
        return _i8(min(register, low) + max(0, register - tables[3][rule, PLATEAU]))
    return _i8(min(register, low))


@kernel(types.boolean(ARENA_TYPE, _i8, _i8))
def contains(arena, keys, key):  # type: ignore[no-untyped-def]
    """Whether the set has the key."""
    sets = arena[5]
    while keys > 0:
        if sets[keys, 1] == key:
            return True
        keys = _i8(sets[keys, 0])
    return False


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, _i8, _i8, _i8, _i8, _i8))
def act(tables, arena, state, register, action, key, exact):  # type: ignore[no-untyped-def]
    """The register after an action of a frame in `state`, or -1 when the action is blocked.

    exact 0: free keys written before are ignored. exact 1: they block CLOSE_KEY and are remembered.
    """
    if action == NOTHING:
        return register
    rule = tables[2][state, RULE]
    low = tables[3][rule, LOW]
    if action == COUNT:
        high = tables[3][rule, HIGH]
        if high < 0:
            return min(register + 1, _i8(low))
        return register + 1 if register < high else _i8(-1)
    following = tables[8][tables[3][rule, NEXT] + min(register, low)]
    if action >= KEY:
        j = action - KEY
        return j + 1 if register <= j and following >= j else _i8(-1)
    if action == OPEN_KEY:
        return max(register, _i8(low)) if following >= low else _i8(-1)
    if tables[2][state, KIND] != DISTINCT or exact == 0 or key == 0:
        return register
    keys = register - low
    if contains(arena, keys, key):
        return _i8(-1)
    return low + intern_pair(arena, SETS, keys if keys > 0 else _i8(-1 - rule), key)


@kernel(types.boolean(TABLES_TYPE, _i8, _i8))
def returns(tables, state, register):  # type: ignore[no-untyped-def]
    """Whether the frame may return: its state is final and the register allows it."""
    return tables[2][state, FINAL] == 1 and tables[7][tables[2][state, BASE] + column(tables, state, register)] == 0


def _check(grammar: Grammar, index: int, rule: Rule) -> None:
    """Refuses a rule that the engine would misread."""
    register = rule.register
    for edge in (*byte_edges(rule).tolist(), *((c.source, 0, 0, c.target, c.action) for c in rule.calls)):
        source, low, high, target, action = edge
        inside = 0 <= source < rule.states and 0 <= target < rule.states and 0 <= low <= high <= 255
        counts = action == COUNT and isinstance(register, Counter)
        orders = isinstance(register, Order | Members) and (
            action in (OPEN_KEY, CLOSE_KEY) or KEY <= action < KEY + len(register.required))
        orders |= isinstance(register, Members) and action in (WRITTEN, MEET)
        if not inside or not (action == NOTHING or counts or orders):
            raise InvalidConstraint(f"rule {index} ({rule.name}) has a malformed edge", where=rule.pointer)
    if any(call.action in (OPEN_KEY, CLOSE_KEY) for call in rule.calls):
        raise InvalidConstraint(f"rule {index} ({rule.name}) opens or closes a key on a call", where=rule.pointer)
    if not all(0 <= call.rule < len(grammar.rules) for call in rule.calls):
        raise InvalidConstraint(f"rule {index} ({rule.name}) calls a rule that is not there", where=rule.pointer)


def byte_edges(rule: Rule) -> Any:
    """int64 [n, 5]: the rule's byte edges."""
    return np.frombuffer(rule.edges, np.dtype("<i4")).reshape(-1, 5).astype(np.int64)


class Layout:
    """Where each rule's states and columns lie in the flat arrays. `entries`: how many distances there are."""

    def __init__(self, grammar: Grammar, max_states: int, max_entries: int) -> None:
        self.rules = grammar.rules
        self.offsets: list[int] = []
        self.bases: list[int] = []
        self.columns: list[int] = []
        self.states = self.entries = 0
        for index, rule in enumerate(grammar.rules):
            _check(grammar, index, rule)
            columns = _columns(rule)
            self.offsets.append(self.states)
            self.bases.append(self.entries)
            self.columns.append(columns)
            self.states += rule.states
            self.entries += rule.states * columns
        if self.states > max_states or self.entries > max_entries:
            raise ConstraintTooLarge(
                f"the constraint has {self.states} states with {self.entries} register columns; the limits are "
                f"{max_states} and {max_entries}", keyword="states", fix="Use smaller bounds or fewer alternatives.")


def _bounds(rule: Rule) -> tuple[int, int, int]:
    """(LOW, PLATEAU, HIGH) of a rule; HIGH is -1 without an upper bound."""
    if isinstance(rule.register, Counter):
        low, high = rule.register.minimum, rule.register.maximum
        return (low, FAR, -1) if high is None else (low, max(low, high - rule.states), high)
    return (len(rule.register.required) if isinstance(rule.register, Order) else 0), 0, 0


def _columns(rule: Rule) -> int:
    low, plateau, high = _bounds(rule)
    if isinstance(rule.register, Counter):
        return low + 1 if high < 0 else low + 1 + max(0, high - plateau)
    if isinstance(rule.register, Order):
        return low + (3 if rule.register.distinct else 1)
    if isinstance(rule.register, Members):
        return MEETS + 1
    return 1


def _kind(rule: Rule) -> int:
    if isinstance(rule.register, Order):
        return DISTINCT if rule.register.distinct else ORDER
    if isinstance(rule.register, Members):
        return MEMBERS
    return COUNTER if rule.register is not None else PLAIN


def _byte_classes(quintuples: list[Any]) -> tuple[Any, Any]:
    """(classes [256], representative byte of each class): bytes that no edge of the grammar tells apart."""
    cuts = np.zeros(257, bool)
    cuts[0] = True
    for edges in quintuples:
        cuts[edges[:, 1]] = True
        cuts[edges[:, 2] + 1] = True
    starts = cuts[:256]
    return (np.cumsum(starts) - 1).astype(np.uint8), np.flatnonzero(starts)


def _next_required(required: tuple[bool, ...]) -> list[int]:
    following = [len(required)] * (len(required) + 1)
    for r in range(len(required) - 1, -1, -1):
        following[r] = r if required[r] else following[r + 1]
    return following


def build_tables(grammar: Grammar, layout: Layout, single: Any) -> Tables:
    """The arrays, with every distance still FAR (distance.py fills them) and `first` still 0.

    Raises InvalidConstraint for a grammar that is not well-formed.
    """
    quintuples = [byte_edges(rule) for rule in grammar.rules]
    classes, _ = _byte_classes(quintuples)
    states = np.zeros((layout.states, REACH_END + 1), np.int32)
    rules = np.zeros((len(grammar.rules), DEMAND + 1), np.int32)
    go = np.full((layout.states, int(classes.max()) + 1), -1, np.int32)
    calls: list[tuple[int, int, int, int]] = []
    following: list[int] = []
    members: list[tuple[int, int, int, int]] = []
    reach: list[tuple[int, int]] = []
    for index, rule in enumerate(grammar.rules):
        offset = layout.offsets[index]
        _fill_states(states, rule, index, layout)
        _fill_calls(states, calls, rule, layout, offset)
        rules[index, :START + 1] = (*_bounds(rule), len(following), offset)
        if isinstance(rule.register, Order):
            following += _next_required(rule.register.required)
        if isinstance(rule.register, Members):
            keys = member_keys(rule, len(rule.register.required), single)
            _fill_members(states, rules[index], rule.register, keys, len(members))
            members += [(FAR, int(required), FAR, -1) for required in rule.register.required]
            for state, ends in enumerate(keys.reach, offset):
                states[state, REACH] = len(reach)
                reach += ends
                states[state, REACH_END] = len(reach)
    edges = _fill_edges(go, quintuples, classes, rules, grammar)
    return Tables(classes, go, states, rules, _matrix(calls), edges,
                  np.zeros((len(rules), go.shape[1]), np.uint8), np.full(max(layout.entries, 1), FAR, np.int32),
                  np.array(following or [0], np.int32), single.copy(), _matrix(members),
                  np.array(reach, np.int32).reshape(-1, 2))


def _matrix(rows: list[tuple[int, int, int, int]]) -> Any:
    return np.array(rows, np.int32).reshape(-1, 4)


def _fill_states(states: Any, rule: Rule, index: int, layout: Layout) -> None:
    offset, columns = layout.offsets[index], layout.columns[index]
    block = states[offset: offset + rule.states]
    block[:, KIND] = _kind(rule)
    block[:, BASE] = layout.bases[index] + columns * np.arange(rule.states)
    block[list(rule.finals), FINAL] = 1
    block[:, RULE] = index


def _fill_members(states: Any, row: Any, register: Members, keys: MemberKeys, first: int) -> None:
    """What is known of Members before any distance."""
    offset = row[START]
    states[offset: offset + len(keys.parts), PART] = keys.parts
    row[FIRST], row[SIZE], row[NEEDED] = first, len(register.required), sum(register.required)
    row[LEAST], row[MOST] = register.least, -1 if register.most is None else register.most
    row[KEYS_AT] = -1 if keys.start < 0 else offset + keys.start
    row[HAS_FREE], row[DEMAND], row[FILLER] = keys.free, register.demand, FAR


def _fill_calls(states: Any, calls: list[tuple[int, int, int, int]], rule: Rule, layout: Layout, offset: int) -> None:
    by_source: dict[int, list[tuple[int, int, int, int]]] = {}
    for call in rule.calls:
        entry = (layout.offsets[call.rule], offset + call.target, call.action, call.rule)
        by_source.setdefault(call.source, []).append(entry)
    states[offset: offset + rule.states, CALLS] = states[offset: offset + rule.states, CALLS_END] = len(calls)
    for source, entries in by_source.items():
        states[offset + source, CALLS] = len(calls)
        calls += entries
        states[offset + source, CALLS_END] = len(calls)


def _fill_edges(go: Any, quintuples: list[Any], classes: Any, rules: Any, grammar: Grammar) -> Any:
    """Enters the byte edges of all rules, class by class, and says in `rules` where those with an action lie.

    Returns them: int32 [n, 4]. Raises InvalidConstraint when two edges of one state overlap.
    """
    rule = np.repeat(np.arange(len(quintuples)), [len(edges) for edges in quintuples])
    source, low, high, target, action = np.concatenate(quintuples).T
    first = classes[low].astype(np.int64)
    spread = classes[high] - first + 1  # how many classes an edge covers
    edge = np.repeat(np.arange(len(first)), spread)
    column = np.arange(len(edge)) - np.repeat(np.cumsum(spread) - spread, spread) + first[edge]
    offset = rules[rule[edge], START]
    row = offset + source[edge]
    place = row * go.shape[1] + column
    _, firsts = np.unique(place, return_index=True)
    if len(firsts) < len(place):
        twice = grammar.rules[int(rule[edge][np.setdiff1d(np.arange(len(place)), firsts)[0]])]
        raise InvalidConstraint(f"two byte edges of a state of {twice.name} overlap", where=twice.pointer)
    acts = action[edge] != NOTHING
    go.reshape(-1)[place] = np.where(acts, -1 - np.cumsum(acts), offset + target[edge])
    owner = rule[edge][acts]
    rules[:, EDGES] = np.searchsorted(owner, np.arange(len(rules)))
    rules[:, EDGES_END] = np.searchsorted(owner, np.arange(len(rules)), "right")
    return np.stack([row, offset + target[edge], action[edge], column], axis=1)[acts].astype(np.int32)
