"""What follows from the distances: dead edges go, and states are marked by how little a walk must ask of them."""

from __future__ import annotations

import numpy as np
from numba import types

from ..ir import CLOSE_KEY, COUNT, KEY, NEXT_KEY, NOTHING, OPEN_KEY
from ..jit import entry, inner
from .context import (
    CONTEXT_TYPE,
    Context,
    calls_of,
    classes_of,
    distance_of,
    edges_of,
    first_of,
    go_of,
    members_of,
    rules_of,
    single_of,
    states_of,
)
from .flat import COUNTER, DISTINCT, MEMBERS
from .member_keys import INSIDE
from .tables import (
    AMPLE,
    BACK,
    BASE,
    CALLED_RULE,
    CALLS,
    CALLS_END,
    COST,
    COUNT_LOOP,
    EDGES,
    EDGES_END,
    FAR,
    FINAL,
    FIRST,
    FREE,
    FREE_LOOP,
    KIND,
    LISTED,
    LOOP,
    LOOSE,
    LOW,
    MOST,
    NARROW,
    PART,
    REACH,
    RULE,
    SIZE,
    START,
    TIGHT,
    WIDEST,
    Layout,
    Tables,
)
from .trie import PLAIN_BYTES

_PLAIN = tuple(PLAIN_BYTES)
_KEYS = 1 << 21  # more keys than a text can hold: nodes that an arena may have (configuration.Limits)
_PASSES = 8  # by which keys are counted, each from the longest on
_BACKSLASH = 0x5C
_i8, _i8s, _i4, _u1 = types.int64, types.int64[::1], types.int32[::1], types.uint8[::1]


def finish(context: Context, tables: Tables, layout: Layout) -> None:
    """Completes tables whose distances are known, in place. context: holds them."""
    _finish(context.address, layout.column_counts, np.empty(layout.states, np.uint8),
            np.empty(layout.states, np.int32))


@inner(types.void(CONTEXT_TYPE, _i8s, _u1))
def _trim(context, columns, dead):  # type: ignore[no-untyped-def]
    """Removes edges into states that cannot finish in any column; marks states that can in every column as LOOSE.
    columns: by rule; dead: room, by state."""
    go, states, rules = go_of(context), states_of(context), rules_of(context)
    edges, distance, members = edges_of(context), distance_of(context), members_of(context)
    for s in range(states.shape[0]):
        rule = states[s, RULE]
        count = rules[rule, LOW] + 1 if states[s, KIND] == DISTINCT else columns[rule]
        unordered = states[s, KIND] == MEMBERS
        dead[s], states[s, LOOSE] = 1, 0 if unordered else 1
        for c in range(count):
            cost = distance[states[s, BASE] + c]
            if cost < FAR:
                dead[s] = 0
                if not unordered or c >= FREE:
                    rules[rule, WIDEST] = max(rules[rule, WIDEST], cost)
            else:
                states[s, LOOSE] = 0
    for rule in range(rules.shape[0]):
        for k in range(rules[rule, FIRST], rules[rule, FIRST] + rules[rule, SIZE]):
            if members[k, COST] < FAR:
                rules[rule, WIDEST] = max(rules[rule, WIDEST], members[k, COST])
    if not dead.any():
        return
    for s in range(go.shape[0]):
        for c in range(go.shape[1]):
            entry = go[s, c]
            target = entry if entry >= -1 else edges[-2 - entry, 1]
            if target >= 0 and dead[target] == 1:
                go[s, c] = -1


@inner(types.void(CONTEXT_TYPE))
def _mark_loops(context):  # type: ignore[no-untyped-def]
    """LOOP: states that every plain byte leads back to, so that whole subtrees of the vocabulary need no steps."""
    classes, go, states, edges = classes_of(context), go_of(context), states_of(context), edges_of(context)
    for s in range(states.shape[0]):
        if states[s, FINAL] == 1 or states[s, CALLS] < states[s, CALLS_END]:
            continue
        free, counting = True, states[s, KIND] == COUNTER
        for byte in _PLAIN:
            target = go[s, classes[byte]]
            free = free and target == s
            counting = counting and target <= -2 and edges[-2 - target, 1] == s and edges[-2 - target, 2] == COUNT
            if not (free or counting):
                break
        if free or counting:
            states[s, LOOP] = FREE_LOOP if free else COUNT_LOOP


