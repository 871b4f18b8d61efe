"""Most of the vocabulary at once: the tokens that a state reads without leaving its frame, ready as rows.

A *body* is the part of a rule's automaton that is reached from a state over plain edges and counts, without a call, a
return, or another action: the inside of a string, a key, a class that repeats. (Where a frame may return anywhere, as
in a string with a least length, the bytes that can follow are part of the body.) What the tokens do inside it depends
neither on the stack nor on the grammar around. So it is found once for all grammars of a vocabulary, by the spelling
of the body (`spell`), and kept as groups of tokens by (state in which they end, counts on the way). Tokens that leave
the body, as those with a closing quote in a string, are left to the walk, from the node of the trie where they leave.

A state near a body that repeats (a key that may yet be a declared one) is told by its difference from that body: both
are walked in step, and where they agree nothing is written.
"""

from __future__ import annotations

import numpy as np
from numba import types

from .arena import ARENA_TYPE, PARENT, REGISTER, RETURN
from .ir import COUNT
from .jit import kernel
from .masking import walk
from .stretches import NOTES, WORST
from .tables import (
    BASE,
    CALLS,
    CALLS_END,
    COUNTER,
    DISTINCT,
    FINAL,
    HIGH,
    KIND,
    LOOSE,
    LOW,
    PLAIN,
    PLATEAU,
    RULE,
    TABLES_TYPE,
    TIGHT,
    returns,
)
from .trie import TRIE_TYPE
from .walk import NODE, OPEN, ORIGIN, POPPED, REG, STATE

# what a byte does inside a body, where it is not a state
DEAD, LEAVES = -1, -2
# columns of found tokens; of exits: the node, where there, the state, counts before
TOKEN, END, COUNTS = 0, 1, 2
AT, WITH, FROM, TAKEN = 0, 1, 2, 3
# values of WITH: the walk goes on after the node's byte, before it, or before it and in the frame below
AFTER, BEFORE, RETURNED = 0, 1, 2
# columns of groups
BIG, BEGIN, FINISH = 2, 3, 4

_i8, _i4, _i44, _u4, _u44 = types.int64, types.int32[::1], types.int32[:, ::1], types.uint32[::1], types.uint32[:, ::1]
_i8s, _u1, _u11 = types.int64[::1], types.uint8[::1], types.uint8[:, ::1]
_CHAIN = 8  # steps from a state to the body that repeats


@kernel(_i8(TABLES_TYPE, _i8, _i8))
def inside(tables, state, byte):  # type: ignore[no-untyped-def]
    """2 * target + counts of a byte inside a body; DEAD; LEAVES when only a step of the walk can tell."""
    states, edges = tables[2], tables[5]
    target, counts = tables[1][state, tables[0][byte]], 0
    if target == -1:
        return _i8(DEAD)
    if target <= -2:
        edge = -2 - target
        if states[state, KIND] != COUNTER or edges[edge, 2] != COUNT:
            return _i8(LEAVES)
        target, counts = edges[edge, 1], 1
    return _i8(2 * target + counts) if states[target, LOOSE] == 1 else _i8(LEAVES)


@kernel(types.boolean(TABLES_TYPE, _i8, _i8))
def borders(tables, state, returning):  # type: ignore[no-untyped-def]
    """Whether a frame in this state may call, or heeds the keys written, or (unless `returning`) may return: the end of
    a body."""
    states = tables[2]
    if (states[state, FINAL] == 1 and returning == 0) or states[state, CALLS] < states[state, CALLS_END]:
        return True
    return states[state, KIND] >= DISTINCT and tables[3][states[state, RULE], TIGHT] >= 1


