"""Checked mode: what is wrong with a draw becomes a code of its row in an error tensor, and its token is -1.

check: one program a draw, before all others. Effect: error[i] = codes; safe row, mask, target, temperature and flat:
the given ones where they are in range, harmless ones elsewhere, so that no later pass reads outside a tensor.
"""

from __future__ import annotations

from enum import IntFlag

from ..jit import Arg, constexpr, jit, tl


class Fault(IntFlag):
    """Codes of an error tensor, added up. NAN alone spoils nothing: NaN is never drawn. It is seen where raw statistics
    are made."""

    NAN = 1
    EMPTY_MASK = 2
    """The mask row allows no token of the vocabulary."""
    NO_TOKEN = 4
    """No allowed token has a finite logit."""
    MASK = 8
    """The mask row's id is outside the table."""
    PARAMETER = 16
    """temperature is not in [0, inf), top_p or min_p not in [0, 1], or top_k negative."""
    ROW = 32
    """The row's id is outside the logits."""
    TOKEN = 64
    """The target is outside the vocabulary."""


@jit
def check(
    masks: Arg, row: Arg, mask: Arg, target: Arg, temperature: Arg, top_k: Arg, top_p: Arg, min_p: Arg, flat: Arg,
    error: Arg, safe: Arg, safe_temperature: Arg, n: Arg, rows: Arg, mask_rows: Arg, vocabulary: Arg, words: Arg,
    CHUNK: constexpr,
) -> None:
    """safe: [4, n] int32: row, mask, target, flat."""
    i = tl.program_id(0)
    at, allow, wanted = tl.load(row + i), tl.load(mask + i), tl.load(target + i)
    t, p, least = tl.load(temperature + i), tl.load(top_p + i), tl.load(min_p + i)
    in_row, in_mask = (at >= 0) & (at < rows), (allow >= 0) & (allow < mask_rows)
    calm = (t >= 0.0) & (t < float("inf")) & (p >= 0.0) & (p <= 1.0) & (least >= 0.0) & (least <= 1.0)
    calm = calm & (tl.load(top_k + i) >= 0)
    code = tl.where(in_row, 0, 32) | tl.where(in_mask, 0, 8) | tl.where(wanted < vocabulary, 0, 64)
    code |= tl.where(calm, 0, 16)
    allow = tl.where(in_mask, allow, 0)
    bits = tl.zeros((CHUNK,), tl.int32)
    base = words & 0
    while base < words:
        w = base + tl.arange(0, CHUNK)
        word = tl.load(masks + allow.to(tl.int64) * words + w, mask=w < words, other=0)
        left = vocabulary - w * 32
        bits |= tl.where(left >= 32, word, word & ((1 << tl.maximum(tl.minimum(left, 31), 0)) - 1))
        base += CHUNK
    code |= tl.where(tl.max((bits != 0).to(tl.int32), 0) > 0, 0, 2)
    tl.store(error + i, code)
    tl.store(safe + i, tl.where(in_row, at, 0))
    tl.store(safe + n + i, allow)
    tl.store(safe + 2 * n + i, tl.where(wanted < vocabulary, wanted, -1))
    tl.store(safe + 3 * n + i, tl.where(calm, tl.load(flat + i), 0))
    tl.store(safe_temperature + i, tl.where(calm, t, 0.0))
