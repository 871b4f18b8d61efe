"""What the sampling kernels share: how a token is read, how values compare, what a mass is, one uniform number.

A row of logits is cut into tiles of 64 tokens, two mask words each. Values compare as int32 keys that order as the
floats do. Masses that decide anything are integers, multiples of 2**-40 of the mass of the best token: their sums are
exact, so they do not depend on the order in which they are added.
"""

from __future__ import annotations

from ..jit import Arg, constexpr, jit, tl

TILE = 64


@jit
def join_in(OVERLAP: constexpr) -> None:
    """OVERLAP: lets the next launch start while this one runs, and waits for the one before. What earlier launches
    wrote may be read after this only."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@jit
def key_of(x: Arg) -> Arg:
    """int32 that compares as the float32 does; -0 counts as 0. Not for NaN."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@jit
def value_of(key: Arg) -> Arg:
    """The float32 of a key."""
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@jit
def lowest_key() -> Arg:
    """The key of the lowest finite float32: everything below it is never drawn."""
    return key_of(tl.full((), -3.4028234663852886e38, tl.float32))


@jit
def read(logits: Arg, mask: Arg, token: Arg, inside: Arg) -> Arg:
    """float32 logits of `token`; -inf where the mask forbids it, where it is NaN, and where not `inside`."""
    x = tl.load(logits + token, mask=inside, other=float("-inf")).to(tl.float32)
    word = tl.load(mask + (token >> 5), mask=inside, other=0)
    allowed = ((word >> (token & 31)) & 1) != 0
    return tl.where(allowed & (x == x), x, float("-inf"))


@jit
def read_quarter(
    logits: Arg, mask: Arg, tile: Arg, vocabulary: Arg, words: Arg, QUARTER: constexpr
) -> Arg:
    """(raw, allowed) of 16 tokens of each tile, [tiles, 16]: float32 logits as they are, -inf past the vocabulary, and
    whether the mask allows them. In quarters, four lanes hold a tile: reductions over a tile cost few shuffles."""
    lane = QUARTER * 16 + tl.arange(0, 16)[None, :]
    token = tile[:, None] * 64 + lane
    raw = tl.load(logits + token, mask=token < vocabulary, other=float("-inf")).to(tl.float32)
    at = tile * 2 + QUARTER // 2
    word = tl.load(mask + at, mask=at < words, other=0)
    # The bit of a token becomes the sign: one instruction less than a bit tested by itself.
    return raw, (word[:, None] << (31 - (lane & 31))) < 0


@jit
def best_of(a: Arg, b: Arg, c: Arg, d: Arg) -> Arg:
    """[tiles]: the best of four quarters."""
    return tl.max(tl.maximum(tl.maximum(a, b), tl.maximum(c, d)), 1)


@jit
def sum_of(a: Arg, b: Arg, c: Arg, d: Arg) -> Arg:
    """[tiles]: the sums of four quarters, in this order."""
    return tl.sum((a + b) + (c + d), 1)


@jit
def finite(x: Arg) -> Arg:
    """x, or 0 in place of an infinity: differences to it stay numbers."""
    return tl.where(tl.abs(x) < float("inf"), x, 0.0)


@jit
def mass_of(x: Arg, best: Arg, scale: Arg) -> Arg:
    """e ** ((x - best) / T) in float32. scale: log2(e) / T."""
    return tl.exp2((x - best) * scale)


@jit
def fixed(mass: Arg) -> Arg:
    """int64 of a mass in multiples of 2**-40. A row of 2**20 tokens stays below 2**60. (The limit
    matters where a logit is infinite; such a row is drawn greedily.)"""
    return (tl.minimum(mass, 1048576.0) * 1099511627776.0).to(tl.int64)


@jit
def uniform(seed: Arg, position: Arg) -> Arg:
    """Philox 4x32-10 as in `kernels/philox.py`: float64 in [0, 1), a multiple of 2**-53. seed, position: int64."""
    low = 0xFFFFFFFF
    k0 = (seed & low).to(tl.uint64)
    k1 = ((seed >> 32) & low).to(tl.uint64)
    c0 = (position & low).to(tl.uint64)
    c1 = ((position >> 32) & low).to(tl.uint64)
    c2 = c0 & 0
    c3 = c0 & 0
    for _ in tl.static_range(10):
        p0 = c0 * 0xD2511F53
        p1 = c2 * 0xCD9E8D57
        c0 = (p1 >> 32) ^ c1 ^ k0
        c1 = p1 & low
        c2 = (p0 >> 32) ^ c3 ^ k1
        c3 = p0 & low
        k0 = (k0 + 0x9E3779B9) & low
        k1 = (k1 + 0xBB67AE85) & low
    bits = (c0 >> 5) * 67108864 + (c1 >> 6)
    return bits.to(tl.float64) * 1.1102230246251565e-16


@jit
def goal_of(share: Arg, total: Arg) -> Arg:
    """The integer mass that a share of `total` must pass."""
    return (share.to(tl.float64) * total.to(tl.float64)).to(tl.int64)


@jit
def min_p_key(best: Arg, temperature: Arg, min_p: Arg) -> Arg:
    """The key of best + T * log(min_p); the lowest key when min_p is 0."""
    log = tl.log2(tl.where(min_p > 0, min_p, 1.0)) * 0.6931471805599453
    return tl.where(min_p > 0, key_of(best + temperature * log), lowest_key())
