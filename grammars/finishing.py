"""What follows from the distances: dead edges go, and states are marked by how little a walk must ask of them."""

from __future__ import annotations

import numpy as np

from .ir import CLOSE_KEY, COUNT, KEY, OPEN_KEY
from .member_keys import INSIDE
from .tables import (
    BACK,
    BASE,
    CALLED_RULE,
    CALLS,
    CALLS_END,
    COST,
    COUNT_LOOP,
    COUNTER,
    DISTINCT,
    EDGES,
    EDGES_END,
    FAR,
    FINAL,
    FIRST,
    FREE,
    FREE_LOOP,
    KIND,
    LOOP,
    LOOSE,
    LOW,
    MEMBERS,
    MOST,
    PART,
    RULE,
    SIZE,
    START,
    TIGHT,
    WIDEST,
    Layout,
    Tables,
)
from .trie import PLAIN_BYTES


def finish(tables: Tables, layout: Layout) -> None:
    """Completes tables whose distances are known, in place."""
    _trim(tables, layout)
    _mark_loops(tables)
    _fill_first(tables)
    _mark_tight(tables)


def _trim(tables: Tables, layout: Layout) -> None:
    """Removes edges into states that cannot finish in any column; marks states that can in every column as LOOSE."""
    for index, offset in enumerate(layout.offsets):
        states, columns, base = layout.rules[index].states, layout.columns[index], layout.bases[index]
        distance = tables.distance[base: base + states * columns].reshape(states, columns)
        low = int(tables.rules[index, LOW])
        if tables.states[offset, KIND] == DISTINCT:
            distance = distance[:, : low + 1]
        if tables.states[offset, KIND] != MEMBERS:
            tables.states[offset: offset + states, LOOSE] = (distance < FAR).all(axis=1)
        dead = np.flatnonzero((distance >= FAR).all(axis=1)) + offset
        if tables.states[offset, KIND] == MEMBERS:
            first, size = tables.rules[index, [FIRST, SIZE]]
            distance = np.concatenate([distance[:, FREE:].ravel(), tables.members[first: first + size, COST]])
        tables.rules[index, WIDEST] = distance[distance < FAR].max(initial=0)
        if dead.size:
            block = tables.go[offset: offset + states]
            block[np.isin(block, dead)] = -1
            actions = -2 - block
            is_edge = block <= -2
            is_edge[is_edge] = np.isin(tables.edges[actions[is_edge], 1], dead)
            block[is_edge] = -1


def _mark_loops(tables: Tables) -> None:
    """LOOP: states that every plain byte leads back to, so that whole subtrees of the vocabulary need no steps."""
    block = tables.go[:, np.unique(tables.classes[list(PLAIN_BYTES)])]
    here = np.arange(len(block))[:, None]
    simple = (tables.states[:, FINAL] == 0) & (tables.states[:, CALLS] == tables.states[:, CALLS_END])
    tables.states[simple & (block == here).all(axis=1), LOOP] = FREE_LOOP
    counting = np.flatnonzero(simple & (block <= -2).all(axis=1) & (tables.states[:, KIND] == COUNTER))
    edges = tables.edges[-2 - block[counting]]
    back = (edges[:, :, 1] == counting[:, None]) & (edges[:, :, 2] == COUNT)
    tables.states[counting[back.all(axis=1)], LOOP] = COUNT_LOOP


def _fill_first(tables: Tables) -> None:
    """first[rule, class] to its fixed point; rules that cannot finish keep an empty row, so nothing calls them."""
    starts = tables.rules[:, START]
    alive = tables.distance[tables.states[starts, BASE]] < FAR
    tables.first[:] = (tables.go[starts] != -1) & alive[:, None]
    callees = [[int(tables.calls[c, CALLED_RULE]) for c in range(tables.states[s, CALLS], tables.states[s, CALLS_END])]
               for s in starts]
    changed = True
    while changed:
        changed = False
        for index, called in enumerate(callees):
            if not called or not alive[index]:
                continue
            union = tables.first[index] | np.bitwise_or.reduce(tables.first[called], axis=0)
            if not np.array_equal(union, tables.first[index]):
                tables.first[index] = union
                changed = True


def _mark_tight(tables: Tables) -> None:
    """TIGHT: a rule of distinct keys in which some state inside a key has finitely many ways to end it.

    There a key can become impossible because its last spelling is used, so tokens are tested one by one. Elsewhere
    another key always exists. 2: so only once no more than the required keys may be written.
    """
    for index in range(len(tables.rules)):
        start = int(tables.rules[index, START])
        if tables.states[start, KIND] >= DISTINCT:
            tables.rules[index, TIGHT] = not _endless(tables, index)
        if tables.states[start, KIND] == MEMBERS:
            if tables.rules[index, MOST] >= 0 and not tables.rules[index, TIGHT]:
                tables.rules[index, TIGHT] = 2
            if tables.rules[index, TIGHT] == 0:
                mine = (tables.states[:, RULE] == index) & (tables.states[:, PART] == INSIDE)
                tables.states[mine, LOOSE] = 1


def _inner_edges(tables: Tables, state: int) -> list[int]:
    """Targets of a state inside a key, those of its calls included, without the key's end."""
    inside = []
    for entry in tables.go[state].tolist():
        if entry <= -2:
            edge = tables.edges[-2 - entry]
            entry = int(edge[1]) if edge[2] != CLOSE_KEY and edge[2] < KEY else -1
        if entry >= 0:
            inside.append(entry)
    has_calls = tables.states[state, CALLS] < tables.states[state, CALLS_END]
    called = tables.calls[tables.states[state, CALLS]: tables.states[state, CALLS_END]]
    return inside + [int(c[BACK]) for c in called] + ([state] if has_calls else [])


def _endless(tables: Tables, index: int) -> bool:
    """Whether from every state inside a key a cycle can be reached (through calls: presumed)."""
    edges = tables.edges[tables.rules[index, EDGES]: tables.rules[index, EDGES_END]]
    todo = [int(e[1]) for e in edges if e[2] == OPEN_KEY]
    graph: dict[int, list[int]] = {}
    while todo:
        state = todo.pop()
        if state not in graph:
            graph[state] = _inner_edges(tables, state)
            todo += graph[state]
    finite = set()
    changed = True
    while changed:
        changed = False
        for state, targets in graph.items():
            if state not in finite and all(t in finite for t in targets):
                finite.add(state)
                changed = True
    return not finite
