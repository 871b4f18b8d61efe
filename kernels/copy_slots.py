"""copy_slots(cache, source, target, count): the first `count` slots of page `source`, in every layer, to page `target`.

Effect: writes k and v of those slots; the other slots of `target` stay as they are. Raises KernelError for a page
outside the pool or more slots than a page has.
"""

from __future__ import annotations

from .base import FLOATS, Implementation, KernelError
from .layout import PagedCache


def reference(cache: PagedCache, source: int, target: int, count: int) -> None:
    if not (0 <= source < cache.pages and 0 <= target < cache.pages and 0 <= count <= cache.page):
        raise KernelError(f"cannot copy {count} slots of page {source} to page {target}: pool has {cache.pages} pages")
    for layer in (*cache.k, *cache.v):
        layer[target, :, :count].copy_(layer[source, :, :count])


IMPLEMENTATIONS = (Implementation("copy_slots", ("cpu", "cuda"), FLOATS, ("fast", "exact"), reference),)
