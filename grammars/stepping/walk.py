"""One byte of one set of threads, compiled: the step that masks, accepting and forced text are made of.

A thread is a row (state, register, node, key, origin): where the running frame stands, the frames below it (arena.py),
the free key that is open (0: none; only followed when `exact`), and the depth of the stack at the walk's start, which
tells how deep a walk looked. Threads of one depth of a walk lie next to each other in one buffer.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import (
    DEPTH,
    FEW,
    FIXED,
    KEYS,
    LEFT,
    NEST,
    NODES,
    OPENED,
    PARENT,
    PASS,
    REGISTER,
    RETURN,
    SETS,
    STATUS,
    TEXT,
    WITHIN,
    intern_node,
    intern_pair,
    say,
)
from ..binding.context import (
    CONTEXT_TYPE,
    calls_of,
    classes_of,
    counts_of,
    distance_of,
    edges_of,
    first_of,
    go_of,
    nodes_of,
    pairs_of,
    queue_of,
    report_of,
    rules_of,
    states_of,
    threads_of,
)
from ..binding.tables import (
    BACK,
    BASE,
    CALLED_RULE,
    CALLEE,
    CALLS,
    CALLS_END,
    COPIED,
    COUNTER,
    DECODED,
    DISTINCT,
    FAR,
    FINAL,
    FREELY,
    HAS_FREE,
    HIGH,
    KIND,
    LOOSE,
    LOW,
    MEMBERS,
    NARROW,
    ON_RETURN,
    PART,
    PLATEAU,
    RULE,
    TIGHT,
    TWICE,
    UNLIKE,
    act,
    ample,
    contains,
    returns,
)
from ..ir import CLOSE_KEY, COUNT, KEY, NEXT_KEY, NOTHING, OPEN_KEY
from ..jit import inner, shared
from .alike import among_alike, begin_item, end_alike, outdone
from .closing import remaining
from .item_text import value_of
from .key_text import read_key
from .members import doubtful as judged_late
from .members import write

STATE, REG, NODE, OPEN, ORIGIN = 0, 1, 2, 3, 4  # columns of a thread
# slots of `report`: of steps, moves that only an exact test can judge and frames of the first stack looked into; of
# walks (masking.py), the largest U seen, how many tokens are marked, and the nodes after which to give up (0: none); of
# another.closest which thread it was
CROSSED, LOOKED, WORST, MARKED, ALLOWED, CLOSEST = 0, 1, 2, 3, 4, 5
REPORT = 6
# What report[CROSSED] counts of one step: keys ended, from 1 on, and of unlike items whether one ended, moved to where
# few values are left, or began (with FEWER: where it begins few are left). A token has at most 256 of each.
ENDED, FEWER, BEGUN = 1 << 9, 1 << 18, 1 << 27
CROWDED, ARENA_FULL = -1, -2  # kinds of trouble, as entries tell them
QUEUE = 512  # frames that one thread may enter or leave for one byte before there must be more room
_RECENT = 64  # of these, those that another is compared with: what is entered twice lies close together
_LAST_PASS = 0x7FFFFFFF

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _add(context, low, high, state, register, node, key, origin):  # type: ignore[no-untyped-def]
    """Adds a thread to [low, high) unless it is there; returns the new end, -1 when the buffer is full."""
    threads = threads_of(context)
    for k in range(low, high):
        if (threads[k, STATE] == state and threads[k, REG] == register and threads[k, NODE] == node
                and threads[k, OPEN] == key):
            threads[k, ORIGIN] = max(threads[k, ORIGIN], origin)
            return high
    if register > 0 and among_alike(context, state):
        for k in range(low, high):
            if threads[k, STATE] == state and threads[k, NODE] == node and threads[k, REG] > 0:
                kept = _i8(threads[k, REG])
                if outdone(context, register, kept) or outdone(context, kept, register):
                    threads[k, REG] = kept if outdone(context, register, kept) else register
                    threads[k, ORIGIN] = max(threads[k, ORIGIN], origin)
                    return high
    if high >= threads.shape[0]:
        return _i8(-1)
    threads[high, STATE] = state
    threads[high, REG] = register
    threads[high, NODE] = node
    threads[high, OPEN] = key
    threads[high, ORIGIN] = origin
    return high + 1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def _scarce(context, node, state, register):  # type: ignore[no-untyped-def]
    """Whether a frame over a node that comes to a state may run out of values for the item it is in."""
    status = nodes_of(context)[node, STATUS]
    return status & FIXED != 0 or (status & FEW != 0 and not ample(context, state, register))


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8, _i8, _i8, _i8, _i8))
def _move(context, low, high, entry, state, register, node, key, origin, byte):  # type: ignore[no-untyped-def]
    """Follows a byte edge (an entry of `go`) in walk mode or, when key >= 0, exactly; returns the new end."""
    states, rules, edges, report = states_of(context), rules_of(context), edges_of(context), report_of(context)
    exact = 1 if key >= 0 else 0
    target, action = _i8(entry), _i8(NOTHING)
    if entry <= -2:
        target, action = _i8(edges[-2 - entry, 1]), _i8(edges[-2 - entry, 2])
        if states[state, KIND] == MEMBERS:
            register = write(context, state, register, action, max(key, 0), exact)
        else:
            register = act(context, state, register, action, max(key, 0), exact)
        if register < 0:
            return high
    if exact == 1 and key > 0:
        if action in (CLOSE_KEY, NEXT_KEY) or action >= KEY:
            key = _i8(0)
        else:
            decoded = rules[states[state, RULE], DECODED] == 1
            key = read_key(context, key, byte) if decoded else intern_pair(context, KEYS, key, byte)
            if key == 0:  # the arena is full, and the step will be made again
                return high
    if states[state, KIND] == DISTINCT:
        if action in (CLOSE_KEY, NEXT_KEY) or states[target, PART] == NARROW:
            report[CROSSED] += 1
        if action in (OPEN_KEY, NEXT_KEY) and exact == 1:
            key = _i8(1)
    elif states[state, KIND] == MEMBERS:
        if judged_late(context, target, register, action):
            report[CROSSED] += 1
        if action == OPEN_KEY and exact == 1 and rules[states[state, RULE], HAS_FREE] == 1:
            key = _i8(1)
    among = states[target, KIND] == UNLIKE and states[target, FINAL] == 0 and not among_alike(context, target)
    if among and not ample(context, target, register):
        report[CROSSED] |= BEGUN | FEWER
    elif _scarce(context, node, target, register):
        report[CROSSED] |= FEWER
    doubtful = states[target, LOOSE] != 1 or exact == 1
    if doubtful and remaining(context, target, register, max(key, 0), exact) >= _FAR:
        return high
    return _add(context, low, high, target, register, node, max(key, 0), origin)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def enter(context, call, state, register, node, exact):  # type: ignore[no-untyped-def]
    """The stack node over which call number `call` of a frame in `state` runs; -1: blocked, 0: the arena is full. An
    item that may have to be written twice is marked: what it costs is told with a text of the answer only."""
    calls, states, rules = calls_of(context), states_of(context), rules_of(context)
    back = _i8(calls[call, BACK])
    if states[state, KIND] == MEMBERS:
        after = write(context, state, register, _i8(calls[call, ON_RETURN]), _i8(0), exact)
    else:
        after = act(context, state, register, _i8(calls[call, ON_RETURN]), _i8(0), exact)
    if after < 0:
        return _i8(-1)
    cost = remaining(context, back, after, _i8(0), exact)
    if cost >= _FAR:
        return _i8(-1)
    kind, low, status = states[back, KIND], rules[states[back, RULE], LOW], _i8(nodes_of(context)[node, STATUS])
    used = 1 if kind >= DISTINCT and after > low else 0
    if among_alike(context, back):
        used *= 2
        if states[back, PART] == FREELY:
            status |= WITHIN if after > 0 else 0
        else:
            after, used = begin_item(context, back, after), 2
            if counts_of(context)[TEXT] == 0:
                report_of(context)[CROSSED] |= BEGUN | FEWER
            elif after == 0:
                return _i8(0)
            status |= FEW | FIXED | WITHIN if states[back, PART] == COPIED else WITHIN
    elif kind == UNLIKE:
        used, status = 2 * used, _i8(FEW | WITHIN | (status & FIXED))
    elif status & FEW != 0 and ample(context, back, after):
        status ^= FEW
    over = intern_node(context, node, back, after, cost, _i8(used), status)
    if kind == UNLIKE:
        report_of(context)[CROSSED] |= BEGUN
        if over > 0 and counts_of(context)[TEXT] > 0:
            nodes_of(context)[over, NEST] = pairs_of(context)[counts_of(context)[TEXT], OPENED] >> 2
    return over


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def end_item(context, state, register, entry):  # type: ignore[no-untyped-def]
    """The register of a list whose items are compared and whose frame goes on in `state`, where one has just ended;
    -1: it may not be there, or the arena is full. entry: what `go` says to the next byte. Without a text of the answer,
    which only exact steps have, the move is marked."""
    if entry == -1:
        return _i8(-1)
    if states_of(context)[state, PART] == FREELY:
        return register
    if counts_of(context)[TEXT] == 0:
        report_of(context)[CROSSED] |= ENDED
        return _i8(0) if states_of(context)[state, PART] in (TWICE, COPIED) else register
    if among_alike(context, state):
        return end_alike(context, state, register)
    value = value_of(context)
    if value == 0 or contains(context, register, value):
        return _i8(-1)
    first = _i8(-1 - states_of(context)[state, RULE])
    return intern_pair(context, SETS, register if register > 0 else first, value)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _enqueue(context, tail, state, register, node):  # type: ignore[no-untyped-def]
    """Adds (state, register, node) to the queue unless it is among the last; -1 when it is full."""
    queue = queue_of(context)
    for k in range(max(0, tail - _RECENT), tail):
        if queue[k, 0] == state and queue[k, 1] == register and queue[k, 2] == node:
            return tail
    if tail < 0 or tail >= queue.shape[0]:
        return _i8(-1)
    queue[tail, 0] = state
    queue[tail, 1] = register
    queue[tail, 2] = node
    return tail + 1


@inner(types.void(CONTEXT_TYPE))
def _begin_pass(context):  # type: ignore[no-untyped-def]
    """Begins a pass, in which no frame was left yet."""
    counts, nodes = counts_of(context), nodes_of(context)
    if counts[PASS] == _LAST_PASS:
        counts[PASS] = 0
        for node in range(counts[NODES]):
            nodes[node, LEFT] = 0
    counts[PASS] += 1


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _leaves(context, node):  # type: ignore[no-untyped-def]
    """Whether a thread in whose frame no key is open still has to leave the frame above a node: within one pass it is
    enough that one does, since what follows depends on the node alone."""
    nodes, current = nodes_of(context), counts_of(context)[PASS]
    if nodes[node, LEFT] == current:
        return False
    nodes[node, LEFT] = current
    return True


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _step_thread(context, at, low, high, byte, exact):  # type: ignore[no-untyped-def]
    """Adds the successors of threads[at] to [low, high); follows calls and returns in a queue. Returns the new end."""
    go, states, calls, first = go_of(context), states_of(context), calls_of(context), first_of(context)
    threads, queue, nodes, report = threads_of(context), queue_of(context), nodes_of(context), report_of(context)
    c = classes_of(context)[byte]
    key, origin = _i8(threads[at, OPEN]), _i8(threads[at, ORIGIN])
    queue[0, 0], queue[0, 1], queue[0, 2] = threads[at, STATE], threads[at, REG], threads[at, NODE]
    head, tail = 0, 1
    while head < tail:
        state, register, node = _i8(queue[head, 0]), _i8(queue[head, 1]), _i8(queue[head, 2])
        head += 1
        entry = go[state, c]
        if entry != -1:
            high = _move(context, low, high, _i8(entry), state, register, node,
                         key if exact == 1 else _i8(-1), origin, _i8(byte))
            if high < 0:
                return _i8(-1)
        for call in range(states[state, CALLS], states[state, CALLS_END]):
            if first[calls[call, CALLED_RULE], c] == 1:
                over = enter(context, _i8(call), state, register, node, exact)
                if over == 0:
                    return _i8(-1)
                if over > 0:
                    tail = _enqueue(context, tail, _i8(calls[call, CALLEE]), _i8(0), over)
        if (states[state, FINAL] == 1 and returns(context, state, register)
                and (key > 0 or _leaves(context, node))):
            report[LOOKED] = max(report[LOOKED], origin - nodes[node, DEPTH] + 1)
            back, kept = _i8(nodes[node, RETURN]), _i8(nodes[node, REGISTER])
            if node > 0 and states[back, KIND] == UNLIKE:
                kept = end_item(context, back, kept, _i8(go[back, c]))
            if node > 0 and kept >= 0:
                tail = _enqueue(context, tail, back, kept, _i8(nodes[node, PARENT]))
        if tail < 0:
            return _i8(-1)
    return high


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def glide(context, at, byte, exact):  # type: ignore[no-untyped-def]
    """The common case of a step, apart for speed: one thread, threads[at], in a state without calls or return.

    Writes its successor to threads[at + 1] and returns 1; 0 when there is none; -1 when the case is not so simple.
    """
    states, rules, edges, threads = states_of(context), rules_of(context), edges_of(context), threads_of(context)
    state = threads[at, STATE]
    if states[state, FINAL] == 1 or states[state, CALLS] != states[state, CALLS_END] or threads[at, OPEN] != 0:
        return -1
    entry = go_of(context)[state, classes_of(context)[byte]]
    if entry == -1:
        return 0
    register = threads[at, REG]
    if entry <= -2:
        rule = states[state, RULE]
        if states[state, KIND] != COUNTER or edges[-2 - entry, 2] != COUNT:
            return -1
        high, low = rules[rule, HIGH], rules[rule, LOW]
        if high >= 0 and register >= high:
            return 0
        register = register + 1 if high >= 0 else min(register + 1, low)
        entry = edges[-2 - entry, 1]
    elif states[state, KIND] > COUNTER and (exact == 1 or rules[states[state, RULE], TIGHT] >= 1):
        return -1
    if _scarce(context, _i8(threads[at, NODE]), _i8(entry), _i8(register)):
        return -1
    if states[entry, KIND] == UNLIKE and states[entry, FINAL] == 0:  # few values may be left there
        return -1
    if states[entry, LOOSE] == 0:
        if states[entry, KIND] != COUNTER:
            return -1
        rule = states[entry, RULE]
        column = min(register, rules[rule, LOW]) + max(0, register - rules[rule, PLATEAU])
        if distance_of(context)[states[entry, BASE] + column] >= _FAR:
            return 0
    threads[at + 1, STATE] = entry
    threads[at + 1, REG] = register
    threads[at + 1, NODE] = threads[at, NODE]
    threads[at + 1, OPEN] = 0
    threads[at + 1, ORIGIN] = threads[at, ORIGIN]
    return 1


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def step(context, low, high, byte, exact):  # type: ignore[no-untyped-def]
    """Successors of threads[low:high] on a byte, written from `high` on; returns their end, -1 in trouble.

    Adds to report[CROSSED] the free keys ended, moves to where one has finitely many ends, and what unlike items did;
    report[LOOKED]: frames of the walk's first stack looked into. Trouble: too many threads, or a full arena (its counts
    say so).
    """
    threads, end, last = threads_of(context), high, _i8(-1)
    falling = threads[low, ORIGIN] > threads[high - 1, ORIGIN]
    for k in range(high - low):
        at = low + k if falling else high - 1 - k
        if last < threads[at, ORIGIN]:  # a pass leaves a frame once, so by the largest origin first
            _begin_pass(context)
        last = _i8(threads[at, ORIGIN])
        end = _step_thread(context, _i8(at), high, end, byte, exact)
        if end < 0:
            return _i8(-1)
    return end


@inner(types.void(CONTEXT_TYPE, _i8, _i8, _i8))
def heed(context, low, high, byte):  # type: ignore[no-untyped-def]
    """Adds a byte to the text of the answer, or begins it where one of threads[low:high] has just begun a list of
    unlike items. For exact steps, behind each."""
    counts, states, threads = counts_of(context), states_of(context), threads_of(context)
    if counts[TEXT] > 0:
        counts[TEXT] = say(context, _i8(counts[TEXT]), byte)
        return
    for k in range(low, high):
        if states[threads[k, STATE], KIND] == UNLIKE:
            counts[TEXT] = say(context, _i8(1), byte)
            return


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def keep(context, low, high):  # type: ignore[no-untyped-def]
    """Moves threads[low:high] to the front; returns how many they are."""
    threads = threads_of(context)
    for at in range(low, high):
        for c in range(5):
            threads[at - low, c] = threads[at, c]
    return high - low
