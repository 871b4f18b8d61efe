"""Another value: how far an item of a list of unlike items is from an end that none of those written has.

Most places need no look: from them more values follow than a list ever holds (ample.py), or what is written of the item
is in none of the others (rivals.py). Else a way to an unused value is searched, also where a budget is near its end,
byte by byte along the engine's own steps, first where the end is nearest, from the last choice back. The search spells
values in one way (no blanks, no escape that a character does not need), but keys in any order. The length of its way,
with U behind the item, is U: who follows it finds the same way again from each place, a byte shorter, so U is safe. So
it is where the way leads to a place that needs no look, as no place on it may be further from the end than the way:
there U is what distances say, with the prices of items that a list must have. A search that takes too long finds
nothing; since one that begins on the way of another is shorter, no text runs into a dead end by that.
"""

from __future__ import annotations

from numba import types

from ..binding.arena import (
    DEPTH,
    FEW,
    FULL,
    KEYS,
    NODES,
    PARENT,
    REGISTER,
    RETURN,
    SETS,
    SPELLED,
    STATUS,
    TEXT,
    USED,
    undo,
)
from ..binding.context import (
    CONTEXT_TYPE,
    classes_of,
    costs_of,
    counts_of,
    go_of,
    nodes_of,
    pairs_of,
    report_of,
    rules_of,
    single_of,
    states_of,
    threads_of,
    trail_of,
)
from ..binding.tables import (
    COPIED,
    DECODED,
    FAR,
    FINAL,
    KIND,
    PART,
    RULE,
    SURPLUS,
    TWICE,
    UNLIKE,
    ample,
    contains,
    returns,
)
from ..jit import inner, shared
from .alike import among_alike
from .alike_costs import bytes_in_item, dearer
from .closing import remaining
from .item_text import value_of
from .rivals import has_rivals
from .walk import CLOSEST, NODE, OPEN, REG, STATE, heed, step

# columns of the trail: of a prefix, where its threads end, the answer so far, the next byte to try (from 256 on
# once more, of those that bring the end no nearer), bytes to the nearest end
END, ANSWER, NEXT, NEAR = 0, 1, 2, 3
_MOST = 20_000  # steps of one search
_LENGTH = 2  # column of a key: its bytes
_BACKSLASH = 0x5C
ANY = 1 << 50  # a limit that asks for no U, only whether there is an end

_i8 = types.int64
_FAR = FAR


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _floor(context, at, exact):  # type: ignore[no-untyped-def]
    """The node of the outermost list that threads[at] must give another value; 0: its own frame is that list; -1:
    none. What is written again, as it was, needs none inside; exact 0: but for what may become another value yet."""
    nodes, threads, states = nodes_of(context), threads_of(context), states_of(context)
    node, found = _i8(threads[at, NODE]), _i8(-1)
    if states[threads[at, STATE], KIND] == UNLIKE and threads[at, REG] > 0:
        found = _i8(-1 if among_alike(context, _i8(threads[at, STATE])) else 0)
    while node > 0 and nodes[node, USED] & 2:
        back = _i8(nodes[node, RETURN])
        if among_alike(context, back):
            again = states[back, PART] == COPIED or (states[back, PART] == TWICE and exact == 1)
            found = _i8(-1) if again else found
        elif states[back, KIND] == UNLIKE and nodes[node, REGISTER] > 0:
            found = node
        node = _i8(nodes[node, PARENT])
    return found


@inner(_i8(CONTEXT_TYPE, _i8, _i8))
def _near(context, at, floor):  # type: ignore[no-untyped-def]
    """Bytes from threads[at] to the end of what is over a node, with what two equal items cost more; FAR or more: it
    cannot end."""
    return bytes_in_item(context, at, floor) + dearer(context, at, _i8(1))


@inner(_i8(CONTEXT_TYPE, _i8))
def _whole(context, at):  # type: ignore[no-untyped-def]
    """U of threads[at] where unlike items play no part."""
    thread = threads_of(context)[at]
    return costs_of(context)[thread[NODE]] + dearer(context, at, _i8(1)) + remaining(
        context, _i8(thread[STATE]), _i8(thread[REG]), _i8(thread[OPEN]), _i8(1))


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _ends(context, at, top):  # type: ignore[no-untyped-def]
    """Whether threads[at] stands at the end of the item over `top`, and its value, like those inside, is unused."""
    nodes, threads, states = nodes_of(context), threads_of(context), states_of(context)
    state, register, node = _i8(threads[at, STATE]), _i8(threads[at, REG]), _i8(threads[at, NODE])
    while states[state, FINAL] == 1 and returns(context, state, register) and node > 0:
        state, register = _i8(nodes[node, RETURN]), _i8(nodes[node, REGISTER])
        if states[state, KIND] == UNLIKE:
            value = value_of(context)
            if value == 0 or contains(context, register, value):
                return False
        if node == top:
            return True
        node = _i8(nodes[node, PARENT])
    return False


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def _found(context, at, top, node, register):  # type: ignore[no-untyped-def]
    """Whether threads[at] has what is searched: the item's end over `top`, or, where that is 0, one more item in the
    list over `node`, whose register was `register`, or its end."""
    if top > 0:
        return _ends(context, at, top)
    thread, states = threads_of(context)[at], states_of(context)
    return thread[NODE] == node and states[thread[STATE], KIND] == UNLIKE and (
        thread[REG] != register or states[thread[STATE], FINAL] == 1)


