"""The shape of a model, read from its file. What this runtime does not compute is refused by name, never ignored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..errors import WeightsError
from ..gguf import GGUFFile
from ..keys import Keys
from .families import GGUF_NAMES, Family
from .rope import Yarn

ROPE_DIVISORS = "rope_freqs.weight"  # the tensor
_ARCHITECTURE = "general.architecture"
_TOKENS = "tokenizer.ggml.tokens"
_SCALING, _FACTOR = "rope.scaling.type", "rope.scaling.factor"
_YARN_NEUTRAL: Mapping[str, tuple[float, ...]] = MappingProxyType({
    "attn_factor": (1,), "yarn_attn_factor": (1,), "yarn_ext_factor": (1, -1), "yarn_log_multiplier": (0,),
})
_LONGEST = 2**31 - 1  # positions
_SLOWEST, _FASTEST = 1e-3, 1e6  # turns in a context
_WAY_OUT = "Use a model without it."


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaConfig:
    """layers: blocks. width: of the residual stream. ffn: width of the feed-forward's inside. context: most positions
    the model was trained for. tied: the output matrix is the embedding. rope_divisors: of the frequencies of RoPE, one
    for each pair of a head; (): they are as they are. rope_scale: of cos and sin. biases, head_norms: see `Family`."""

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
    rope_scale: float = 1.0
    biases: bool = False
    head_norms: bool = False


def llama_config(gguf: GGUFFile) -> LlamaConfig:
    """Raises WeightsError for another architecture, for variants of it that are not computed here (experts,
    partial rotation), and for numbers that do not fit together."""
    family, keys = gguf_family(gguf), _Keys(gguf)
    _refuse_variants(keys)
    width = keys.integer("embedding_length", 1)
    heads = keys.integer("attention.head_count", 1)
    head_dim = keys.optional("attention.key_length", width // heads)
    config = LlamaConfig(
        layers=keys.integer("block_count", 1, 10_000),
        width=width,
        heads=heads,
        kv_heads=keys.optional("attention.head_count_kv", heads),
        head_dim=head_dim,
        ffn=keys.integer("feed_forward_length", 1),
        vocab=_vocabulary(gguf),
        context=keys.integer("context_length", 1),
        rope_theta=keys.number("rope.freq_base") if "rope.freq_base" in keys.metadata else 10_000.0,
        rms_eps=keys.number("attention.layer_norm_rms_epsilon"),
        tied="output.weight" not in gguf.tensors,
        rope_divisors=_divisors(keys, gguf, head_dim // 2),
        biases=family.biases,
        head_norms=family.head_norms,
    )
    _check(keys, config)
    return with_yarn(config, _yarn(keys, gguf), keys.place(_FACTOR)) if keys.scaling() == "yarn" else config


def gguf_family(gguf: GGUFFile) -> Family:
    """Raises WeightsError for an architecture that is not computed here."""
    architecture = gguf.text(_ARCHITECTURE)
    if architecture not in GGUF_NAMES:
        raise WeightsError(f"the architecture {architecture[:80]!r} is not supported", where=_ARCHITECTURE,
                           fix=f"This runtime reads {', '.join(GGUF_NAMES)}.")
    return GGUF_NAMES[architecture]


class _Keys(Keys):
    """The keys that bear the name of the architecture in front; asked for without it."""

    def __init__(self, gguf: GGUFFile) -> None:
        self._front = f"{gguf.text(_ARCHITECTURE)}."
        self.metadata = {key.removeprefix(self._front): value for key, value in gguf.metadata.items()
                         if key.startswith(self._front)}

    def place(self, key: str) -> str:
        return self._front + key

    def optional(self, key: str, default: int) -> int:
        return self.integer(key, 1) if key in self.metadata else default

    def scaling(self) -> str:
        return self.text(_SCALING) if _SCALING in self.metadata else "none"


def _vocabulary(gguf: GGUFFile) -> int:
    """The rows of the embedding: one for each token, so that no id of the tokenizer can pass its end."""
    shape = gguf.info("token_embd.weight").shape
    if len(shape) != 2:
        raise WeightsError("the embedding is not a matrix", where="tensor token_embd.weight")
    if _TOKENS in gguf.metadata and len(gguf.texts(_TOKENS)) != shape[0]:
        raise WeightsError(f"{len(gguf.texts(_TOKENS))} tokens for {shape[0]} rows of the embedding", where=_TOKENS)
    return shape[0]


def _divisors(keys: _Keys, gguf: GGUFFile, pairs: int) -> tuple[float, ...]:
    """Of linear scaling, and of the tensor by which Llama 3.1 and later state theirs."""
    factor = keys.number(_FACTOR) if keys.scaling() == "linear" else 1.0
    if not 0 < factor < math.inf:
        raise WeightsError(f"RoPE cannot be stretched by {factor}", where=keys.place(_FACTOR))
    if ROPE_DIVISORS not in gguf.tensors:
        return () if factor == 1 else (factor,) * pairs
    stated = gguf.tensor(ROPE_DIVISORS)
    if stated.shape != (pairs,) or not (stated > 0).all():
        raise WeightsError(f"it should hold {pairs} numbers above zero", where=f"tensor {ROPE_DIVISORS}")
    return tuple(factor * float(divisor) for divisor in stated)


def _yarn(keys: _Keys, gguf: GGUFFile) -> Yarn:
    for key, neutral in _YARN_NEUTRAL.items():
        name = f"rope.scaling.{key}"
        if name in keys.metadata and keys.number(name) not in neutral:
            raise WeightsError("YaRN with such a factor is not supported", where=keys.place(name), fix=_WAY_OUT)
    if ROPE_DIVISORS in gguf.tensors:
        raise WeightsError("divisors beside YaRN are not supported", where=f"tensor {ROPE_DIVISORS}", fix=_WAY_OUT)
    fast, slow = (keys.number(key) if key in keys.metadata else default for key, default in (
        ("rope.scaling.yarn_beta_fast", 32.0), ("rope.scaling.yarn_beta_slow", 1.0)))
    return Yarn(keys.number(_FACTOR), keys.integer("rope.scaling.original_context_length", 1), fast, slow)


def _refuse_variants(keys: _Keys) -> None:
    scaling = keys.scaling()
    if scaling not in ("none", "linear", "yarn"):
        raise WeightsError(f"RoPE scaling of type {scaling[:80]!r} is not supported", where=keys.place(_SCALING),
                           fix=_WAY_OUT)
    for key in ("rope.scale_linear", *([_FACTOR] if scaling == "none" else [])):
        if key in keys.metadata and keys.number(key) not in (0.0, 1.0):
            raise WeightsError("scaled RoPE without its type is not supported", where=keys.place(key), fix=_WAY_OUT)
    if "expert_count" in keys.metadata and keys.integer("expert_count"):
        raise WeightsError("mixtures of experts are not supported", where=keys.place("expert_count"), fix=_WAY_OUT)


def _check(keys: _Keys, config: LlamaConfig) -> None:
    places = {"kv_heads": "attention.head_count_kv", "head_dim": "attention.key_length", "rope_theta": "rope.freq_base",
              "rms_eps": "attention.layer_norm_rms_epsilon"}
    check_numbers(config, {field: keys.place(key) for field, key in places.items()})
    for key in ("attention.value_length", "rope.dimension_count"):
        if keys.optional(key, config.head_dim) != config.head_dim:
            raise WeightsError(f"it differs from the head's {config.head_dim}, which is not supported",
                               where=keys.place(key))


def with_yarn(config: LlamaConfig, yarn: Yarn, where: str) -> LlamaConfig:
    """Of a config whose numbers were checked; the context becomes what it is stretched to, if it is not larger. Raises
    WeightsError for numbers that make no ramp."""
    fits = 1 <= yarn.factor < math.inf and yarn.factor * yarn.context <= _LONGEST and config.rope_theta > 1
    if not fits or not _SLOWEST <= yarn.slow < yarn.fast <= _FASTEST or not 0 < yarn.scale < math.inf:
        raise WeightsError(f"RoPE cannot be stretched so: {yarn}, base {config.rope_theta}", where=where)
    return replace(config, context=max(config.context, int(yarn.factor * yarn.context)), rope_scale=yarn.scale,
                   rope_divisors=yarn.divisors(config.head_dim // 2, config.rope_theta))


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
