"""A model from its file: weights dequantised once, in the dtype and order that the kernels want."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...kernels.linear import Groups, Matrix
from ...kernels.registry import Kernels, kernels
from ...kernels.rope_scaling import Divided
from ...kernels.rope_write import rope_table
from ..config import EngineConfig
from ..errors import InvalidParameter
from ..gguf import GGUFFile
from ..weights import check_llama_tensors, llama_tensor, permuted_heads, unpermute_rows
from .config import LlamaConfig, llama_config
from .few_bits import few_bits
from .llama import Block, Llama

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Source(Protocol):
    """Tensors by the names that GGUF gives them, q and k rows in the order of half-rotation RoPE."""

    def tensor(self, name: str) -> NDArray[np.float32]: ...

    def groups(self, name: str) -> Groups | None:
        """The tensor in 4 or 8 bits when it is stored so that these hold it without loss, else None."""


class GGUFSource:
    def __init__(self, gguf: GGUFFile, config: LlamaConfig) -> None:
        self._gguf = gguf
        self._config = config

    def tensor(self, name: str) -> NDArray[np.float32]:
        return llama_tensor(self._gguf, name)

    def groups(self, name: str) -> Groups | None:
        info = self._gguf.info(name)
        rows = self._gguf.raw(name).reshape(info.shape[0], -1)
        heads = permuted_heads(self._config, name)
        return few_bits(info.type, unpermute_rows(rows, heads) if heads else rows)


def load_model(path: str | Path, config: EngineConfig) -> Llama:
    """The model of a GGUF file. Sets torch's number of threads when config.threads is not 0. Raises WeightsError for a
    broken or unsupported file, InvalidParameter when torch sees no such device."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InvalidParameter("torch sees no CUDA device here", where="device",
                               fix="Set device to cpu, or install a torch build with CUDA where a GPU is.")
    if config.threads:
        torch.set_num_threads(config.threads)
    dtype = DTYPES[config.dtype]
    ops = kernels(config.device, dtype, "exact" if config.exact else "fast")
    return read_model(GGUFFile.open(path), ops, dtype, torch.device(config.device))


def read_model(gguf: GGUFFile, ops: Kernels, dtype: torch.dtype, device: torch.device) -> Llama:
    """Raises WeightsError."""
    shape = llama_config(gguf)
    check_llama_tensors(gguf, shape)
    return replace(build_llama(shape, GGUFSource(gguf, shape), ops, dtype, device), words=words_of(gguf))


def words_of(gguf: GGUFFile) -> dict[str, str]:
    """What a file says of its tokenizer, the chat template included: key -> digest."""
    return {key: _digest(value) for key, value in gguf.metadata.items() if key.startswith("tokenizer.")}


def _digest(value: object) -> str:
    told = (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()


def build_llama(config: LlamaConfig, source: Source, ops: Kernels, dtype: torch.dtype, device: torch.device) -> Llama:
    def tensor(*names: str) -> torch.Tensor:
        parts = [torch.from_numpy(source.tensor(name)).to(dtype=dtype, device=device) for name in names]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def groups(*names: str) -> Groups | None:
        packs = dtype == torch.bfloat16 and device.type == "cpu"
        return _joined([source.groups(name) for name in names]) if packs else None

    def matrix(*names: str) -> Matrix:
        return ops.pack_linear(tensor(*names), groups(*names))

    with torch.inference_mode():
        embedding = tensor("token_embd.weight")
        scaling = Divided(config.rope_divisors) if config.rope_divisors else None
        cos, sin = rope_table(config.context, config.head_dim, config.rope_theta, scaling)
        return Llama(
            config=config,
            kernels=ops,
            embedding=embedding,
            blocks=tuple(_block(f"blk.{layer}.", tensor, matrix) for layer in range(config.layers)),
            norm=tensor("output_norm.weight"),
            head=ops.pack_linear(embedding, groups("token_embd.weight")) if config.tied else matrix("output.weight"),
            cos=cos.to(device),
            sin=sin.to(device),
        )


def _joined(parts: list[Groups | None]) -> Groups | None:
    """One above the other; None when a part is not in 4 bits."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    codes, scale, offset = (
        torch.cat([getattr(part, field) for part in found]) for field in ("codes", "scale", "offset")
    )
    return Groups(codes, scale, offset)


def _block(prefix: str, tensor: Callable[..., torch.Tensor], matrix: Callable[..., Matrix]) -> Block:
    def names(*parts: str) -> list[str]:
        return [f"{prefix}{part}.weight" for part in parts]

    return Block(
        attention_norm=tensor(*names("attn_norm")),
        qkv=matrix(*names("attn_q", "attn_k", "attn_v")),
        out=matrix(*names("attn_output")),
        ffn_norm=tensor(*names("ffn_norm")),
        gate_up=matrix(*names("ffn_gate", "ffn_up")),
        down=matrix(*names("ffn_down")),
    )
