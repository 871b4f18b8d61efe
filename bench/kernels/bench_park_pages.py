"""Parking pages of an 8B model (32 layers, 8 KV heads x 128, bf16, 2 MiB a page of 16): python -m
bench.kernels.bench_park_pages

The floor is one copy of as many bytes between the device and pinned memory, each way, as the copy engine makes it. Also
copies of partly filled pages, in a graph, against the copy bandwidth of the card.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import torch

from espalier.kernels.copy_slots import copies_of
from espalier.kernels.copy_slots import on_device as copy_slots
from espalier.kernels.layout import PagedCache
from espalier.kernels.park_pages import HostPages, Lane, park, restore

from .device import Ceilings, ceilings, graph_us, median_us
from .record import Record, Result, options

LAYERS, KV_HEADS, PAGE, DIM, PAGES, MOVED = 32, 8, 16, 128, 512, 128
CUDA = torch.device("cuda")


def single_copies(size: int) -> tuple[float, float]:
    """us to pinned memory and from it."""
    device = torch.empty(size, dtype=torch.uint8, device=CUDA).random_(0, 256)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    return (median_us(lambda: host.copy_(device, non_blocking=True)),
            median_us(lambda: device.copy_(host, non_blocking=True)))


def results(limits: Ceilings) -> Iterator[tuple[str, Callable[[], Result]]]:
    cache = PagedCache.allocate(layers=LAYERS, pages=PAGES, kv_heads=KV_HEADS, page=PAGE, head_dim=DIM,
                                dtype=torch.bfloat16, device=CUDA)
    for tensor in cache.tensors:
        tensor.normal_()
    host = HostPages.allocate(cache, 2 * MOVED)
    size = MOVED * host.data.shape[1] * 4
    out_us, in_us = single_copies(size)
    lane, other = Lane.of(cache, host), Lane.of(cache, host)
    pages, back, apart = random.sample(range(PAGES), 2 * MOVED), range(MOVED, 2 * MOVED), range(0, 2 * MOVED, 2)
    more = {"bytes": size, "gb_s_out": round(size / out_us / 1e3, 1), "gb_s_in": round(size / in_us / 1e3, 1)}

    def both() -> None:
        leaving = park(cache, host, pages[:MOVED], range(MOVED), lane)
        restore(cache, host, back, pages[MOVED:], other).wait()
        leaving.wait()

    ways: dict[str, tuple[Callable[[], object], float]] = {
        "park, neighbouring places": (lambda: park(cache, host, pages[:MOVED], range(MOVED), lane).wait(), out_us),
        "park, scattered places": (lambda: park(cache, host, pages[:MOVED], apart, lane).wait(), out_us),
        "restore, neighbouring places": (lambda: restore(cache, host, back, pages[:MOVED], lane).wait(), in_us),
        "restore, scattered places": (lambda: restore(cache, host, apart, pages[:MOVED], lane).wait(), in_us),
        "park and restore at once": (both, max(out_us, in_us)),
    }
    for name, (call, floor) in ways.items():
        def measured(name: str = name, call: Callable[[], object] = call, floor: float = floor) -> Result:
            us = median_us(call)
            return Result(f"{name}, {MOVED} pages", us, floor, more={**more, "share_of_pcie": floor / us})

        yield name, measured
    for count in (1, 64):
        copies = [copies_of([(2 * i, 2 * i + 1, 9) for i in range(shift, shift + count)], CUDA) for shift in (0, 64)]
        moved = count * 2 * LAYERS * KV_HEADS * 9 * DIM * 2 * 2
        yield f"copy_slots {count}", lambda copies=copies, moved=moved, count=count: Result(
            f"copy of 9 slots in 32 layers, {count} pages",
            graph_us([lambda found=found: copy_slots(cache, found) for found in copies]), moved / limits.copy * 1e6)


def main() -> None:
    args = options(__doc__, "kernels_parking").parse_args()
    limits = ceilings()
    record = Record.begin("kernels_parking", limits, args)
    for name, measured in results(limits):
        if args.only in name and not record.add(measured):
            return


if __name__ == "__main__":
    main()
