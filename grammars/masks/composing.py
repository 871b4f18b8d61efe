"""A mask composed of finished rows and walks, in the room of its explorer: what Python calls for each new mask.

A thread whose state has a body (body_walk.py) takes the rows of that body; the tokens that leave it are walked once for
all that leave alike, by the trie of what they hold behind that place (its *tail*). Other threads are walked together.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ..binding.arena import FULL, KEYS, NODES, PARENT, REGISTER, RETURN, SETS, undo
from ..binding.context import (
    BODY,
    CONTEXT_TYPE,
    TRIE,
    body_tokens_of,
    byte_of,
    costs_of,
    counts_of,
    full_of,
    go_of,
    groups_of,
    ids_of,
    local_of,
    marked_of,
    nodes_of,
    offsets_of,
    report_of,
    row_of,
    rows_of,
    rules_of,
    size_of,
    states_of,
    tails_of,
    threads_of,
    twin_of,
    words_of,
)
from ..binding.tables import CALLS, CALLS_END, COUNTER, FINAL, HIGH, KIND, LOW, PLATEAU, RULE, returns
from ..bodies.body_costs import BLOCKED, cost_after
from ..bodies.body_walk import (
    AFTER,
    AT,
    BEGIN,
    BIG,
    COUNTS,
    END,
    FINISH,
    FROM,
    RETURNED,
    TAKEN,
    TOKEN,
    WITH,
    clear_bits,
    set_bits,
)
from ..jit import entry, inner
from ..stepping.walk import ARENA_FULL, LOOKED, MARKED, NODE, OPEN, ORIGIN, REG, STATE, WORST
from .masking import LOCAL, ROW, WORDS, walk

# Columns of tails: those of exits, TAKEN being the most counts taken, and which rows of ids: token (-1: none of the
# body's), counts taken.
FIRST, LAST = 4, 5
ALIKE, RETURNING, APART = 0, 1, 2
_BIG = 1 << 10  # tokens whose bits take as long as a row

_i8, _i4, _i44 = types.int64, types.int32[::1], types.int32[:, ::1]
_TAILS, _TRIE = 8 * BODY.end, 8 * TRIE.end  # bytes before the tries of the tails, and of each


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8))
def _put(context, body, g, allow):  # type: ignore[no-untyped-def]
    """Sets the bits of a group in the room's row, or clears them (allow 0)."""
    group, tokens, twin, row = groups_of(body)[g], body_tokens_of(body), twin_of(context), row_of(context)
    if group[BIG] >= 0:
        big = rows_of(body)[group[BIG]]
        for w in range(big.size):
            row[w] = row[w] | big[w] if allow == 1 else row[w] & ~big[w]
    for k in range(group[BEGIN], group[FINISH]):
        if allow == 1:
            set_bits(row, twin, _i8(tokens[k]))
        else:
            clear_bits(row, twin, _i8(tokens[k]))


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i4, _i8, _i8))
def _lay(context, body, numbers, register, limit):  # type: ignore[no-untyped-def]
    """Sets the bits of the groups that cost at most `limit` in the room's row, which is empty; returns the most that
    one costs, -BLOCKED without any. Groups share no token: where fewer do not fit, all are set and these cleared."""
    groups, full, row = groups_of(body), full_of(body), row_of(context)
    worst, fitting, others = _i8(-BLOCKED), 0, 0
    for g in range(groups.shape[0]):
        cost = cost_after(context, _i8(numbers[groups[g, 0]]), register, _i8(groups[g, 1]))
        weight = _BIG if groups[g, BIG] >= 0 else groups[g, FINISH] - groups[g, BEGIN]
        if cost <= limit:
            worst = max(worst, cost)
            fitting += weight
        else:
            others += weight
    allow = _i8(0 if others == 0 or others < fitting else 1)
    for w in range(full.size if allow == 0 else 0):
        row[w] = full[w]
    if others > 0:
        for g in range(groups.shape[0]):
            cost = cost_after(context, _i8(numbers[groups[g, 0]]), register, _i8(groups[g, 1]))
            if (cost <= limit) == (allow == 1):
                _put(context, body, _i8(g), allow)
    return worst


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def _leave(context, state, register, way):  # type: ignore[no-untyped-def]
    """Puts the room's threads[0], which is where it entered a body, where it leaves it. way: WITH of the exit.

    False when it cannot leave."""
    states, rules, report = states_of(context), rules_of(context), report_of(context)
    thread = threads_of(context)[0]
    node = _i8(thread[NODE])
    if states[state, KIND] == COUNTER:
        high = rules[states[state, RULE], HIGH]
        if high >= 0 and register > high:
            return False
        if high < 0:
            register = min(register, _i8(rules[states[state, RULE], LOW]))
    if way == RETURNED:
        if not returns(context, state, register):
            return False
        report[LOOKED] = max(report[LOOKED], _i8(1))
        frame = nodes_of(context)[node]
        state, register, node = _i8(frame[RETURN]), _i8(frame[REGISTER]), _i8(frame[PARENT])
    thread[STATE], thread[REG], thread[NODE], thread[OPEN] = state, register, node, 0
    return True


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _how(context, state, register, reach, way):  # type: ignore[no-untyped-def]
    """In how far it matters how many counts were taken before leaving in `state`, of `reach` that can be felt:
    ALIKE, not at all; RETURNING, only for whether the frame may return; APART."""
    states, rules, go = states_of(context), rules_of(context), go_of(context)
    if states[state, KIND] != COUNTER:
        return _i8(ALIKE)
    rule = states[state, RULE]
    if register >= rules[rule, LOW] and (rules[rule, HIGH] < 0 or register + reach <= rules[rule, PLATEAU]):
        return _i8(ALIKE)
    if way == RETURNED:
        return _i8(RETURNING)
    if states[state, FINAL] == 0 or states[state, CALLS] != states[state, CALLS_END]:
        return _i8(APART)
    for c in range(go.shape[1]):
        if go[state, c] != -1:
            return _i8(APART)
    return _i8(RETURNING)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _ends(context, state, register):  # type: ignore[no-untyped-def]
    """Whether the counter allows this register, and a return with it."""
    states, rules = states_of(context), rules_of(context)
    rule = states[state, RULE]
    high, low = _i8(rules[rule, HIGH]), _i8(rules[rule, LOW])
    return (high < 0 or register <= high) and returns(context, state, register if high >= 0 else min(register, low))


