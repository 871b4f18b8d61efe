"""The shape of a model, read from the config.json of a folder in the form of Hugging Face. Keys that change what is
computed are refused by name; the defaults are those of LlamaConfig in transformers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from ..errors import WeightsError
from ..json_file import JsonFile
from .config import LlamaConfig, check_numbers, with_yarn
from .families import CLASSES, Family
from .rope import Llama3, Yarn

_WAY_OUT = "Use a model without it."
_FIRST_CONTEXT = "original_max_position_embeddings"
_WINDOWED = "use_sliding_window"
_WIDEST, _MOST_TOKENS = 1 << 20, 1 << 22  # before anything of that length is made; ten times over the largest
# Key -> the values that leave the graph as it is computed here.
_NEUTRAL: Mapping[str, tuple[object, ...]] = MappingProxyType({
    "hidden_act": ("silu",), "mlp_bias": (False,), "quantization_config": (),
    "compression_config": (), "auto_map": (), "partial_rotary_factor": (1,), "rope_interleaved": (False,),
    "is_encoder_decoder": (False,), "add_cross_attention": (False,), "qk_layernorm": (False,), "use_qk_norm": (False,),
    "num_local_experts": (0, 1), "num_experts": (0, 1), "attn_logit_softcapping": (), "final_logit_softcapping": (),
    "logit_scale": (1,), "logits_scaling": (1,), "embedding_multiplier": (1,), "attention_multiplier": (),
    "residual_multiplier": (1,), "no_rope_layers": (), "no_rope_layer_interval": (), "attention_chunk_size": (),
    "dual_chunk_attention_config": (),
})
_ROPE_KEYS: Mapping[str, frozenset[str]] = MappingProxyType({
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", _FIRST_CONTEXT}),
    "yarn": frozenset({"factor", "beta_fast", "beta_slow", "attention_factor", _FIRST_CONTEXT}),
})
_ROPE_ALWAYS = frozenset({"rope_type", "type", "rope_theta"})


def folder_config(file: JsonFile) -> LlamaConfig:
    """Raises WeightsError for another architecture, for variants of it that are not computed here, and for numbers that
    do not fit together; it names the key."""
    family = _family(file)
    _refuse_variants(file, family)
    width = file.integer("hidden_size", 1, _WIDEST)
    heads = file.integer("num_attention_heads", 1)
    head_dim = file.integer("head_dim", 1, _WIDEST) if file.has("head_dim") else width // heads
    rope = _rope(file)
    theta = _theta(file, rope)
    config = LlamaConfig(
        layers=file.integer("num_hidden_layers", 1, 10_000),
        width=width,
        heads=heads,
        kv_heads=file.integer("num_key_value_heads", 1) if file.has("num_key_value_heads") else heads,
        head_dim=head_dim,
        ffn=file.integer("intermediate_size", 1),
        vocab=file.integer("vocab_size", 1, _MOST_TOKENS),
        context=file.integer("max_position_embeddings", 1),
        rope_theta=theta,
        rms_eps=file.number("rms_norm_eps"),
        tied=file.has("tie_word_embeddings") and file.flag("tie_word_embeddings"),
        biases=family.biases,
        head_norms=family.head_norms,
    )
    places = {"kv_heads": "num_key_value_heads", "head_dim": "head_dim", "rope_theta": "rope_theta",
              "rms_eps": "rms_norm_eps"}
    check_numbers(config, {field: file.place(key) for field, key in places.items()})
    return _stretched(config, rope)


def _family(file: JsonFile) -> Family:
    found = file.value("architectures")
    if not isinstance(found, list) or len(found) != 1 or found[0] not in CLASSES:
        raise WeightsError(f"the architecture {str(found)[:80]} is not supported", where=file.place("architectures"),
                           fix=f"This runtime reads {', '.join(CLASSES)}.")
    family = CLASSES[found[0]]
    for key in family.stated:
        file.value(key)
    return family


def _refuse_variants(file: JsonFile, family: Family) -> None:
    for key, neutral in {**_NEUTRAL, "attention_bias": (False, family.biases)}.items():
        if file.has(key) and file.metadata[key] not in neutral:
            raise WeightsError(f"{str(file.metadata[key])[:80]} is not supported", where=file.place(key), fix=_WAY_OUT)
    if _in_window(file, family):
        raise WeightsError("attention in a window is not supported", where=file.place("sliding_window"), fix=_WAY_OUT)
    layers = file.metadata.get("layer_types") or []
    if not isinstance(layers, list) or any(layer != "full_attention" for layer in layers):
        raise WeightsError("attention of another kind is not supported", where=file.place("layer_types"), fix=_WAY_OUT)


def _in_window(file: JsonFile, family: Family) -> bool:
    if family.optional_window and not (file.has(_WINDOWED) and file.flag(_WINDOWED)):
        return False
    return file.has("sliding_window") and file.integer("sliding_window") < file.integer("max_position_embeddings", 1)


def _rope(file: JsonFile) -> JsonFile:
    """How RoPE is scaled: `rope_scaling`, or `rope_parameters` as newer files call it."""
    scaling, parameters = file.child("rope_scaling"), file.child("rope_parameters")
    if scaling.metadata and parameters.metadata:
        raise WeightsError("it stands beside rope_parameters", where=file.place("rope_scaling"),
                           fix="Keep the one that holds.")
    return scaling if scaling.metadata else parameters


def _theta(file: JsonFile, rope: JsonFile) -> float:
    stated = [keys.number("rope_theta") for keys in (file, rope) if keys.has("rope_theta")]
    if len(set(stated)) > 1:
        raise WeightsError("two bases of RoPE are stated", where=rope.place("rope_theta"),
                           fix="Keep the one that holds.")
    return stated[0] if stated else 10_000.0


def _stretched(config: LlamaConfig, rope: JsonFile) -> LlamaConfig:
    kind = next((rope.text(key) for key in ("rope_type", "type") if rope.has(key)), "default")
    if kind not in _ROPE_KEYS:
        raise WeightsError(f"RoPE scaling of type {kind[:80]!r} is not supported", where=rope.place("rope_type"),
                           fix=_WAY_OUT)
    strange = next((key for key in rope.metadata if key not in _ROPE_KEYS[kind] | _ROPE_ALWAYS and rope.has(key)), None)
    if strange is not None:
        raise WeightsError(f"RoPE of type {kind!r} has no such key", where=rope.place(strange[:80]), fix=_WAY_OUT)
    if kind == "default":
        return config
    factor = rope.number("factor")
    if not 0 < factor < math.inf:
        raise WeightsError(f"RoPE cannot be stretched by {factor}", where=rope.place("factor"))
    if kind == "yarn":
        return with_yarn(config, _yarn(rope, factor), rope.place("factor"))
    pairs = config.head_dim // 2
    divisors = ((factor,) * pairs if kind == "linear"
                else _llama3(rope, factor).divisors(pairs, config.rope_theta))
    return config if set(divisors) == {1.0} else replace(config, rope_divisors=divisors)


def _llama3(rope: JsonFile, factor: float) -> Llama3:
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    context = rope.integer(_FIRST_CONTEXT, 1)
    if not 0 < low < high < math.inf:
        raise WeightsError(f"it must be above low_freq_factor, {low}", where=rope.place("high_freq_factor"))
    return Llama3(factor, context, low, high)


def _yarn(rope: JsonFile, factor: float) -> Yarn:
    fast, slow, attention = (rope.number(key) if rope.has(key) else None
                             for key in ("beta_fast", "beta_slow", "attention_factor"))
    return Yarn(factor, rope.integer(_FIRST_CONTEXT, 1), 32.0 if fast is None else fast, 1.0 if slow is None else slow,
                attention)