@inner(types.void(CONTEXT_TYPE))
def _fill_first(context):  # type: ignore[no-untyped-def]
    """first[rule, class] to its fixed point; rules that cannot finish keep an empty row, so nothing calls them."""
    go, states, rules = go_of(context), states_of(context), rules_of(context)
    calls, first, distance = calls_of(context), first_of(context), distance_of(context)
    for rule in range(rules.shape[0]):
        start = rules[rule, START]
        if distance[states[start, BASE]] < FAR:
            for c in range(go.shape[1]):
                first[rule, c] = go[start, c] != -1
    changed = True
    while changed:
        changed = False
        for rule in range(rules.shape[0] - 1, -1, -1):  # callees mostly come after their callers
            start = rules[rule, START]
            if distance[states[start, BASE]] >= FAR:
                continue
            for k in range(states[start, CALLS], states[start, CALLS_END]):
                called = calls[k, CALLED_RULE]
                for c in range(go.shape[1]):
                    if first[called, c] == 1 and first[rule, c] == 0:
                        first[rule, c] = 1
                        changed = True


@inner(types.void(CONTEXT_TYPE, _i8, _u1, _i4, _i8))
def _mark_narrow(context, rule, seen, inside, count):  # type: ignore[no-untyped-def]
    """Marks those of the states inside[:count], all of one rule's keys (which `seen` tells), from which finitely many
    ways lead on; and where keys are finitely many, the states from which one must come."""
    go, states, rules = go_of(context), states_of(context), rules_of(context)
    edges, distance = edges_of(context), distance_of(context)
    changed = True
    while changed:
        changed = False
        for k in range(count - 1, -1, -1):
            state = inside[k]
            narrow = states[state, PART] != NARROW and states[state, CALLS] == states[state, CALLS_END]
            for c in range(go.shape[1] if narrow else 0):
                target = go[state, c]
                if target <= -2:
                    action = edges[-2 - target, 2]
                    ends = action in (CLOSE_KEY, NEXT_KEY) or action >= KEY
                    target = -1 if ends else edges[-2 - target, 1]
                if target >= 0 and states[target, PART] != NARROW:
                    narrow = False
                    break
            if narrow:
                states[state, PART], states[state, LOOSE] = NARROW, 0
                changed = True
    finite = False
    for e in range(rules[rule, EDGES], rules[rule, EDGES_END]):
        opens = edges[e, 2] in (OPEN_KEY, NEXT_KEY)
        finite = finite or (opens and states[edges[e, 1], PART] == NARROW)
    end = rules[rule + 1, START] if rule + 1 < rules.shape[0] else states.shape[0]
    for s in range(rules[rule, START], end if finite else 0):
        if seen[s] == 0 and distance[states[s, BASE] + rules[rule, LOW] + 1] >= FAR:
            states[s, PART], states[s, LOOSE] = NARROW, 0


@inner(_i8(_i8, _i8))
def _either(one, other):  # type: ignore[no-untyped-def]
    """What REACH says where one or the other may come next."""
    return other if one == 0 else one if other == 0 or other == one else _i8(-1)


@inner(types.void(CONTEXT_TYPE, _i8))
def _tell_next_keys(context, rule):  # type: ignore[no-untyped-def]
    """REACH of the states of a rule of Order: the state in which the next free key begins, plus 1; 0: none does, -1:
    one of several."""
    go, states, rules, edges, calls = (go_of(context), states_of(context), rules_of(context), edges_of(context),
                                       calls_of(context))
    begin, changed = rules[rule, START], True
    end = rules[rule + 1, START] if rule + 1 < rules.shape[0] else states.shape[0]
    for s in range(begin, end):
        states[s, REACH] = 0
    while changed:
        changed = False
        for s in range(end - 1, begin - 1, -1):
            found = _i8(states[s, REACH])
            for c in range(go.shape[1]):
                target, action = _i8(go[s, c]), _i8(NOTHING)
                if target <= -2:
                    target, action = _i8(edges[-2 - target, 1]), _i8(edges[-2 - target, 2])
                if target >= 0:
                    opens = action in (OPEN_KEY, NEXT_KEY)
                    found = _either(found, target + 1 if opens else _i8(states[target, REACH]))
            for k in range(states[s, CALLS], states[s, CALLS_END]):
                found = _either(found, _i8(states[calls[k, BACK], REACH]))
            changed = changed or found != states[s, REACH]
            states[s, REACH] = found


