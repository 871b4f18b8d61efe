"""Pages parked in host memory, and brought back.

A parked page is one run of bytes: for every tensor of the pool its kv_heads runs of page * words. The device gathers
pages into a staging buffer that looks the same, and the copy engine moves that in runs as long as neighbouring places
allow: single runs of the pool (32 KiB of an 8B model) would cost it more to start than to move.

park(cache, host, pages, places, lane) -> Moved; restore(cache, host, places, pages, lane) -> Moved
    pages, places: as many ints of the pool and of `host`, each named once. A lane keeps the order of its calls; what
    another lane began is waited for by `Moved.wait` first. Effect: keys, values and scales of the pages
    are written to their places, or back. Both return at once and everything runs on the lane's stream: after what
    the current stream was given before the call, and without holding up what it is given later.
    Of a park, the pages may be written again after `read`, the places hold them after `done`. Of a restore, the pages
    hold what was parked after `done`. Raises KernelError for a page or place outside its memory, or one named twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from .base import FLOATS, Implementation, KernelError
from .jit import Arg, constexpr, jit, tl
from .layout import PagedCache, Planes
from .sent import sent

BLOCK = 1024
STAGING = 64 << 20


@dataclass(frozen=True, slots=True)
class HostPages:
    """data: [places, int32 words of a page], in pinned memory where the pool is on a GPU. Contents start undefined."""

    data: torch.Tensor

    @classmethod
    def allocate(cls, cache: PagedCache, places: int) -> HostPages:
        words = sum(_words(cache, planes) for planes in cache.planes)
        return cls(torch.empty((places, words), dtype=torch.int32, pin_memory=cache.k[0].is_cuda))


@dataclass(frozen=True, slots=True)
class Lane:
    """A stream of its own and its staging buffer, [pages, words of a page] int32. Two lanes move both ways at once."""

    stream: torch.cuda.Stream
    staging: torch.Tensor

    @classmethod
    def of(cls, cache: PagedCache, host: HostPages, size: int = STAGING) -> Lane:
        """size: bytes of the staging buffer, at least one page."""
        words, device = host.data.shape[1], cache.k[0].device
        staging = torch.empty((max(size // (4 * words), 1), words), dtype=torch.int32, device=device)
        return cls(torch.cuda.Stream(device), staging)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Moved:
    """When it is safe to go on. None on a CPU, where all is done."""

    read: torch.cuda.Event | None = None
    done: torch.cuda.Event | None = None

    def wait(self) -> None:
        """Whatever the current stream is given from here on comes after the move. The host does not wait."""
        if self.done is not None:
            self.done.wait()


def park_on_cpu(
    cache: PagedCache, host: HostPages, pages: Sequence[int], places: Sequence[int], lane: Lane | None = None
) -> Moved:
    """The reference; there is no lane."""
    _check(cache, host, pages, places)
    for page, place in zip(pages, places, strict=True):
        for tensor, part in zip(cache.tensors, _parts(cache, host.data[place]), strict=True):
            part.copy_(_raw(tensor[page]))
    return Moved()


def restore_on_cpu(
    cache: PagedCache, host: HostPages, places: Sequence[int], pages: Sequence[int], lane: Lane | None = None
) -> Moved:
    _check(cache, host, pages, places)
    for page, place in zip(pages, places, strict=True):
        for tensor, part in zip(cache.tensors, _parts(cache, host.data[place]), strict=True):
            _raw(tensor[page]).copy_(part)
    return Moved()


def park(cache: PagedCache, host: HostPages, pages: Sequence[int], places: Sequence[int], lane: Lane) -> Moved:
    _check(cache, host, pages, places)
    if not pages:
        return Moved()
    read = None
    lane.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane.stream):
        on_device = sent(np.array(pages, np.int32), lane.staging.device)
        for begin, end in _rounds(len(pages), lane):
            _move(cache, lane.staging, on_device[begin:end], gather=True)
            read = lane.stream.record_event()
            for first, count, place in _runs(places[begin:end]):
                host.data[place : place + count].copy_(lane.staging[first : first + count], non_blocking=True)
        done = lane.stream.record_event()
    return Moved(read, done)


def restore(cache: PagedCache, host: HostPages, places: Sequence[int], pages: Sequence[int], lane: Lane) -> Moved:
    _check(cache, host, pages, places)
    if not pages:
        return Moved()
    lane.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(lane.stream):
        on_device = sent(np.array(pages, np.int32), lane.staging.device)
        for begin, end in _rounds(len(pages), lane):
            for first, count, place in _runs(places[begin:end]):
                lane.staging[first : first + count].copy_(host.data[place : place + count], non_blocking=True)
            _move(cache, lane.staging, on_device[begin:end], gather=False)
        done = lane.stream.record_event()
    return Moved(done, done)


def _words(cache: PagedCache, planes: Planes) -> int:
    """Of a page, in all tensors of these planes."""
    return len(planes.addresses) * cache.kv_heads * cache.page * planes.words


def _raw(page: torch.Tensor) -> torch.Tensor:
    """A page of one tensor as its int32 words."""
    return page.view(-1).view(torch.int32)


def _parts(cache: PagedCache, parked: torch.Tensor) -> Iterator[torch.Tensor]:
    """The words of each tensor in a parked page."""
    begin = 0
    for tensor in cache.tensors:
        end = begin + _raw(tensor[0]).numel()
        yield parked[begin:end]
        begin = end


def _check(cache: PagedCache, host: HostPages, pages: Sequence[int], places: Sequence[int]) -> None:
    for name, found, end in (("pages", pages, cache.pages), ("places", places, host.data.shape[0])):
        if found and not (min(found) >= 0 and max(found) < end and len(set(found)) == len(found)):
            raise KernelError(f"{name} {list(found)} must be different and in [0, {end})")
    if len(pages) != len(places):
        raise KernelError(f"{len(pages)} pages and {len(places)} places")


def _rounds(count: int, lane: Lane) -> Iterator[tuple[int, int]]:
    """[begin, end) of what fits into the staging buffer at once."""
    size = len(lane.staging)
    return ((begin, min(begin + size, count)) for begin in range(0, count, size))


def _runs(places: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(index, count, place) of ascending neighbours, which one copy can move."""
    first = 0
    for i in range(1, len(places) + 1):
        if i == len(places) or places[i] != places[i - 1] + 1:
            yield first, i - first, places[first]
            first = i


