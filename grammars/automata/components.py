"""Strongly connected components of a graph (Tarjan, 1972), by an explicit stack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def components(arcs: Sequence[Sequence[int]], roots: Iterable[int]) -> list[list[int]]:
    """The components that the roots reach; each comes after those that it leads to."""
    found: list[list[int]] = []
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []  # reached, and not yet in a component
    waiting: set[int] = set()
    for root in roots:
        if root in index:
            continue
        stack = [(root, iter(arcs[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        waiting.add(root)
        while stack:
            node, rest = stack[-1]
            follower = next(rest, None)
            if follower is None:
                stack.pop()
                if stack:
                    low[stack[-1][0]] = min(low[stack[-1][0]], low[node])
                if low[node] == index[node]:
                    found.append(_popped(path, node))
                    waiting.difference_update(found[-1])
            elif follower not in index:
                index[follower] = low[follower] = len(index)
                path.append(follower)
                waiting.add(follower)
                stack.append((follower, iter(arcs[follower])))
            elif follower in waiting:
                low[node] = min(low[node], index[follower])
    return found


def _popped(path: list[int], node: int) -> list[int]:
    """The end of the path from `node` on, taken off."""
    at = len(path) - 1
    while path[at] != node:
        at -= 1
    component = path[at:]
    del path[at:]
    return component
