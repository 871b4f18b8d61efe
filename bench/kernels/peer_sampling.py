"""Masking and drawing by others, where they are installed: xgrammar's mask kernel, FlashInfer's sampling, torch's.

xgrammar writes -inf over the masked logits in place; FlashInfer draws from what is left. Both run in the time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch

Draw = Callable[[torch.Tensor], object]
TOP_K, TOP_P, MIN_P = 50, 0.9, 0.05


def missing() -> list[str]:
    return [name for name in ("xgrammar", "flashinfer") if find_spec(name) is None]


def masking() -> Callable[[torch.Tensor, torch.Tensor], object] | None:
    """(logits, bitmask) -> None, in place: the faster of xgrammar's kernels as its own choice has it."""
    if find_spec("xgrammar") is None:
        return None
    from xgrammar import apply_token_bitmask_inplace

    return lambda logits, mask: apply_token_bitmask_inplace(logits, mask)


def drawing(name: str) -> Draw | None:
    """FlashInfer's draw for a case of bench_sampling, or None. Its top-k and top-p are applied one after the other, as
    ours are; it has no min-p beside them, so that of the second case is left out."""
    if find_spec("flashinfer") is None:
        return None
    from flashinfer import sampling

    def plain(logits: torch.Tensor) -> object:
        return sampling.sampling_from_logits(logits, seed=1, offset=0)

    def filtered(logits: torch.Tensor) -> object:
        return sampling.top_k_top_p_sampling_from_logits(logits, TOP_K, TOP_P, seed=1, offset=0)

    def flat(logits: torch.Tensor) -> object:
        return sampling.top_p_sampling_from_probs(sampling.softmax(logits), TOP_P, seed=1, offset=0)

    def min_p(logits: torch.Tensor) -> object:
        return sampling.min_p_sampling_from_probs(sampling.softmax(logits), MIN_P, seed=1, offset=0)

    draws: dict[str, Draw] = {
        "plain": plain, "k 50, p 0.9, min-p 0.05": filtered, "flat p 0.9": flat, "min-p 0.05": min_p,
    }
    return draws.get(name)
