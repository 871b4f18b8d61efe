"""The law of the tree, looked at page by page."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import EngineFault
from .pages import PagePool
from .radix_node import Node


def audit(nodes: Iterable[Node], pool: PagePool) -> None:
    """nodes: all of a tree but its roots. Raises EngineFault unless they are well formed and own exactly the cached
    pages."""
    owned: list[int] = []
    for node in nodes:
        _audit_node(node, pool)
        owned += node.pages
    if len(set(owned)) != len(owned) or len(owned) != pool.cached:
        raise EngineFault(f"the tree owns {len(owned)} pages of {pool.cached}", where="RadixTree.audit")
    if any(pool.state(page).name != "CACHED" for page in owned):
        raise EngineFault("the tree owns a page that is not cached", where="RadixTree.audit")


def _audit_node(node: Node, pool: PagePool) -> None:
    parent = node.parent
    full = len(node.tokens) % pool.page == 0
    sound = (
        parent is not None and node.attached and node.start == parent.end and node.tokens
        and len(node.pages) == pool.pages_for(len(node.tokens)) and (full or not node.children)
        and node.keys == sorted(node.children) and (node.queued or not node.evictable)
    )
    if not sound:
        raise EngineFault(f"the node at {node.start} is not well formed", where="RadixTree.audit")
