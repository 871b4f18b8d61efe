"""The shape of a model, read from its file. What this runtime does not compute is refused by name, never ignored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import WeightsError
from ..gguf import GGUFFile

ROPE_DIVISORS = "rope_freqs.weight"  # the tensor
_TOKENS = "tokenizer.ggml.tokens"
_SCALING = "llama.rope.scaling.type"
_FACTOR = "llama.rope.scaling.factor"
_WAY_OUT = "Use a model without it."


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """layers: blocks. width: of the residual stream. ffn: width of the feed-forward's inside. context: most positions
    the model was trained for. tied: the output matrix is the embedding. rope_divisors: of the frequencies of RoPE, one
    for each pair of a head; (): they are as they are."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    context: int
    rope_theta: float
    rms_eps: float
    tied: bool
    rope_divisors: tuple[float, ...] = ()


def llama_config(gguf: GGUFFile) -> LlamaConfig:
    """Raises WeightsError for another architecture, for variants of it that are not computed here (YaRN, experts,
    partial rotation), and for numbers that do not fit together."""
    architecture = gguf.text("general.architecture")
    if architecture != "llama":
        raise WeightsError(
            f"the architecture {architecture[:80]!r} is not supported", where="general.architecture",
            fix="This runtime reads 'llama'.",
        )
    _refuse_variants(gguf)
    width = gguf.integer("llama.embedding_length", 1)
    heads = gguf.integer("llama.attention.head_count", 1)
    head_dim = _optional(gguf, "llama.attention.key_length", width // heads)
    config = LlamaConfig(
        layers=gguf.integer("llama.block_count", 1, 10_000),
        width=width,
        heads=heads,
        kv_heads=_optional(gguf, "llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=gguf.integer("llama.feed_forward_length", 1),
        vocab=_vocabulary(gguf),
        context=gguf.integer("llama.context_length", 1),
        rope_theta=gguf.number("llama.rope.freq_base") if "llama.rope.freq_base" in gguf.metadata else 10_000.0,
        rms_eps=gguf.number("llama.attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in gguf.tensors,
        rope_divisors=_divisors(gguf, head_dim // 2),
    )
    _check(gguf, config)
    return config


def _optional(gguf: GGUFFile, key: str, default: int) -> int:
    return gguf.integer(key, 1) if key in gguf.metadata else default


def _vocabulary(gguf: GGUFFile) -> int:
    """The rows of the embedding: one for each token, so that no id of the tokenizer can pass its end."""
    shape = gguf.info("token_embd.weight").shape
    if len(shape) != 2:
        raise WeightsError("the embedding is not a matrix", where="tensor token_embd.weight")
    if _TOKENS in gguf.metadata and len(gguf.texts(_TOKENS)) != shape[0]:
        raise WeightsError(f"{len(gguf.texts(_TOKENS))} tokens for {shape[0]} rows of the embedding", where=_TOKENS)
    return shape[0]


def _scaling(gguf: GGUFFile) -> str:
    return gguf.text(_SCALING) if _SCALING in gguf.metadata else "none"


def _divisors(gguf: GGUFFile, pairs: int) -> tuple[float, ...]:
    """Of linear scaling, and of the tensor by which Llama 3.1 and later state theirs."""
    factor = gguf.number(_FACTOR) if _scaling(gguf) == "linear" else 1.0
    if not 0 < factor < math.inf:
        raise WeightsError(f"RoPE cannot be stretched by {factor}", where=_FACTOR)
    if ROPE_DIVISORS not in gguf.tensors:
        return () if factor == 1 else (factor,) * pairs
    stated = gguf.tensor(ROPE_DIVISORS)
    if stated.shape != (pairs,) or not (stated > 0).all():
        raise WeightsError(f"it should hold {pairs} numbers above zero", where=f"tensor {ROPE_DIVISORS}")
    return tuple(factor * float(divisor) for divisor in stated)


def _refuse_variants(gguf: GGUFFile) -> None:
    scaling = _scaling(gguf)
    if scaling not in ("none", "linear"):
        raise WeightsError(f"RoPE scaling of type {scaling[:80]!r} is not supported", where=_SCALING, fix=_WAY_OUT)
    for key in ("llama.rope.scale_linear", *([_FACTOR] if scaling == "none" else [])):
        if key in gguf.metadata and gguf.number(key) not in (0.0, 1.0):
            raise WeightsError("scaled RoPE without its type is not supported", where=key, fix=_WAY_OUT)
    if "llama.expert_count" in gguf.metadata and gguf.integer("llama.expert_count"):
        raise WeightsError("mixtures of experts are not supported", where="llama.expert_count", fix=_WAY_OUT)


def _check(gguf: GGUFFile, config: LlamaConfig) -> None:
    check_numbers(config, {
        "kv_heads": "llama.attention.head_count_kv", "head_dim": "llama.attention.key_length",
        "rope_theta": "llama.rope.freq_base", "rms_eps": "llama.attention.layer_norm_rms_epsilon",
    })
    for key in ("llama.attention.value_length", "llama.rope.dimension_count"):
        if _optional(gguf, key, config.head_dim) != config.head_dim:
            raise WeightsError(f"it differs from the head's {config.head_dim}, which is not supported", where=key)


def check_numbers(config: LlamaConfig, places: Mapping[str, str]) -> None:
    """places: how the file calls a field. Raises WeightsError for numbers that do not fit together."""
    if config.heads % config.kv_heads:
        raise WeightsError(f"{config.heads} heads cannot share {config.kv_heads} kv heads", where=places["kv_heads"])
    if config.head_dim % 2 or config.head_dim < 2:
        raise WeightsError(f"heads of {config.head_dim} values cannot be rotated", where=places["head_dim"])
    if not 1 <= config.rope_theta < math.inf:
        raise WeightsError(f"RoPE cannot turn with base {config.rope_theta}", where=places["rope_theta"])
    if not 0 < config.rms_eps < 1:
        raise WeightsError(f"{config.rms_eps} is no epsilon", where=places["rms_eps"])