@kernel(_i8(TABLES_TYPE, _i8, _i8, _i4, _i4, _i4))
def spell(tables, start, returning, local, order, code):  # type: ignore[no-untyped-def]
    """Writes the body of `start` to `code`, the same for equal bodies; returns its length, -1 when it has no room.

    order: its states by local number; local[state]: that number plus 1 (0 before, and to be put back by the caller for
    the states of `order`, of which order[-1] holds how many).
    """
    last = order.size - 1
    order[0], order[last] = start, 1
    local[start] = 1
    at, length = 0, 0
    while at < order[last]:
        state = order[at]
        at += 1
        if length + 257 * 2 > code.size:
            return _i8(-1)
        border = borders(tables, _i8(state), returning)
        code[length] = -7 if border else -8 - tables[2][state, FINAL]
        length += 1
        if border:
            continue
        before = -10
        for byte in range(256):
            if byte > 0 and tables[0][byte] == tables[0][byte - 1]:
                continue
            to = inside(tables, _i8(state), _i8(byte))
            if to >= 0:
                target = to >> 1
                if local[target] == 0:
                    if order[last] >= last:
                        return _i8(-1)
                    order[order[last]] = target
                    order[last] += 1
                    local[target] = order[last]
                to = 2 * local[target] + (to & 1)
            if to != before:
                code[length], code[length + 1] = byte, to
                length += 2
                before = to
    return _i8(length)


@kernel(_i8(TABLES_TYPE, TRIE_TYPE, _i8, _i8, _u1, _i44, _i44, _i44, _i44, _i8s))
def explore(tables, trie, start, hub, after, stack, found, cuts, exits, sizes):  # type: ignore[no-untyped-def]
    """What the tokens do from `start`, where it is not what they do from `hub` (-1: everywhere).

    after: [256] the bytes that can follow when the frame returns, for bodies in which it may; else empty.

    found[:sizes[0]]: (token, state, counts) of those that stay inside. cuts[:sizes[1]]: trie nodes [low, high) at
    which the hub's own tokens and exits do not count. exits[:sizes[2]]. Returns the nodes visited, -1 without room.
    """
    byte, depth, size, token = trie[0], trie[1], trie[2], trie[3]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = start, 0, hub, 0
    sizes[0], sizes[1], sizes[2] = 0, 0, 0
    i, visited, returning = 0, 0, _i8(min(after.size, 1))
    while i < byte.size:
        d = depth[i]
        visited += 1
        state, counts, other, others = stack[d - 1, 0], stack[d - 1, 1], stack[d - 1, 2], stack[d - 1, 3]
        to, beside = inside(tables, _i8(state), _i8(byte[i])), _i8(DEAD)
        if other >= 0:
            beside = inside(tables, _i8(other), _i8(byte[i]))
        if to >= 0 and to == beside and counts == others:
            i += size[i]
            continue
        if returning == 1 and after[byte[i]] == 1 and tables[2][state, FINAL] == 1:
            if sizes[2] >= exits.shape[0]:
                return _i8(-1)
            exits[sizes[2], AT], exits[sizes[2], WITH] = i, RETURNED
            exits[sizes[2], FROM], exits[sizes[2], TAKEN] = state, counts
            sizes[2] += 1
        target, within = _i8(-1), False
        if to >= 0:
            target = to >> 1
            counts += to & 1
            within = not borders(tables, target, returning)
        other = -1
        if beside != DEAD:
            deeper = within and beside >= 0 and not borders(tables, beside >> 1, returning)
            if sizes[1] >= cuts.shape[0]:
                return _i8(-1)
            cuts[sizes[1], 0] = i
            cuts[sizes[1], 1] = i + 1 if deeper else i + size[i]
            sizes[1] += 1
            if deeper:
                other = beside >> 1
                others += beside & 1
        if to == DEAD:
            i += size[i]
            continue
        if target >= 0 and token[i] >= 0:
            if sizes[0] >= found.shape[0]:
                return _i8(-1)
            found[sizes[0], TOKEN], found[sizes[0], END], found[sizes[0], COUNTS] = token[i], target, counts
            sizes[0] += 1
        if within:
            stack[d, 0], stack[d, 1], stack[d, 2], stack[d, 3] = target, counts, other, others
            i += 1
            continue
        if target < 0 or size[i] > 1:
            if sizes[2] >= exits.shape[0]:
                return _i8(-1)
            exits[sizes[2], AT], exits[sizes[2], WITH] = i, BEFORE if target < 0 else AFTER
            exits[sizes[2], FROM], exits[sizes[2], TAKEN] = state if target < 0 else target, counts
            sizes[2] += 1
        i += size[i]
    return _i8(visited)