@inner(_i8(CONTEXT_TYPE, _i8))
def _comma_price(context, state):  # type: ignore[no-untyped-def]
    """What the comma that leads to a state of a list costs beside its byte: behind it distances have it no more."""
    row = states_of(context)[state]
    return _i8(rules_of(context)[row[RULE], SURPLUS] if row[FINAL] == 0 else 0)


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _escaped(context, key):  # type: ignore[no-untyped-def]
    """Whether the answer so far ends inside an escape."""
    pairs, odd = pairs_of(context), False
    while key > 1 and pairs[key, 1] == SPELLED + _BACKSLASH:
        key, odd = _i8(pairs[key, 0]), not odd
    return odd


@inner(types.boolean(CONTEXT_TYPE, _i8))
def _only_zeros(context, state):  # type: ignore[no-untyped-def]
    """Whether nothing but zeros of a fraction may follow a point. Strings of any spelling have escapes."""
    if state < 0:
        return False
    row, classes = go_of(context)[state], classes_of(context)
    return row[classes[0x30]] != -1 and row[classes[0x31]] == -1 and row[classes[_BACKSLASH]] == -1


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8))
def _needless(context, key, byte, before):  # type: ignore[no-untyped-def]
    """Whether a byte goes on with an escape that is not needed: of a slash, or by number of what is no control. before:
    the answer where the search began; an escape that had begun there must be gone on with."""
    pairs, digits = pairs_of(context), 0
    while digits < 3 and pairs[key, 1] == SPELLED + 0x30:
        key, digits = _i8(pairs[key, 0]), digits + 1
    numbered = pairs[key, 1] == SPELLED + 0x75
    if numbered:
        key = _i8(pairs[key, 0])
    if pairs[key, _LENGTH] <= pairs[before, _LENGTH] or not _escaped(context, key):
        return False
    if not numbered:
        return digits == 0 and byte == 0x2F
    return digits < 3 and byte != 0x30 and not (digits == 2 and byte == 0x31)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8, _i8, _i8, _i8))
def _idle(context, at, byte, answer, before, decoded):  # type: ignore[no-untyped-def]
    """Whether a byte says nothing that another way does not: a blank between values, a point before zeros, an escape
    that is not needed. before: the answer where the search began."""
    if byte == 0x20 or byte == 0x09 or byte == 0x0A or byte == 0x0D:
        return go_of(context)[threads_of(context)[at, STATE], classes_of(context)[0x09]] != -1
    if decoded == 0:
        return False
    if byte == 0x2E:
        return _only_zeros(context, _i8(go_of(context)[threads_of(context)[at, STATE], classes_of(context)[byte]]))
    return _needless(context, answer, _i8(byte), before)


@inner(types.boolean(CONTEXT_TYPE, _i8, _i8))
def _inside(context, at, top):  # type: ignore[no-untyped-def]
    """Whether threads[at] is in the item over `top`, or at its end."""
    nodes, node = nodes_of(context), _i8(threads_of(context)[at, NODE])
    while nodes[node, DEPTH] > nodes[top, DEPTH]:
        node = _i8(nodes[node, PARENT])
    return node == top


@inner(types.void(CONTEXT_TYPE, _i8, _i8))
def begin_way(context, at, top):  # type: ignore[no-untyped-def]
    """Lays the trail of a search from threads[at], the last in its buffer."""
    trail, floor = trail_of(context), top if top > 0 else _i8(threads_of(context)[at, NODE])
    trail[0, END], trail[0, ANSWER], trail[0, NEXT], trail[0, NEAR] = (
        at + 1, counts_of(context)[TEXT], 0, _near(context, at, floor))


