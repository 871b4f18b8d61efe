"""copy_slots(cache, copies): the first slots of a page, in every layer, to another page.

copies: [n, 3] int32, contiguous, on the pool's device: source page, target page, slots; a copy of 0 slots is none, so a
captured launch serves any number of copies up to n. No page is the source of one copy and the target of another.
Effect: writes keys, values and scales of those slots; the other slots of a target stay as they are. A copy that names a
page outside the pool or more slots than a page has: on the CPU KernelError, and nothing is copied; on a GPU it is left
out, with a code where an error tensor is given (see checked).
"""

from __future__ import annotations

import numpy as np
import torch

from .base import FLOATS, Implementation, KernelError
from .checked import require
from .jit import Arg, constexpr, jit, tl
from .layout import PagedCache
from .sent import sent

BLOCK = 512


def reference(cache: PagedCache, copies: torch.Tensor) -> None:
    found = copies.tolist()
    for source, target, count in found:
        if not (0 <= source < cache.pages and 0 <= target < cache.pages and 0 <= count <= cache.page):
            raise KernelError(f"cannot copy {count} slots of page {source} to {target}: pool has {cache.pages} pages")
    for tensor in cache.tensors:
        for source, target, count in found:
            tensor[target, :, :count].copy_(tensor[source, :, :count])


@jit
def _copy(
    addresses: Arg, copies: Arg, pages: Arg, page: Arg, words: Arg, error: Arg, CHECKED: constexpr, BLOCK: constexpr
) -> None:
    """One program a (tensor, head, copy). words: of a slot."""
    copy, heads = copies + tl.program_id(2) * 3, tl.num_programs(1)
    source, target, count = tl.load(copy), tl.load(copy + 1), tl.load(copy + 2)
    inside = (source >= 0) & (source < pages) & (target >= 0) & (target < pages)
    fits = (count >= 0) & (count <= page)
    if CHECKED:
        require(inside, error, 1)
        require(fits, error, 2)
    # Every allocation of torch starts at a multiple of 16 bytes and more.
    base = tl.multiple_of(tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.int32)), 16)
    run = page * words
    from_ = base + (source.to(tl.int64) * heads + tl.program_id(1)) * run
    to = base + (target.to(tl.int64) * heads + tl.program_id(1)) * run
    end = tl.where(inside & fits, count * words, 0)
    begin = end * 0
    while begin < end:
        i = begin + tl.arange(0, BLOCK)
        tl.store(to + i, tl.load(from_ + i, mask=i < end), mask=i < end)
        begin += BLOCK


def on_device(cache: PagedCache, copies: torch.Tensor, *, error: torch.Tensor | None = None) -> None:
    """One launch for all layers, one more where there are scales. Copies are read on the device."""
    if not len(copies):
        return
    for planes in cache.planes:
        _copy[len(planes.addresses), cache.kv_heads, len(copies)](
            planes.addresses, copies, cache.pages, cache.page, planes.words, copies if error is None else error,
            CHECKED=error is not None, BLOCK=BLOCK, num_warps=4,
        )


def copies_of(copies: list[tuple[int, int, int]], device: torch.device) -> torch.Tensor:
    return sent(np.array(copies, np.int32).reshape(-1, 3), device)


IMPLEMENTATIONS = (
    Implementation("copy_slots", ("cpu",), FLOATS, ("fast", "exact"), reference),
    Implementation("copy_slots", ("cuda",), FLOATS, ("fast", "exact"), on_device),
)
