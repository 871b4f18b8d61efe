"""Lists of candidate tokens in memory, and thresholds found in them by bisection over keys. One program a list."""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl
from .pieces import fixed, goal_of, key_of, mass_of, read


@jit
def middle(low: Arg, high: Arg) -> Arg:
    """Of int32 low < high, in (low, high]."""
    return (low.to(tl.int64) + (high.to(tl.int64) - low.to(tl.int64) + 1) // 2).to(tl.int32)


@jit
def bound_kth(keys: Arg, k: Arg, low: Arg, high: Arg, SLACK: constexpr) -> Arg:
    """A key in [low, high] that at least k of `keys` reach, and at most SLACK more where the search ended early; low
    when fewer than k reach it. A bound from below is enough, so the search ends when it is close."""
    while low < high:
        at = middle(low, high)
        reached = tl.sum((keys >= at).to(tl.int32))
        low = tl.where(reached >= k, at, low)
        close = (reached >= k) & (reached <= k + SLACK)
        high = tl.where(close, low, tl.where(reached >= k, high, at - 1))
    return low


@jit
def gather_tiles(best: Arg, low: Arg, tile_list: Arg, TILES: constexpr) -> Arg:
    """Effect: lists the tiles whose best reaches `low`, ascending. best: [TILES] values. Returns how many."""
    there = key_of(best) >= low
    flags = there.to(tl.int32)
    tl.store(tile_list + tl.cumsum(flags, 0) - flags, tl.arange(0, TILES), mask=there)
    return tl.sum(flags)


@jit
def gather_tokens(
    logits: Arg, mask: Arg, vocabulary: Arg, tile_list: Arg, n_tiles: Arg, low: Arg, tokens: Arg, values: Arg,
    CHUNK: constexpr,
) -> Arg:
    """Effect: lists the allowed tokens of these tiles whose key is at least `low`, ascending, with their logits.
    Returns how many."""
    count = n_tiles & 0
    base = n_tiles & 0
    while base < n_tiles * 64:
        j = base + tl.arange(0, CHUNK)
        there = j < n_tiles * 64
        token = tl.load(tile_list + j // 64, mask=there, other=0) * 64 + j % 64
        x = read(logits, mask, token, there & (token < vocabulary))
        keep = key_of(x) >= low
        flags = keep.to(tl.int32)
        at = count + tl.cumsum(flags, 0) - flags
        tl.store(tokens + at, token, mask=keep)
        tl.store(values + at, x, mask=keep)
        count += tl.sum(flags)
        base += CHUNK
    return count


@jit
def load_values(values: Arg, base: Arg, count: Arg, CHUNK: constexpr) -> Arg:
    j = base + tl.arange(0, CHUNK)
    return tl.load(values + j, mask=j < count, other=float("-inf"))


@jit
def count_cut(values: Arg, count: Arg, k: Arg, low: Arg, high: Arg, CHUNK: constexpr) -> Arg:
    """The largest key in [low, high] that at least k of the list reach. The first chunk stays in registers."""
    first = key_of(load_values(values, count & 0, count, CHUNK))
    while low < high:
        at = middle(low, high)
        reached = tl.sum((first >= at).to(tl.int32))
        base = (count & 0) + CHUNK
        while base < count:
            reached += tl.sum((key_of(load_values(values, base, count, CHUNK)) >= at).to(tl.int32))
            base += CHUNK
        low = tl.where(reached >= k, at, low)
        high = tl.where(reached >= k, high, at - 1)
    return low


@jit
def masses(x: Arg, low: Arg, best: Arg, scale: Arg) -> Arg:
    """int64 masses of the values whose key is at least `low`; 0 of the others."""
    return tl.where(key_of(x) >= low, fixed(mass_of(x, best, scale)), 0)


@jit
def total_mass(values: Arg, count: Arg, low: Arg, best: Arg, scale: Arg, CHUNK: constexpr) -> Arg:
    total = tl.sum(masses(load_values(values, count & 0, count, CHUNK), low, best, scale))
    base = (count & 0) + CHUNK
    while base < count:
        total += tl.sum(masses(load_values(values, base, count, CHUNK), low, best, scale))
        base += CHUNK
    return total


@jit
def mass_cut(
    values: Arg, count: Arg, goal: Arg, low: Arg, high: Arg, best: Arg, scale: Arg, CHUNK: constexpr
) -> Arg:
    """The largest key in [low, high] at or above which the list has a mass of `goal`; low when there is none."""
    x = load_values(values, count & 0, count, CHUNK)
    first = key_of(x)
    first_mass = masses(x, low, best, scale)
    while low < high:
        at = middle(low, high)
        reached = tl.sum(tl.where(first >= at, first_mass, 0))
        base = (count & 0) + CHUNK
        while base < count:
            reached += tl.sum(masses(load_values(values, base, count, CHUNK), at, best, scale))
            base += CHUNK
        low = tl.where(reached >= goal, at, low)
        high = tl.where(reached >= goal, high, at - 1)
    return low


@jit
def small_cuts(
    values: Arg, count: Arg, top_k: Arg, top_p: Arg, low: Arg, best: Arg, scale: Arg, SMALL: constexpr
) -> Arg:
    """The key of the threshold of top-k, then top-p, in a list of at most SMALL: each value against each."""
    i = tl.arange(0, SMALL)
    key = key_of(tl.load(values + i, mask=i < count, other=float("-inf")))
    if top_k > 0:
        reached = tl.zeros((SMALL,), tl.int32)
        for begin in tl.static_range(0, SMALL, 32):
            other = load_values(values, (count & 0) + begin, count, 32)
            reached += tl.sum((key_of(other)[:, None] >= key[None, :]).to(tl.int32), 0)
        low = tl.maximum(low, tl.max(tl.where((reached >= top_k) & (i < count), key, low), 0))
    if top_p < 1.0:
        goal = goal_of(top_p, total_mass(values, count, low, best, scale, SMALL))
        above = tl.zeros((SMALL,), tl.int64)
        for begin in tl.static_range(0, SMALL, 32):
            other = load_values(values, (count & 0) + begin, count, 32)
            mass = masses(other, low, best, scale)
            above += tl.sum(tl.where(key_of(other)[:, None] >= key[None, :], mass[:, None], 0), 0)
        low = tl.maximum(low, tl.max(tl.where((above >= goal) & (i < count), key, low), 0))
    return low


@jit
def invert(
    tokens: Arg, values: Arg, count: Arg, low: Arg, goal: Arg, best: Arg, scale: Arg, CHUNK: constexpr
) -> Arg:
    """The first token of the list at which the running mass passes `goal`, which is below the total."""
    chosen = count * 0 - 1
    passed = goal * 0
    base = count & 0
    while (base < count) & (chosen < 0):
        mass = masses(load_values(values, base, count, CHUNK), low, best, scale)
        running = passed + tl.cumsum(mass, 0)
        before = tl.sum((running <= goal).to(tl.int32))
        if before < CHUNK:
            chosen = tl.load(tokens + base + before)
        passed += tl.sum(mass)
        base += CHUNK
    return chosen