@inner(types.void(CONTEXT_TYPE, CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _take(context, body, first, count, state, register, taken):  # type: ignore[no-untyped-def]
    """Adds the tokens whose local bits are set to the room's row: those that took `taken` counts; where it is -1, all;
    where it is -2, those with which `state` may return."""
    local, row, ids = local_of(context), row_of(context), ids_of(body)
    for w in range((count + 31) >> 5):
        if local[w] == 0:
            continue
        for t in range(first + 32 * w, first + min(32 * w + 32, count)):
            if (local[w] >> np.uint32((t - first) & 31)) & np.uint32(1) == 0:
                continue
            if ids[t, 0] < 0 or (taken >= 0 and ids[t, 1] != taken) or (
                    taken == -2 and not _ends(context, state, register + ids[t, 1])):
                continue
            row[ids[t, 0] >> 5] |= np.uint32(1) << np.uint32(ids[t, 0] & 31)


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i4, _i8, _i8))
def _walk_tails(context, body, numbers, limit, exact):  # type: ignore[no-untyped-def]
    """Adds to the room's row the tokens that leave a body. Returns trie nodes visited, -1 in trouble."""
    tails, ids, marked, local = tails_of(body), ids_of(body), marked_of(context), local_of(context)
    thread, report, longest = threads_of(context)[0], report_of(context), _i8(offsets_of(context).size)
    before, register, node, origin = thread[STATE], _i8(thread[REG]), thread[NODE], thread[ORIGIN]
    visited = _i8(0)
    for k in range(tails.shape[0]):
        state, way, most, first = _i8(numbers[tails[k, FROM]]), _i8(tails[k, WITH]), tails[k, TAKEN], tails[k, FIRST]
        how, count = _how(context, state, register, most + longest, way), _i8(tails[k, LAST] - first)
        trie = _i8(body + _TAILS + k * _TRIE)
        for taken in range(most + 1):
            thread[STATE], thread[REG], thread[NODE], thread[ORIGIN] = before, register, node, origin
            if how == RETURNING and not _ends(context, state, _i8(register + taken)):
                continue
            if not _leave(context, state, _i8(register + taken), way):
                continue
            local[: (count + 31) >> 5] = 0
            marks = report[MARKED]
            found = walk(context, trie, _i8(1), _i8(0), _i8(byte_of(trie).size), limit, exact, _i8(0), _i8(LOCAL))
            if found < 0:
                return _i8(-1)
            visited += found
            for m in range(marks, report[MARKED]):
                token, moves = ids[first + marked[m, 0], 0], marked[m, 1]
                if token >= 0:
                    marked[marks, 0], marked[marks, 1] = token, moves
                    marks += 1
            report[MARKED] = marks
            _take(context, body, _i8(first), count, state, register,
                  _i8(taken) if how == APART else _i8(-1) if how == ALIKE else _i8(-2))
            if how != APART:
                break
    thread[STATE], thread[REG], thread[NODE], thread[OPEN], thread[ORIGIN] = before, register, node, 0, origin
    return visited


