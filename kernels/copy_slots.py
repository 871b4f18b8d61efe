"""copy_slots(cache, source, target, count): the first `count` slots of page `source`, in every layer, to page `target`.

Effect: writes k and v of those slots; the other slots of `target` stay as they are. Raises KernelError for a page
outside the pool or more slots than a page has.
"""

from __future__ import annotations

import torch

from .base import FLOATS, Implementation, KernelError
from .jit import Arg, constexpr, jit, tl
from .layout import PagedCache

BLOCK = 1024


def check(cache: PagedCache, source: int, target: int, count: int) -> None:
    if not (0 <= source < cache.pages and 0 <= target < cache.pages and 0 <= count <= cache.page):
        raise KernelError(f"cannot copy {count} slots of page {source} to page {target}: pool has {cache.pages} pages")


def reference(cache: PagedCache, source: int, target: int, count: int) -> None:
    check(cache, source, target, count)
    for layer in (*cache.k, *cache.v):
        layer[target, :, :count].copy_(layer[source, :, :count])


@jit
def _copy(layers: Arg, like: Arg, pair: Arg, heads: Arg, run: Arg, count: Arg, BLOCK: constexpr) -> None:
    """One program a (layer's k or v, head). layers: their addresses. run: values a head has in a page."""
    # Every allocation of torch starts at a multiple of 16 bytes and more.
    base = tl.multiple_of(tl.load(layers + tl.program_id(0)).to(tl.pointer_type(like.dtype.element_ty)), 16)
    head = tl.program_id(1).to(tl.int64)
    source, target = tl.load(pair).to(tl.int64), tl.load(pair + 1).to(tl.int64)
    begin = tl.program_id(1) * 0
    while begin < count:
        i = begin + tl.arange(0, BLOCK)
        value = tl.load(base + (source * heads + head) * run + i, mask=i < count)
        tl.store(base + (target * heads + head) * run + i, value, mask=i < count)
        begin += BLOCK


def on_device(cache: PagedCache, source: int, target: int, count: int) -> None:
    """One launch for all layers."""
    check(cache, source, target, count)
    _, heads, page, head_dim = cache.k[0].shape
    layers = (*cache.k, *cache.v)
    addresses = torch.tensor([layer.data_ptr() for layer in layers], dtype=torch.int64, device=layers[0].device)
    pair = torch.tensor([source, target], dtype=torch.int32, device=layers[0].device)
    _copy[len(layers), heads](addresses, layers[0], pair, heads, page * head_dim, count * head_dim, BLOCK=BLOCK)


IMPLEMENTATIONS = (
    Implementation("copy_slots", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("copy_slots", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