@kernel(_i8(TABLES_TYPE, _i8, _u1, _i44))
def hub_of(tables, state, likely, votes):  # type: ignore[no-untyped-def]
    """The state to which most of the bytes `likely` lead again and again; -1 when there is none. votes: room."""
    for _ in range(_CHAIN):
        count, most = 0, 0
        for k in range(likely.size):
            to = inside(tables, state, _i8(likely[k])) >> 1
            at = 0
            while at < count and votes[at, 0] != to:
                at += 1
            if at == count:
                votes[at, 0], votes[at, 1] = to, 0
                count += 1
            votes[at, 1] += 1
            if votes[at, 1] > votes[most, 1]:
                most = at
        target = _i8(votes[most, 0])
        if target < 0 or borders(tables, target, _i8(0)):
            return _i8(-1)
        if target == state:
            return target
        state = target
    return _i8(-1)


@kernel(_i8(TRIE_TYPE, _i44, _i8, _i4))
def tokens_in(trie, cuts, count, tokens):  # type: ignore[no-untyped-def]
    """Writes the tokens of the trie nodes in cuts[:count], twins included; returns how many, -1 without room."""
    total = 0
    for c in range(count):
        for i in range(cuts[c, 0], cuts[c, 1]):
            token = trie[3][i]
            while token >= 0:
                if total >= tokens.size:
                    return _i8(-1)
                tokens[total] = token
                total += 1
                token = trie[4][token]
    return _i8(total)


