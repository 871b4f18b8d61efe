"""Llama (Touvron et al. 2023): pre-normalised blocks of grouped-query attention with RoPE, and SwiGLU; with what
`families` states beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from ...kernels.layout import Batch, PagedCache
from ...kernels.linear import Matrix
from ...kernels.planned_batch import PlannedBatch
from ...kernels.registry import Kernels
from ...kernels.rope_write import HeadNorms
from .config import LlamaConfig

Tensor = torch.Tensor
AnyBatch = Batch | PlannedBatch


@dataclass(frozen=True, slots=True)
class Block:
    """qkv is [q; k; v] and gate_up is [gate; up], one product each. attention_norm, ffn_norm: [width]. bias: of qkv,
    [q + k + v]. head_norms: of each head of q and k."""

    attention_norm: Tensor
    qkv: Matrix
    out: Matrix
    ffn_norm: Tensor
    gate_up: Matrix
    down: Matrix
    bias: Tensor | None = None
    head_norms: HeadNorms | None = None


@dataclass(frozen=True, slots=True)
class Llama:
    """embedding: [vocab, width]. head: the embedding again when tied. cos, sin: [positions, head_dim / 2], of all
    positions that texts can reach. words: what its file says of the tokenizer, the chat template included: key ->
    digest."""

    config: LlamaConfig
    kernels: Kernels
    embedding: Tensor
    blocks: tuple[Block, ...]
    norm: Tensor
    head: Matrix
    cos: Tensor
    sin: Tensor
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype:
        return self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device


def allocate_cache(model: Llama, pages: int, page: int) -> PagedCache:
    config = model.config
    return PagedCache.allocate(
        layers=config.layers, pages=pages, kv_heads=config.kv_heads, page=page, head_dim=config.head_dim,
        dtype=model.dtype, device=model.device,
    )


def forward(model: Llama, cache: PagedCache, tokens: Tensor, batch: AnyBatch, wanted: Tensor) -> Tensor:
    """tokens: [tokens] int64 or int32. wanted: [n], likewise, indices into tokens. Writes the keys and values of all
    tokens into `cache`; returns the next-token logits of the wanted ones, [n, vocab]."""
    ops, eps = model.kernels, model.config.rms_eps
    x = ops.embed(model.embedding, tokens)
    delta = None
    for block, k, v in zip(model.blocks, cache.k, cache.v, strict=True):
        delta = attention(model, block, ops.add_rms_norm(x, delta, block.attention_norm, eps), k, v, batch)
        delta = feed_forward(model, block, ops.add_rms_norm(x, delta, block.ffn_norm, eps))
    x, delta = ops.gather_rows(x, wanted), None if delta is None else ops.gather_rows(delta, wanted)
    return ops.linear(ops.add_rms_norm(x, delta, model.norm, eps), model.head)


def attention(model: Llama, block: Block, x: Tensor, k: Tensor, v: Tensor, batch: AnyBatch) -> Tensor:
    ops = model.kernels
    qkv = ops.linear(x, block.qkv)
    if block.bias is not None:
        qkv += block.bias
    q = ops.rope_write(qkv, model.cos, model.sin, k, v, batch, norms=block.head_norms)
    return ops.linear(ops.attend(q, k, v, batch, model.config.head_dim**-0.5), block.out)


def feed_forward(model: Llama, block: Block, x: Tensor) -> Tensor:
    ops = model.kernels
    return ops.linear(ops.gated_silu(ops.linear(x, block.gate_up)), block.down)
