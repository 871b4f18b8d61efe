"""What can be told of objects in any order (ir.Members) from their automata alone: which states lie inside keys, and
which declared keys can still be finished from each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from ..ir import CLOSE_KEY, KEY, NOTHING, OPEN_KEY, WRITTEN
from ..jit import entry, inner
from .flat import ACTION, BYTE_HIGH, BYTE_LOW, CALL_ACTION, CALL_TARGET, MEMBERS, OWNER, SOURCE, TARGET, Flat

# where a state lies
OUTSIDE, INSIDE, BEHIND = 0, 1, 2  # between properties; inside a key; behind a key, up to the end of the value
# columns of `of_rule`
KEYS_BEGIN, AFTER_VALUE, FREE_KEYS = 0, 1, 2

_i8, _i88, _i8s = types.int64, types.int64[:, ::1], types.int64[::1]
_i4, _i44, _u1 = types.int32[::1], types.int32[:, ::1], types.uint8[::1]


class MemberKeys(NamedTuple):
    """States are numbered through all rules. parts: by state. reach[begins[s]: begins[s + 1]]: the keys that can be
    ended from state s in bytes that are tokens, as (declared key of its rule, bytes up to its closing quote, included).
    of_rule: the state before the first character of a key, -1 without keys; the one behind a value; whether free keys
    may be written."""

    parts: Any
    reach: Any
    begins: Any
    of_rule: Any


def member_keys(flat: Flat, starts: Any, states: int, single: Any) -> MemberKeys:
    """starts: int64, by rule, its first state of so many states. single: uint8 [256], 1 for bytes that are tokens of
    their own."""
    of_rule = np.empty((len(flat.states), FREE_KEYS + 1), np.int32)
    parts, begins = np.zeros(states, np.int32), np.zeros(states + 1, np.int32)
    if MEMBERS not in flat.present:
        of_rule[:] = -1
        return MemberKeys(parts, np.zeros((0, 2), np.int32), begins, of_rule)
    into, arrives = np.empty(len(flat.edges), np.int32), np.zeros(states + 2, np.int32)
    room, seen = np.empty((states, 2), np.int32), np.zeros(states, np.int32)
    count = _measure(flat.edges, flat.calls, starts, flat.kinds, single, parts, of_rule, into, arrives, begins, room,
                     seen)
    reach = np.empty((count, 2), np.int32)
    if count:
        _reach(flat.edges, starts, single, into, arrives, begins, reach, room, seen)
    return MemberKeys(parts, reach, begins, of_rule)


@inner(types.void(_i88, _i8s, _i8s, _u1, _i4, _i4))
def _arrivals(edges, offsets, kinds, single, into, arrives):  # type: ignore[no-untyped-def]
    """into[arrives[s]: arrives[s + 1]]: the sources of the plain edges into state s that can be read. arrives: zeros,
    one more than that."""
    for turn in range(2):
        for e in range(edges.shape[0]):
            owner, low, able = edges[e, OWNER], edges[e, BYTE_LOW], False
            if kinds[owner] != MEMBERS or edges[e, ACTION] != NOTHING:
                continue
            while low <= edges[e, BYTE_HIGH] and not able:
                able = single[low] == 1
                low += 1
            target = offsets[owner] + edges[e, TARGET]
            if able and turn == 0:
                arrives[target + 2] += 1
            elif able:
                into[arrives[target + 1]] = offsets[owner] + edges[e, SOURCE]
                arrives[target + 1] += 1
        for s in range(1, arrives.size if turn == 0 else 0):
            arrives[s] += arrives[s - 1]


@inner(types.void(_i88, _i8, _i8, _i8, _i8, _i4, _i4, _i44))
def _spread(edges, last, offset, start, part, begun, parts, room):  # type: ignore[no-untyped-def]
    """Marks what plain edges reach from a state as a part. edges: the rule's end at `last`. begun: of _places."""
    parts[start] = part
    room[0, 0] = start
    count = 1
    while count > 0:
        count -= 1
        state = room[count, 0] - offset
        low = begun[offset + state] if begun[offset + state] >= 0 else last
        while low < last and edges[low, SOURCE] == state:
            target = offset + edges[low, TARGET]
            if edges[low, ACTION] == NOTHING and parts[target] != part:
                parts[target] = part
                room[count, 0] = target
                count += 1
            low += 1


