"""A model from its file: weights dequantised once, in the dtype and order that the kernels want."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from ...kernels.linear import Groups, Matrix
from ...kernels.registry import Kernels, kernels
from ...kernels.rope_scaling import Divided
from ...kernels.rope_write import HeadNorms, rope_table
from ..config import EngineConfig
from ..errors import InvalidParameter
from ..sizing import positions_of
from .config import LlamaConfig
from .files import ModelFiles, open_model
from .llama import Block, Llama
from .sources import Source

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_model(path: str | Path, config: EngineConfig) -> Llama:
    """The model of a .gguf file or of a folder. Sets torch's number of threads when config.threads is not 0. Raises
    WeightsError for a broken or unsupported file, InvalidParameter when torch sees no such device."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise InvalidParameter("torch sees no CUDA device here", where="device",
                               fix="Set device to cpu, or install a torch build with CUDA where a GPU is.")
    if config.threads:
        torch.set_num_threads(config.threads)
    dtype = DTYPES[config.dtype]
    ops = kernels(config.device, dtype, "exact" if config.exact else "fast")
    files = open_model(path)
    positions = positions_of(config, files.config, dtype)
    return read_model(files, ops, dtype, torch.device(config.device), positions)


def read_model(
    files: ModelFiles, ops: Kernels, dtype: torch.dtype, device: torch.device, positions: int | None = None
) -> Llama:
    """positions: that texts will reach; None: the whole context. Raises WeightsError."""
    model = build_llama(files.config, files.source(), ops, dtype, device, positions)
    return replace(model, words=files.words())


def build_llama(
    config: LlamaConfig, source: Source, ops: Kernels, dtype: torch.dtype, device: torch.device,
    positions: int | None = None,
) -> Llama:
    """positions: as of `read_model`."""
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
        rows = config.context if positions is None else positions
        cos, sin = rope_table(rows, config.head_dim, config.rope_theta, scaling)
        return Llama(
            config=config,
            kernels=ops,
            embedding=embedding,
            blocks=tuple(_block(config, f"blk.{layer}.", tensor, matrix) for layer in range(config.layers)),
            norm=tensor("output_norm.weight"),
            head=ops.pack_linear(embedding, groups("token_embd.weight")) if config.tied else matrix("output.weight"),
            cos=(cos * config.rope_scale).to(device),
            sin=(sin * config.rope_scale).to(device),
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


def _block(
    config: LlamaConfig, prefix: str, tensor: Callable[..., torch.Tensor], matrix: Callable[..., Matrix]
) -> Block:
    def names(*parts: str, kind: str = "weight") -> list[str]:
        return [f"{prefix}{part}.{kind}" for part in parts]

    q_k_v = "attn_q", "attn_k", "attn_v"
    return Block(
        attention_norm=tensor(*names("attn_norm")),
        qkv=matrix(*names(*q_k_v)),
        out=matrix(*names("attn_output")),
        ffn_norm=tensor(*names("ffn_norm")),
        gate_up=matrix(*names("ffn_gate", "ffn_up")),
        down=matrix(*names("ffn_down")),
        bias=tensor(*names(*q_k_v, kind="bias")) if config.biases else None,
        head_norms=_head_norms(config, prefix, tensor) if config.head_norms else None,
    )


def _head_norms(config: LlamaConfig, prefix: str, tensor: Callable[..., torch.Tensor]) -> HeadNorms:
    q, k = (tensor(f"{prefix}{part}.weight") for part in ("attn_q_norm", "attn_k_norm"))
    return HeadNorms(q, k, config.rms_eps)