@shared(_i8(CONTEXT_TYPE, _i8, _i8, _i8, _i8))
def next_way(context, at, top, limit, depth):  # type: ignore[no-untyped-def]
    """As find_way, where a search goes on from a place of its trail; U | that place << 32."""
    counts, threads, trail, single = counts_of(context), threads_of(context), trail_of(context), single_of(context)
    last, spent = trail.shape[0], 0
    node, register = _i8(threads[at, NODE]), _i8(threads[at, REG])
    state = _i8(nodes_of(context)[top, RETURN] if top > 0 else threads[at, STATE])
    decoded, floor = _i8(rules_of(context)[states_of(context)[state, RULE], DECODED]), top if top > 0 else node
    below = costs_of(context)[floor]
    while depth >= 0 and spent < _MOST:
        at_byte = trail[depth, NEXT]
        if at_byte == 512:
            depth -= 1
            continue
        trail[depth, NEXT] = at_byte + 1
        byte, low, high = at_byte & 255, _i8(trail[depth - 1, END] if depth > 0 else at), _i8(trail[depth, END])
        if single[byte] == 0 or _idle(
                context, low, byte, _i8(trail[depth, ANSWER]), _i8(trail[0, ANSWER]), decoded):
            continue
        counts[TEXT] = trail[depth, ANSWER]
        end = step(context, low, high, byte, _i8(1))
        if end < 0 or counts[FULL] == 1:
            return _i8(-1)
        if end == high:
            continue
        heed(context, high, end, byte)
        near = _i8(_FAR)
        for k in range(high, end):
            if top == 0 or _inside(context, _i8(k), top):
                near = min(near, _near(context, _i8(k), floor))
        if (near < trail[depth, NEAR]) != (at_byte < 256) or near >= _FAR or depth + 1 >= last:
            continue
        if depth + 1 + near + below > limit:
            continue
        spent += 1
        depth += 1
        trail[depth, END], trail[depth, ANSWER], trail[depth, NEXT], trail[depth, NEAR] = end, counts[TEXT], 0, near
        for k in range(high, end):
            if _found(context, _i8(k), top, node, register):
                comma = _comma_price(context, _i8(threads[k, STATE])) if top == 0 else _i8(0)
                total = depth + comma + _whole(context, _i8(k))
                for d in range(depth):  # who follows the way is told of these
                    total = max(total, d + trail[d, NEAR] + below)
                if total <= limit:
                    return _i8(total | depth << 32)
        if counts[FULL] == 1:
            return _i8(-1)
    return _i8(_FAR)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def find_way(context, at, top, limit):  # type: ignore[no-untyped-def]
    """U of threads[at], the last in its buffer, by the first way to what `_found` asks for: at each place over the
    bytes that bring the end nearer first, then over the others; FAR when none was found, -1 in trouble. Leaves what it
    interned, and in arena.TEXT the answer at the way's end. Ways by which U exceeds `limit` are passed: another item
    may be shorter, or leave less of the list to write."""
    begin_way(context, at, top)
    found = next_way(context, at, top, limit, _i8(0))
    return _i8(found if found < 0 else found & 0xFFFFFFFF)


@inner(_i8(CONTEXT_TYPE, _i8, _i8, _i8))
def _detour(context, at, top, limit):  # type: ignore[no-untyped-def]
    """What find_way does, where no step may be needed, and the arena is left as it was."""
    counts, threads, states = counts_of(context), threads_of(context), states_of(context)
    nodes, keys, sets, answer = counts[NODES], counts[KEYS], counts[SETS], counts[TEXT]
    if states[threads[at, STATE], FINAL] == 1 if top == 0 else _ends(context, at, top):
        found = _whole(context, at)
    else:
        found = find_way(context, at, top, limit)
    counts[TEXT] = answer
    if found < 0 or counts[FULL] == 1:
        return _i8(-1)
    undo(context, nodes, keys, sets)
    return found


@shared(_i8(CONTEXT_TYPE, _i8, _i8))
def closest(context, count, limit):  # type: ignore[no-untyped-def]
    """U of threads[:count] after exact steps; FAR or more: they cannot end, or not within `limit`; -1 in trouble. With
    the limit ANY, U is that as if no item had been written where many values follow. report[CLOSEST]: the thread."""
    threads, states, nodes, costs = threads_of(context), states_of(context), nodes_of(context), costs_of(context)
    best = _i8(_FAR)
    for k in range(count):
        state, register, node = _i8(threads[k, STATE]), _i8(threads[k, REG]), _i8(threads[k, NODE])
        cost = remaining(context, state, register, _i8(threads[k, OPEN]), _i8(1))
        cost += costs[node] + (dearer(context, _i8(k), _i8(limit < ANY)) if cost < _FAR else _i8(0))
        if cost >= _FAR or cost >= best or cost > limit:
            continue
        top = _floor(context, _i8(k), _i8(limit < ANY))
        few = nodes[node, STATUS] & FEW != 0 or states[state, KIND] == UNLIKE
        if top >= 0 and (limit < ANY or (few and not ample(context, state, register))) and (
                has_rivals(context, _i8(k)) == 1):
            if count + 1 >= threads.shape[0]:
                return _i8(-1)
            for c in range(5):
                threads[count, c] = threads[k, c]
            cost = _detour(context, count, top, limit)
            if cost < 0:
                return _i8(-1)
        if cost < best:
            best, report_of(context)[CLOSEST] = cost, k
    return best