@jit
def _page(
    addresses: Arg, staging: Arg, pages: Arg, run: Arg, stride: Arg, offset: Arg, GATHER: constexpr, BLOCK: constexpr
) -> None:
    """One program a (block, tensor, page). run: words that a tensor has in a page; stride: all of a parked one; offset:
    where these planes begin in it."""
    tensor, number = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.multiple_of(tl.load(addresses + tensor).to(tl.pointer_type(tl.int32)), 16)
    there = base + tl.load(pages + number).to(tl.int64) * run + i
    here = staging + number * stride + offset + tensor * run + i
    if GATHER:
        tl.store(here, tl.load(there, mask=i < run), mask=i < run)
    else:
        tl.store(there, tl.load(here, mask=i < run), mask=i < run)


def _move(cache: PagedCache, staging: torch.Tensor, pages: torch.Tensor, *, gather: bool) -> None:
    """Pages of the pool to the first rows of `staging`, or back."""
    offset = 0
    for planes in cache.planes:
        run = cache.kv_heads * cache.page * planes.words
        _page[-(-run // BLOCK), len(planes.addresses), len(pages)](
            planes.addresses, staging, pages, run, staging.shape[1], offset, GATHER=gather, BLOCK=BLOCK, num_warps=4,
        )
        offset += _words(cache, planes)


IMPLEMENTATIONS = (
    Implementation("park_pages", ("cpu",), FLOATS, ("fast", "exact"), park_on_cpu),
    Implementation("park_pages", ("cuda",), FLOATS, ("fast", "exact"), park),
    Implementation("restore_pages", ("cpu",), FLOATS, ("fast", "exact"), restore_on_cpu),
    Implementation("restore_pages", ("cuda",), FLOATS, ("fast", "exact"), restore),
)