@inner(types.void(CONTEXT_TYPE, _i4, _i8))
def _count_keys(context, inside, count):  # type: ignore[no-untyped-def]
    """Into AMPLE of the states inside[:count], all of one rule's keys, how many free keys begin so: at least so many,
    at most _KEYS. Zeros before. Escapes count for nothing: they spell what others do too."""
    go, states, classes, edges, single = (go_of(context), states_of(context), classes_of(context), edges_of(context),
                                          single_of(context))
    changed, passes = True, 0
    while changed and passes < _PASSES:
        changed, passes = False, passes + 1
        for k in range(count - 1, -1, -1):
            state, total = inside[k], 0
            for byte in range(256):
                target, action = go[state, classes[byte]], NOTHING
                if target == -1 or single[byte] == 0 or byte == _BACKSLASH:
                    continue
                if target <= -2:
                    target, action = edges[-2 - target, 1], edges[-2 - target, 2]
                if action in (CLOSE_KEY, NEXT_KEY):
                    total += 1
                elif action < KEY:
                    total += states[target, AMPLE]
            if states[state, CALLS] < states[state, CALLS_END]:
                total = _KEYS
            total = min(total, _KEYS)
            changed = changed or total != states[state, AMPLE]
            states[state, AMPLE] = total


@inner(types.void(CONTEXT_TYPE, _i8, _i4, _i8))
def _mark_loose(context, rule, inside, count):  # type: ignore[no-untyped-def]
    """LOOSE of the states of a rule of Members inside keys, those inside[:count] among them that free keys lead to: of
    all where no key has finitely many ends, else of those from which there are more than a text can hold."""
    states, rules = states_of(context), rules_of(context)
    loose = 2 if rules[rule, MOST] >= 0 else 1
    if rules[rule, TIGHT] == 0:
        rules[rule, TIGHT] = loose & 2
        end = rules[rule + 1, START] if rule + 1 < rules.shape[0] else states.shape[0]
        for s in range(rules[rule, START], end):
            if states[s, PART] == INSIDE:
                states[s, LOOSE] = loose
        return
    _count_keys(context, inside, count)
    for k in range(count):
        state = inside[k]
        if states[state, PART] == INSIDE and states[state, AMPLE] == _KEYS:
            states[state, LOOSE] = loose
        states[state, AMPLE] = 0


@inner(types.void(CONTEXT_TYPE, _u1, _i4))
def _mark_tight(context, seen, queue):  # type: ignore[no-untyped-def]
    """TIGHT: a rule of Members in which some state inside a key has finitely many ways to end it; such states of Order
    are NARROW.

    There a key can become impossible because its last spelling is used, so tokens are tested one by one. Elsewhere
    another key always exists, and in Members where more keys begin so than a text can hold. Where finitely many ways
    lead on, one leads to a state from which none does but the key's end. Through calls: presumed endless. 2: so only
    once no more than the required keys may be written. seen, queue: room, by state.
    """
    go, states, rules = go_of(context), states_of(context), rules_of(context)
    calls, edges = calls_of(context), edges_of(context)
    seen[:] = 0
    for rule in range(rules.shape[0]):
        kind = states[rules[rule, START], KIND]
        if kind < DISTINCT:
            continue
        if kind == DISTINCT and rules[rule, LISTED] == 0:
            _tell_next_keys(context, _i8(rule))
        tail = 0
        for e in range(rules[rule, EDGES], rules[rule, EDGES_END]):
            if edges[e, 2] in (OPEN_KEY, NEXT_KEY) and seen[edges[e, 1]] == 0:
                seen[edges[e, 1]] = 1
                queue[tail] = edges[e, 1]
                tail += 1
        head = 0
        while head < tail:
            state = queue[head]
            head += 1
            ways = states[state, CALLS_END] - states[state, CALLS]
            for k in range(states[state, CALLS], states[state, CALLS_END]):
                back = calls[k, BACK]
                if seen[back] == 0:
                    seen[back] = 1
                    queue[tail] = back
                    tail += 1
            for c in range(go.shape[1]):
                target = go[state, c]
                if target <= -2:
                    action = edges[-2 - target, 2]
                    ends = action in (CLOSE_KEY, NEXT_KEY) or action >= KEY
                    target = -1 if ends else edges[-2 - target, 1]
                if target >= 0:
                    ways += 1
                    if seen[target] == 0:
                        seen[target] = 1
                        queue[tail] = target
                        tail += 1
            if ways == 0:
                rules[rule, TIGHT] = 1
        if kind == DISTINCT and rules[rule, TIGHT] == 1:
            rules[rule, TIGHT] = 0
            _mark_narrow(context, rule, seen, queue, _i8(tail))
        if kind == MEMBERS:
            _mark_loose(context, _i8(rule), queue, _i8(tail))


@entry(types.void(CONTEXT_TYPE, _i8s, _u1, _i4))
def _finish(context, columns, seen, queue):  # type: ignore[no-untyped-def]
    """columns: by rule. seen, queue: room, by state."""
    _trim(context, columns, seen)
    _mark_loops(context)
    _fill_first(context)
    _mark_tight(context, seen, queue)
