"""The compiled draw of one token from one row of logits; the contract is that of `sample`.

A row is cut into tiles of TILE tokens, two mask words each. One pass finds the best allowed logit of every tile; later
passes read only tiles whose best is kept. Logits are compared through `_order`, so that NaN and -inf need no care.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import philox
from .compiled import bits_of_float, exp, float_of_bits, inner, load

TILE = 64
LOWEST = -(2**31)


@inner
def _order(value: Any) -> Any:
    """int32 that compares as the float does; NaN lowest. Integer maxima vectorise, float maxima with NaN do not."""
    bits = np.int32(bits_of_float(value))
    key = bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))
    return key if value == value else np.int32(LOWEST)


@inner
def _value(order: Any) -> Any:
    """The float that `_order` maps to this."""
    return float_of_bits(np.uint32(order ^ ((order >> np.int32(31)) & np.int32(0x7FFFFFFF))))


@inner
def _best_of_word(logits: Any, first: Any, bits: Any) -> Any:
    """Order of the best of 32 logits that `bits` allows."""
    top = np.int32(LOWEST)
    if bits == -1:
        for i in range(32):
            top = max(top, _order(load(logits[first + i])))
        return top
    for i in range(min(32, logits.shape[0] - first)):
        allowed = (bits >> np.int32(i)) & np.int32(1)
        top = max(top, _order(load(logits[first + i])) if allowed else np.int32(LOWEST))
    return top


@inner
def _best_of_tiles(logits: Any, mask: Any, tiles: Any) -> Any:
    """tiles[i] = order of the best allowed logit of tile i. Returns the best of all."""
    best = np.int32(LOWEST)
    for tile in range(tiles.shape[0]):
        top = np.int32(LOWEST)
        for word in range(2 * tile, min(2 * tile + 2, mask.shape[0])):
            if mask[word] != 0:
                top = max(top, _best_of_word(logits, word * 32, mask[word]))
        tiles[tile] = top
        best = max(best, top)
    return best


@inner
def _allowed(mask: Any, token: Any) -> Any:
    return (mask[token >> 5] >> np.int32(token & 31)) & np.int32(1) != 0


@inner
def _first_of(logits: Any, mask: Any, tiles: Any, best: Any) -> Any:
    for tile in range(tiles.shape[0]):
        if tiles[tile] == best:
            for token in range(tile * TILE, min(tile * TILE + TILE, logits.shape[0])):
                if _allowed(mask, token) and _order(load(logits[token])) == best:
                    return token
    return -1


@inner
def _at_least(logits: Any, mask: Any, tiles: Any, low: Any, out: Any) -> Any:
    """Allowed logits whose order is at least `low`, in the order of their ids, into `out`. Returns how many."""
    count = 0
    for tile in range(tiles.shape[0]):
        if tiles[tile] >= low:
            for token in range(tile * TILE, min(tile * TILE + TILE, logits.shape[0])):
                value = load(logits[token])
                if _allowed(mask, token) and _order(value) >= low:
                    out[count] = value
                    count += 1
    return count


@inner
def _kth_largest(orders: Any, k: Any) -> Any:
    """Of int32 [n], n >= k, by halving: np.partition compiles for seconds and is no quicker."""
    low, high = np.int64(-(2**31)), np.int64(2**31 - 1)
    while low < high:
        middle = (low + high + 1) >> 1
        count = 0
        for i in range(orders.shape[0]):
            count += orders[i] >= np.int32(middle)
        if count >= k:
            low = middle
        else:
            high = middle - 1
    return np.int32(low)


@inner
def _kth(logits: Any, mask: Any, tiles: Any, k: Any, lowest: Any, found: Any) -> Any:
    """Order of the k-th largest allowed logit, or `lowest` when there are fewer. Only tiles whose best is among the k
    best tiles can hold one of the k best tokens."""
    low = lowest
    if tiles.shape[0] > k:
        low = max(lowest, _kth_largest(tiles, k))
    count = _at_least(logits, mask, tiles, low, found)
    if count <= k:
        return low
    orders = np.empty(count, np.int32)
    for i in range(count):
        orders[i] = _order(found[i])
    return _kth_largest(orders, k)


@inner
def _mass_of_word(logits: Any, first: Any, bits: Any, low: Any, top: Any, scale: Any) -> Any:
    """Sum of e**((logit - top) * scale) over those of 32 logits that `bits` allows and `low` keeps."""
    mass = np.float32(0.0)
    if bits == -1:
        for i in range(32):
            value = load(logits[first + i])
            mass += exp((value - top) * scale) if _order(value) >= low else np.float32(0.0)
        return mass
    for i in range(min(32, logits.shape[0] - first)):
        value = load(logits[first + i])
        kept = _order(value) >= low and (bits >> np.int32(i)) & np.int32(1) != 0
        mass += exp((value - top) * scale) if kept else np.float32(0.0)
    return mass


@inner
def _mass(logits: Any, mask: Any, tiles: Any, low: Any, top: Any, scale: Any, masses: Any) -> Any:
    """masses[tile] = mass of the tokens kept by `low`; returns the sum of all."""
    total = np.float64(0.0)
    for tile in range(tiles.shape[0]):
        mass = np.float32(0.0)
        if tiles[tile] >= low:
            for word in range(2 * tile, min(2 * tile + 2, mask.shape[0])):
                if mask[word] != 0:
                    mass += _mass_of_word(logits, word * 32, mask[word], low, top, scale)
        masses[tile] = mass
        total += np.float64(mass)
    return total


@inner
def _nucleus(
    logits: Any, mask: Any, tiles: Any, low: Any, top: Any, scale: Any, goal: Any, found: Any
) -> Any:
    """Order of the logit at which the mass, from the largest down, reaches `goal`. Sorts only as deep as it must:
    first what is within e**-8 of the best, then e**-16, and so on."""
    depth = np.float32(8.0)
    while True:
        cut = max(low, _order(top - depth / scale))
        count = _at_least(logits, mask, tiles, cut, found)
        ordered = np.sort(found[:count])
        mass = np.float64(0.0)
        for i in range(count - 1, -1, -1):
            mass += np.float64(exp((ordered[i] - top) * scale))
            if mass >= goal:
                return _order(ordered[i])
        if cut == low or depth > np.float32(90.0):
            return low
        depth *= np.float32(2.0)


@inner
def _invert(
    logits: Any, mask: Any, tiles: Any, low: Any, top: Any, scale: Any, masses: Any, goal: Any
) -> Any:
    """The first token at which the running mass passes `goal`; the last of its tile if rounding hides it."""
    passed, last = np.float64(0.0), 0
    for tile in range(tiles.shape[0]):
        if masses[tile] == 0:
            continue
        last = tile
        if passed + np.float64(masses[tile]) > goal:
            break
        passed += np.float64(masses[tile])
    chosen = -1
    for token in range(last * TILE, min(last * TILE + TILE, logits.shape[0])):
        value = load(logits[token])
        if _allowed(mask, token) and _order(value) >= low:
            mass = np.float64(exp((value - top) * scale))
            if mass > 0:
                chosen = token
                passed += mass
                if passed > goal:
                    break
    return chosen


@inner
def draw(
    logits: Any, mask: Any, temperature: Any, top_k: Any, top_p: Any, min_p: Any, seed: Any, position: Any,
    tiles: Any, masses: Any, found: Any,
) -> Any:
    best = _best_of_tiles(logits, mask, tiles)
    lowest = _order(np.float32(-np.inf)) + np.int32(1)
    if best < lowest:
        return -1
    top = _value(best)
    if temperature == 0 or top == np.inf:
        return _first_of(logits, mask, tiles, best)
    scale = np.float32(1.0) / temperature
    low = lowest
    if top_k > 0:
        low = _kth(logits, mask, tiles, top_k, low, found)
    total = _mass(logits, mask, tiles, low, top, scale, masses)
    narrowed = low
    if top_p < 1:
        narrowed = max(narrowed, _nucleus(logits, mask, tiles, low, top, scale, np.float64(top_p) * total, found))
    if min_p > 0:
        narrowed = max(narrowed, _order(top + np.float32(np.log(min_p)) / scale))
    if narrowed > low:
        total = _mass(logits, mask, tiles, narrowed, top, scale, masses)
    goal = philox.uniform(seed, position) * total
    return _invert(logits, mask, tiles, narrowed, top, scale, masses, goal)


@inner
def log_mass(logits: Any) -> Any:
    """log of the sum of e**logit, NaN counted as -inf."""
    best = np.int32(LOWEST)
    for i in range(logits.shape[0]):
        best = max(best, _order(load(logits[i])))
    top = _value(best)
    total = np.float64(0.0)
    for begin in range(0, logits.shape[0], 1024):
        part = np.float32(0.0)
        for i in range(begin, min(begin + 1024, logits.shape[0])):
            value = load(logits[i])
            part += exp(value - top) if value == value else np.float32(0.0)
        total += np.float64(part)
    return top + np.float32(np.log(total))