@inner(types.void(_i88, _i88, _i8s, _i8s, _i4, _i44, _i44, _i4))
def _places(edges, calls, offsets, kinds, parts, of_rule, room, begun):  # type: ignore[no-untyped-def]
    """Fills `parts` and `of_rule`; and `begun`, by state, with its first edge, -1 for none."""
    of_rule[:] = -1
    begun[:] = -1
    for e in range(edges.shape[0] - 1, -1, -1):
        begun[offsets[edges[e, OWNER]] + edges[e, SOURCE]] = e
    first = 0
    while first < edges.shape[0]:
        owner, last = edges[first, OWNER], first + 1
        while last < edges.shape[0] and edges[last, OWNER] == owner:
            last += 1
        offset = _i8(offsets[owner])
        for turn in range(2 if kinds[owner] == MEMBERS else 0):
            for e in range(first, last):
                action, target = edges[e, ACTION], offset + edges[e, TARGET]
                opens, ends = action == OPEN_KEY, action == CLOSE_KEY or action >= KEY
                part = INSIDE if turn == 0 else BEHIND
                if (opens if turn == 0 else ends) and parts[target] != part:
                    _spread(edges, _i8(last), offset, target, _i8(part), begun, parts, room)
                if opens and of_rule[owner, KEYS_BEGIN] < 0:
                    of_rule[owner, KEYS_BEGIN] = target
                if action == CLOSE_KEY:
                    of_rule[owner, FREE_KEYS] = 1
            of_rule[owner, FREE_KEYS] = max(of_rule[owner, FREE_KEYS], 0)
        first = last
    for c in range(calls.shape[0]):
        owner = calls[c, OWNER]
        if calls[c, CALL_ACTION] == WRITTEN and of_rule[owner, AFTER_VALUE] < 0:
            of_rule[owner, AFTER_VALUE] = offsets[owner] + calls[c, CALL_TARGET]


@entry(_i8(_i88, _i8s, _u1, _i4, _i4, _i4, _i44, _i44, _i4))
def _reach(edges, offsets, single, into, arrives, begins, reach, room, seen):  # type: ignore[no-untyped-def]
    """Goes back from every declared key's end, nearest first: counts into `begins` what lies there, and once there is
    room fills `reach`. Returns how much it is. room: (state, bytes) to go on from. seen: by state, at first 0."""
    filling, total = reach.shape[0] > 0, 0
    for e in range(edges.shape[0]):
        if edges[e, ACTION] < KEY or single[edges[e, BYTE_LOW]] == 0:
            continue
        offset = offsets[edges[e, OWNER]]
        room[0, 0], room[0, 1] = offset + edges[e, SOURCE], 1
        mark = -2 - e if filling else 1 + e
        seen[room[0, 0]] = mark
        head, tail = 0, 1
        while head < tail:
            state, far = room[head, 0], room[head, 1]
            head += 1
            total += 1
            if filling:
                reach[begins[state], 0], reach[begins[state], 1] = edges[e, ACTION] - KEY, far
            begins[state + (0 if filling else 1)] += 1
            for k in range(arrives[state], arrives[state + 1]):
                if seen[into[k]] != mark:
                    seen[into[k]] = mark
                    room[tail, 0], room[tail, 1] = into[k], far + 1
                    tail += 1
    if not filling:
        for s in range(begins.size - 1):
            begins[s + 1] += begins[s]
    else:
        for s in range(begins.size - 1, 0, -1):
            begins[s] = begins[s - 1]
        begins[0] = 0
    return _i8(total)


@entry(_i8(_i88, _i88, _i8s, _i8s, _u1, _i4, _i44, _i4, _i4, _i4, _i44, _i4))
def _measure(edges, calls, offsets, kinds, single, parts, of_rule, into, arrives, begins, room, seen):  # type: ignore[no-untyped-def]
    """All but `reach`; returns how much that is."""
    _arrivals(edges, offsets, kinds, single, into, arrives)
    _places(edges, calls, offsets, kinds, parts, of_rule, room, seen)
    seen[:] = 0
    return _reach(edges, offsets, single, into, arrives, begins, room[:0], room, seen)
