"""A model from its file: weights dequantised once, in the dtype and order that the kernels want."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...kernels.base import Device
from ...kernels.registry import Kernels, kernels
from ...kernels.rope_write import rope_table
from ..config import EngineConfig
from ..gguf import GGUFFile
from ..weights import check_llama_tensors, llama_tensor
from .config import LlamaConfig, llama_config
from .llama import Block, Llama

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

Read = Callable[[str], NDArray[np.float32]]


def load_model(path: str | Path, config: EngineConfig, device: Device = "cpu") -> Llama:
    """The model of a GGUF file. Raises WeightsError for a broken or unsupported file."""
    gguf = GGUFFile.open(path)
    shape = llama_config(gguf)
    check_llama_tensors(gguf, shape)
    dtype = DTYPES[config.dtype]
    ops = kernels(device, dtype, "exact" if config.exact else "fast")
    return build_llama(shape, lambda name: llama_tensor(gguf, name), ops, dtype, torch.device(device))


def build_llama(config: LlamaConfig, read: Read, ops: Kernels, dtype: torch.dtype, device: torch.device) -> Llama:
    """read: float32 tensor of a name as GGUF names it, q and k rows in the order of half-rotation RoPE."""

    def tensor(*names: str) -> torch.Tensor:
        parts = [torch.from_numpy(read(name)).to(dtype=dtype, device=device) for name in names]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    with torch.inference_mode():
        embedding = tensor("token_embd.weight")
        cos, sin = rope_table(config.context, config.head_dim, config.rope_theta)
        return Llama(
            config=config,
            kernels=ops,
            embedding=embedding,
            blocks=tuple(_block(f"blk.{layer}.", tensor, ops) for layer in range(config.layers)),
            norm=tensor("output_norm.weight"),
            head=ops.pack_linear(embedding if config.tied else tensor("output.weight")),
            cos=cos.to(device),
            sin=sin.to(device),
        )


def _block(prefix: str, tensor: Callable[..., torch.Tensor], ops: Kernels) -> Block:
    def matrix(*names: str) -> torch.Tensor:
        return ops.pack_linear(tensor(*(f"{prefix}{name}.weight" for name in names)))

    return Block(
        attention_norm=tensor(f"{prefix}attn_norm.weight"),
        qkv=matrix("attn_q", "attn_k", "attn_v"),
        out=matrix("attn_output"),
        ffn_norm=tensor(f"{prefix}ffn_norm.weight"),
        gate_up=matrix("ffn_gate", "ffn_up"),
        down=matrix("ffn_down"),
    )
