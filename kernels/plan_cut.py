"""How a step is cut, on the device and for all of its segments at once: the rules of `cut` as sums and searches."""

from __future__ import annotations

from . import cut
from .jit import Arg, constant, constexpr, jit, tl

CHUNK, FAR, FAR_CHUNK = constant(cut.CHUNK), constant(cut.FAR), constant(cut.FAR_CHUNK)
SHORTEST, LONGEST, WHOLE = constant(cut.SHORTEST), constant(cut.LONGEST), constant(cut.WHOLE)
SHORTEST_WIDE, RANKS = constant(cut.SHORTEST_WIDE), constant(cut.RANKS)


@jit
def chunk(slot: Arg) -> Arg:
    """The number of the chunk that holds a slot."""
    return tl.where(slot < FAR, slot // CHUNK, FAR // CHUNK + (slot - FAR) // FAR_CHUNK)


@jit
def chunk_begin(chunk: Arg) -> Arg:
    return tl.where(chunk < FAR // CHUNK, chunk * CHUNK, FAR + (chunk - FAR // CHUNK) * FAR_CHUNK)


@jit
def quotient(a: Arg, b: Arg) -> Arg:
    """a // b of whole numbers, a >= 0, b > 0, where it is below 2**20: a sixth of the instructions of `//`."""
    q = (a.to(tl.float32) / b.to(tl.float32)).to(tl.int32)
    rest = a - q * b
    return q + tl.where(rest >= b, 1, 0) - tl.where(rest < 0, 1, 0)


@jit
def pieces_of(begin: Arg, end: Arg, root: Arg, leaf: Arg, longest: Arg, EXACT: constexpr) -> Arg:
    """Into how many pieces a segment is cut. Exact: and where the first ends; else: and how long each is."""
    length = tl.maximum(end - begin, 1)
    if EXACT:
        after = chunk_begin(chunk(begin) + 1)
        far = tl.where(begin + longest >= end, end, tl.maximum(chunk_begin(chunk(begin + longest)), after))
        size = tl.minimum(tl.where(root, far, after), end)
        count = 1 + tl.where(size < end, chunk(end - 1) - chunk(size) + 1, 0)
    else:
        count = quotient(length - 1, longest) + 1
        size = (quotient(length - 1, count) + 64) // 64 * 64
        count = quotient(length - 1, size) + 1
    # A leaf without slots has an item that writes zeros.
    return tl.where(end > begin, count, leaf.to(tl.int32)), size


@jit
def _programs(
    begin: Arg, end: Arg, root: Arg, leaf: Arg, wide: Arg, tiles: Arg, narrow_longest: Arg, wide_longest: Arg,
    EXACT: constexpr,
) -> Arg:
    """cut._programs of each bin, in items, narrow ones in the low half of an int64."""
    longest = tl.where(wide, wide_longest, narrow_longest)
    if EXACT:
        count, _ = pieces_of(begin, end, root, leaf, longest, EXACT)
    else:
        count = tl.where(end > begin, quotient(tl.maximum(end - begin, 1) - 1, longest) + 1, leaf.to(tl.int32))
    return tl.sum((tiles * count).to(tl.int64) << tl.where(wide, 32, 0), 0)


@jit
def longest_of(
    begin: Arg, end: Arg, root: Arg, leaf: Arg, wide: Arg, tiles: Arg, least: Arg, most: Arg,
    EXACT: constexpr,
) -> Arg:
    """cut.longest_of of both bins at once. least, most: in items, not in programs."""
    if EXACT:
        found = _programs(begin, end, root, leaf, wide, tiles, WHOLE, WHOLE, EXACT)
        narrow_longest = tl.where((found & 0xFFFFFFFF) >= least, WHOLE, CHUNK)
        wide_longest = tl.where((found >> 32) >= most, WHOLE, CHUNK)
    else:
        low, high = least * 0 + SHORTEST // 64, least * 0 + (LONGEST // 64 + 1)
        wide_low = least * 0 + (SHORTEST_WIDE // 64 - 1)
        units = tl.max(tl.where(wide, end - begin + 63, 0), 0) // 64
        wide_high = tl.maximum(units, SHORTEST_WIDE // 64)
        while (high - low > 1) | (wide_high - wide_low > 1):
            middle, wide_middle = (low + high) // 2, (wide_low + wide_high) // 2
            found = _programs(begin, end, root, leaf, wide, tiles, middle * 64, wide_middle * 64, EXACT)
            enough = ((found & 0xFFFFFFFF) >= least) & (high - low > 1)
            high = tl.where(enough | (high - low <= 1), high, middle)
            low = tl.where(enough, middle, low)
            fits = (found >> 32) <= most
            open_ = wide_high - wide_low > 1
            wide_low = tl.where(open_ & (fits == 0), wide_middle, wide_low)
            wide_high = tl.where(open_ & fits, wide_middle, wide_high)
        narrow_longest, wide_longest = low * 64, wide_high * 64
    return narrow_longest, wide_longest


@jit
def above_of(parent: Arg, pieces: Arg) -> Arg:
    """The pieces of all ancestors. known: of a segment and its ancestors below `up`, twice as many after each turn."""
    up, known = parent, pieces
    while tl.max(up, 0) >= 0:
        at = tl.maximum(up, 0)
        known += tl.where(up >= 0, tl.gather(known, at, 0), 0)
        up = tl.where(up >= 0, tl.gather(up, at, 0), -1)
    return known - pieces


@jit
def place(wide: Arg, length: Arg, narrow_longest: Arg, wide_longest: Arg) -> Arg:
    """The place of each segment in the order narrow before wide, rank, number: by counting, five counts a word."""
    longest = tl.maximum(tl.where(wide, wide_longest, narrow_longest), 1)
    lane = 12 * tl.minimum(quotient(tl.maximum(longest - length, 0) * RANKS, longest), RANKS - 1)
    one = (lane * 0 + 1).to(tl.int64) << lane
    narrow_ones, wide_ones = tl.where(wide, 0, one), tl.where(wide, one, 0)
    # Lane i of this product is the sum of the lanes up to it; those before it are one lane further.
    narrow_upto = tl.sum(narrow_ones, 0) * 0x001001001001001
    wide_upto = tl.sum(wide_ones, 0) * 0x001001001001001
    narrow_seen, wide_seen = tl.split(tl.cumsum(tl.join(narrow_ones, wide_ones), 0))
    seen = tl.where(wide, wide_seen + (wide_upto << 12), narrow_seen + (narrow_upto << 12))
    found = ((seen >> lane) & 0xFFF) - 1 + tl.where(wide, (narrow_upto >> 12 * (RANKS - 1)) & 0xFFF, 0)
    return found.to(tl.int32)


@jit
def _turn(
    words: Arg, found: Arg, value: Arg, count: Arg, STRIDE: constexpr, SHIFT: constexpr, STEP: constexpr,
    WAYS: constexpr,
) -> Arg:
    base = found
    for j in tl.static_range(1, WAYS):
        at = base + j * STEP - 1
        entry = tl.load(words + at * STRIDE + SHIFT, mask=at < count, other=2147483647)
        found += tl.where(entry <= value, STEP, 0)
    return found


@jit
def search(words: Arg, value: Arg, count: Arg, STRIDE: constexpr, SHIFT: constexpr, LOG: constexpr) -> Arg:
    """How many of `count` ascending entries, 2**LOG - 1 at most, do not exceed the value.

    An entry lies STRIDE words after the one before, and SHIFT words into it. Seven are read at once: to wait for a load
    takes longer than to issue six more.
    """
    found = value * 0
    for turn in tl.static_range((LOG + 2) // 3):
        found = _turn(
            words, found, value, count, STRIDE, SHIFT, 1 << ((LOG + 2) // 3 - 1 - turn) * 3,
            1 << (LOG - (LOG - 1) // 3 * 3) if turn == 0 else 8)
    return found
