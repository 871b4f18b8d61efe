"""Architectures that are Llama with stated differences, and what their files leave unsaid.

Qwen 2 and 2.5 (Yang et al. 2024, section 2.2.1) add biases to q, k and v; Qwen 3 (Yang et al. 2025, section 2) takes an
RMSNorm of each head of q and k instead of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Family:
    """biases: on q, k and v. head_norms: RMSNorm of each head of q and k, before the rotation. paired: GGUF files hold
    the rows of q and k in the order of interleaved RoPE. stated: keys that a config.json must have, since they default
    to other numbers than Llama's. optional_window: `sliding_window` holds under `use_sliding_window` only."""

    biases: bool = False
    head_norms: bool = False
    paired: bool = False
    stated: tuple[str, ...] = ()
    optional_window: bool = False


LLAMA = Family(paired=True)
MISTRAL = Family(stated=("num_key_value_heads", "sliding_window"))
QWEN2 = Family(biases=True, stated=("num_key_value_heads",), optional_window=True)
QWEN3 = Family(head_norms=True, stated=("num_key_value_heads", "head_dim"), optional_window=True)

GGUF_NAMES: Mapping[str, Family] = MappingProxyType({"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3})
CLASSES: Mapping[str, Family] = MappingProxyType({
    "LlamaForCausalLM": LLAMA, "MistralForCausalLM": MISTRAL, "Qwen2ForCausalLM": QWEN2, "Qwen3ForCausalLM": QWEN3,
})