@kernel(types.void(_u4, _i4, _i8))
def _allow(words, twin, token):  # type: ignore[no-untyped-def]
    while token >= 0:
        words[token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        token = _i8(twin[token])


@kernel(types.void(_i44, _i44, _i4, _i4, _u44, _u4))
def arrange(found, groups, tokens, twin, rows, full):  # type: ignore[no-untyped-def]
    """Sorts found tokens, whose END is their group by now, into `tokens` or rows[groups[g, BIG]], and all into `full`.

    groups[g, FINISH] begins as BEGIN and ends as the end of the group in `tokens`.
    """
    for k in range(found.shape[0]):
        g, token = found[k, END], _i8(found[k, TOKEN])
        _allow(full, twin, token)
        if groups[g, BIG] >= 0:
            _allow(rows[groups[g, BIG]], twin, token)
        else:
            tokens[groups[g, FINISH]] = token
            groups[g, FINISH] += 1


@kernel(_i8(_i44, _i44, _i4, _i8, _i8, _i8))
def _cost(states, rules, distance, state, register, counts):  # type: ignore[no-untyped-def]
    """Bytes to the frame's end from `state` after that many counts; -1 when they are too many."""
    rule = states[state, RULE]
    low, high = rules[rule, LOW], rules[rule, HIGH]
    if states[state, KIND] == PLAIN:
        return _i8(distance[states[state, BASE]])
    if states[state, KIND] != COUNTER:
        return _i8(distance[states[state, BASE] + min(register, _i8(low))])
    register += counts
    if high >= 0 and counts > 0 and register > high:
        return _i8(-1)
    column = min(register, _i8(low)) + max(_i8(0), register - rules[rule, PLATEAU])
    return _i8(distance[states[state, BASE] + column])


@kernel(_i8(TABLES_TYPE, _i44, _i4, _i44, _i4, _i4, _u44, _u4, _i8, _i8, _u4))
def _lay(tables, groups, tokens, found, twin, numbers, rows, full, register, limit, row):  # type: ignore[no-untyped-def]
    """Sets the bits of the groups, and of `found`, that cost at most `limit`; returns the most that one costs."""
    states, rules, distance = tables[2], tables[3], tables[7]
    worst, all_fit = _i8(-1), True
    for g in range(groups.shape[0]):
        cost = _cost(states, rules, distance, _i8(numbers[groups[g, 0]]), register, _i8(groups[g, 1]))
        fits = 0 <= cost <= limit
        all_fit = all_fit and fits
        if fits:
            worst = max(worst, cost)
    if all_fit:
        for w in range(full.size):
            row[w] |= full[w]
        return worst
    for g in range(groups.shape[0]):
        cost = _cost(states, rules, distance, _i8(numbers[groups[g, 0]]), register, _i8(groups[g, 1]))
        if cost < 0 or cost > limit:
            continue
        if groups[g, BIG] >= 0:
            big = rows[groups[g, BIG]]
            for w in range(big.size):
                row[w] |= big[w]
        for k in range(groups[g, BEGIN], groups[g, FINISH]):
            _allow(row, twin, _i8(tokens[k]))
    return worst


@kernel(_i8(TABLES_TYPE, ARENA_TYPE, TRIE_TYPE, _i44, _i4, _i4, _u44, _u4, _i4, _i44, _i44, _i44, _i8, _i8, _u4, _u4,
               _i44, _i8s, _i44, _i8s, _i8s, _i44, _u11, _i44))
def read_body(  # type: ignore[no-untyped-def]
    tables, arena, trie, groups, tokens, numbers, rows, full, cut, found, exits, threads, limit, exact, row, words,
    marked, report, queue, offsets, crossed, stretches, kinds, known,
):
    """Adds to `words` the tokens that the thread in threads[0] can read, by the body of its state.

    groups, tokens, rows and full: of a body whose states have these `numbers`; less the tokens in `cut`; and
    the tokens found apart. exits: where the walk goes on. The rest as `walk` has it. row: room. Returns trie nodes
    visited, -1 in trouble.
    """
    states, rules, distance, size, twin = tables[2], tables[3], tables[7], trie[2], trie[4]
    register, node, origin = _i8(threads[0, REG]), _i8(threads[0, NODE]), _i8(threads[0, ORIGIN])
    below = arena[1][node]
    for w in range(row.size):
        row[w] = 0
    worst = _lay(tables, groups, tokens, found, twin, numbers, rows, full, register, limit - below, row)
    for k in range(cut.size):
        row[cut[k] >> 5] &= ~(np.uint32(1) << np.uint32(cut[k] & 31))
    for k in range(found.shape[0]):
        cost = _cost(states, rules, distance, _i8(found[k, END]), register, _i8(found[k, COUNTS]))
        if 0 <= cost <= limit - below:
            worst = max(worst, cost)
            _allow(row, twin, _i8(found[k, TOKEN]))
    if worst >= 0:
        report[WORST] = max(report[WORST], worst + below)
    visited = _i8(0)
    for k in range(exits.shape[0]):
        state = exits[k, FROM]
        after = register + exits[k, TAKEN]
        if states[state, KIND] == COUNTER:
            high = rules[states[state, RULE], HIGH]
            if high >= 0 and after > high:
                continue
            if high < 0:
                after = min(after, _i8(rules[states[state, RULE], LOW]))
        threads[0, STATE], threads[0, REG], threads[0, NODE] = state, after, node
        if exits[k, WITH] == RETURNED:
            if not returns(tables, _i8(state), after):
                continue
            report[NOTES + POPPED] = max(report[NOTES + POPPED], _i8(1))
            frame = arena[0][node]
            threads[0, STATE], threads[0, REG], threads[0, NODE] = frame[RETURN], frame[REGISTER], frame[PARENT]
        threads[0, OPEN], threads[0, ORIGIN] = 0, origin
        at = _i8(exits[k, AT])
        begin = at + 1 if exits[k, WITH] == AFTER else at
        nodes = walk(tables, arena, trie, threads, _i8(1), begin, at + size[at], limit, exact, row, marked,
                     report, _i8(0), queue, offsets, crossed, stretches, kinds, known)
        if nodes < 0:
            return _i8(-1)
        visited += nodes
    for w in range(row.size):
        words[w] |= row[w]
    return visited
