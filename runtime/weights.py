"""The tensors of a model file: which there must be, of what shape, and in the order that half-rotation RoPE wants.

The converter that writes GGUF files of llama reorders the rows of q and k so that the two halves of each rotated pair
stand side by side (interleaved RoPE). Undone here: per head, rows (pair, half) go back to (half, pair). Whole rows
move, and quantised blocks run along a row, so packed rows can be reordered as well as float ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import WeightsError
from .gguf import GGUFFile
from .models.config import ROPE_DIVISORS, LlamaConfig, gguf_family, llama_config


def llama_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of such a file, by name, in torch order ([out, in] for a matrix)."""
    q, kv = config.heads * config.head_dim, config.kv_heads * config.head_dim
    block = {
        "attn_norm.weight": (config.width,),
        "attn_q.weight": (q, config.width),
        "attn_k.weight": (kv, config.width),
        "attn_v.weight": (kv, config.width),
        "attn_output.weight": (config.width, q),
        "ffn_norm.weight": (config.width,),
        "ffn_gate.weight": (config.ffn, config.width),
        "ffn_up.weight": (config.ffn, config.width),
        "ffn_down.weight": (config.width, config.ffn),
    }
    if config.biases:
        block |= {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,)}
    if config.head_norms:
        block |= {"attn_q_norm.weight": (config.head_dim,), "attn_k_norm.weight": (config.head_dim,)}
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (config.vocab, config.width)}
    for layer in range(config.layers):
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
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
            raise WeightsError("this tensor is not part of the model as computed here", where=f"tensor {name}")


def check_llama_tensors(gguf: GGUFFile, config: LlamaConfig) -> None:
    """Raises WeightsError as `check_tensors` does."""
    check_tensors({name: info.shape for name, info in gguf.tensors.items() if name != ROPE_DIVISORS},
                  llama_shapes(config))


def llama_tensor(gguf: GGUFFile, name: str) -> NDArray[np.float32]:
    """float32, torch order, with the reordering of q and k undone. Raises WeightsError."""
    tensor = gguf.tensor(name)
    heads = permuted_heads(gguf, llama_config(gguf), name)
    return unpermute_rows(tensor, heads) if heads else tensor


def permuted_heads(gguf: GGUFFile, config: LlamaConfig, name: str) -> int:
    """How many heads the reordered rows of this tensor belong to; 0 when its rows were left alone."""
    if not gguf_family(gguf).paired:
        return 0
    if name.endswith(".attn_q.weight"):
        return config.heads
    return config.kv_heads if name.endswith(".attn_k.weight") else 0


def unpermute_rows(rows: NDArray[Any], heads: int) -> NDArray[Any]:
    """rows: `[heads * head_dim, anything]`, float or packed. Returns a copy in half-rotation order."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[-1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)
