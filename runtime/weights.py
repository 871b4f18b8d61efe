"""The tensors of a llama file: which there must be, of what shape, and in the order that half-rotation RoPE wants.

The converter that writes these files reorders the rows of q and k so that the two halves of each rotated pair stand
side by side (interleaved RoPE). Undone here: per head, rows (pair, half) go back to (half, pair). Whole rows move, and
quantised blocks run along a row, so packed rows can be reordered as well as float ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import WeightsError
from .gguf import GGUFFile
from .models.config import ROPE_DIVISORS, LlamaConfig, llama_config


def llama_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of such a file, by name, in torch order ([out, in] for a matrix)."""
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    block = {
        "attn_norm": (config.width,),
        "attn_q": (q, config.width),
        "attn_k": (kv, config.width),
        "attn_v": (kv, config.width),
        "attn_output": (config.width, q),
        "ffn_norm": (config.width,),
        "ffn_gate": (config.ffn, config.width),
        "ffn_up": (config.ffn, config.width),
        "ffn_down": (config.width, config.ffn),
    }
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (config.vocab, config.width)}
    for layer in range(config.layers):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in block.items()}
    shapes["output_norm.weight"] = (config.width,)
    if not config.tied:
        shapes["output.weight"] = (config.vocab, config.width)
    return shapes


def check_tensors(found: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Of shapes by name. Raises WeightsError for the first tensor that is missing, has another shape, or is not part of
    the model."""
    for name, shape in wanted.items():
        if name not in found:
            raise WeightsError("the file has no such tensor", where=f"tensor {name}")
        if found[name] != shape:
            raise WeightsError(f"its shape is {found[name]} and should be {shape}", where=f"tensor {name}")
    for name in found:
        if name not in wanted:
            raise WeightsError("this tensor is not part of a llama model as computed here", where=f"tensor {name}")


def check_llama_tensors(gguf: GGUFFile, config: LlamaConfig) -> None:
    """Raises WeightsError as `check_tensors` does."""
    check_tensors({name: info.shape for name, info in gguf.tensors.items() if name != ROPE_DIVISORS},
                  llama_shapes(config))


def llama_tensor(gguf: GGUFFile, name: str) -> NDArray[np.float32]:
    """float32, torch order, with the reordering of q and k undone. Raises WeightsError."""
    tensor = gguf.tensor(name)
    heads = permuted_heads(llama_config(gguf), name)
    return unpermute_rows(tensor, heads) if heads else tensor


def permuted_heads(config: LlamaConfig, name: str) -> int:
    """How many heads the reordered rows of this tensor belong to; 0 when its rows were left alone."""
    if name.endswith(".attn_q.weight"):
        return config.heads
    return config.kv_heads if name.endswith(".attn_k.weight") else 0


def unpermute_rows(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """rows: `[heads * head_dim, anything]`, float or packed. Returns a copy in half-rotation order."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)