@inner(_i8(CONTEXT_TYPE, _i44, _i8, _i8))
def _walk_exits(context, exits, limit, exact):  # type: ignore[no-untyped-def]
    """Adds to the room's row the tokens that leave a body by these exits. Returns trie nodes visited, -1 in trouble."""
    thread, size, visited = threads_of(context)[0], size_of(context), _i8(0)
    register, node, origin = _i8(thread[REG]), thread[NODE], thread[ORIGIN]
    for k in range(exits.shape[0]):
        thread[NODE], thread[ORIGIN] = node, origin
        if _leave(context, _i8(exits[k, FROM]), _i8(register + exits[k, TAKEN]), _i8(exits[k, WITH])):
            at = _i8(exits[k, AT])
            begin = at + 1 if exits[k, WITH] == AFTER else at
            found = walk(context, context, _i8(1), begin, at + size[at], limit, exact, _i8(0), _i8(ROW))
            if found < 0:
                return _i8(-1)
            visited += found
    return visited


@inner(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i4, _i4, _i44, _i44, _i8, _i8))
def _read_body(context, body, numbers, cut, found, exits, limit, exact):  # type: ignore[no-untyped-def]
    thread, report, words, row = threads_of(context)[0], report_of(context), words_of(context), row_of(context)
    register, below, twin = _i8(thread[REG]), costs_of(context)[thread[NODE]], twin_of(context)
    if thread[NODE] == 0 and states_of(context)[thread[STATE], FINAL] == 1:
        report[LOOKED] = max(report[LOOKED], _i8(1))  # there is no frame to return to
    for w in range(row.size):
        row[w] = 0
    worst = _lay(context, body, numbers, register, limit - below)
    visited = _walk_tails(context, body, numbers, limit, exact)
    if visited < 0:
        return _i8(-1)
    for k in range(cut.size):
        row[cut[k] >> 5] &= ~(np.uint32(1) << np.uint32(cut[k] & 31))
    for k in range(found.shape[0]):
        cost = cost_after(context, _i8(found[k, END]), register, _i8(found[k, COUNTS]))
        if cost <= limit - below:
            worst = max(worst, cost)
            set_bits(row, twin, _i8(found[k, TOKEN]))
    if worst > -BLOCKED:
        report[WORST] = max(report[WORST], worst + below)
    more = _walk_exits(context, exits, limit, exact)
    if more < 0:
        return _i8(-1)
    for w in range(row.size):
        words[w] |= row[w]
    return visited + more


@entry(_i8(CONTEXT_TYPE, CONTEXT_TYPE, _i4, _i4, _i44, _i44, _i8, _i8, _i8))
def read_body(context, body, numbers, cut, found, exits, limit, exact, fresh):  # type: ignore[no-untyped-def]
    """Adds to the room's words the tokens that the thread in threads[0] can read, by the body of its state.

    body: its rows, whose states have these `numbers`; less the tokens in `cut`; and the tokens found apart, and those
    that leave by `exits`. limit, exact: as for masking.walk. fresh: forgets the words and the report first.
    Returns trie nodes visited; in trouble CROWDED or ARENA_FULL (walk.py). The arena is left as it was.
    """
    counts = counts_of(context)
    nodes, keys, sets = counts[NODES], counts[KEYS], counts[SETS]
    if fresh == 1:
        report_of(context)[:] = 0
        words_of(context)[:] = 0
    visited = _read_body(context, body, numbers, cut, found, exits, limit, exact)
    full = counts[FULL] == 1
    undo(context, nodes, keys, sets)
    return _i8(ARENA_FULL) if full else visited


@entry(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def read_threads(context, count, begin, end, limit, exact, first_only, fresh):  # type: ignore[no-untyped-def]
    """Adds to the room's words the tokens of the trie nodes [begin, end) that threads[:count] can read; otherwise as
    masking.walk. fresh, result: as for read_body."""
    counts = counts_of(context)
    nodes, keys, sets = counts[NODES], counts[KEYS], counts[SETS]
    if fresh == 1:
        report_of(context)[:] = 0
        words_of(context)[:] = 0
    visited = walk(context, context, count, begin, end, limit, exact, first_only, _i8(WORDS))
    full = counts[FULL] == 1
    undo(context, nodes, keys, sets)
    return _i8(ARENA_FULL) if full else visited
