"""Qwen 2, 2.5 and 3: what they have beside Llama, from folders and GGUF files, against their equations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import linear, scaled_dot_product_attention, silu

from espalier.runtime.errors import WeightsError
from espalier.runtime.models.alike import load_alike, overwrite
from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.files import open_model
from espalier.runtime.models.load import load_model
from espalier.runtime.models.shards import published
from espalier.runtime.torch_executor import TorchExecutor

from . import tiny_llama
from .model_folders import CONFIG, Weights, folder, gguf_file, put, weights
from .tiny_llama import Driver, tiny_config

QWEN2, QWEN3 = replace(CONFIG, biases=True), replace(CONFIG, head_norms=True)
SHAPES: dict[str, LlamaConfig] = {"qwen2": QWEN2, "qwen3": QWEN3}
STATED: dict[str, dict[str, Any]] = {
    "qwen2": {"architectures": ["Qwen2ForCausalLM"], "attention_bias": ..., "use_sliding_window": False,
              "sliding_window": 32, "max_window_layers": 1},
    "qwen3": {"architectures": ["Qwen3ForCausalLM"], "head_dim": 8, "use_sliding_window": False,
              "sliding_window": None},
}
TEXT = (1, 7, 3, 9, 30, 2, 200, 44, 5, 6)
both = pytest.mark.parametrize("name", ["qwen2", "qwen3"])


def model_folder(path: Path, name: str, *, seed: int = 0, tied: bool = True, **changes: Any) -> Path:
    stated = {**STATED[name], "tie_word_embeddings": tied, **changes}
    return folder(path, weights(seed, tied=tied, config=SHAPES[name]), config=stated)


def logits(path: Path, **fields: object) -> torch.Tensor:
    config = tiny_config(context=32, pages=16, **fields)
    return Driver(TorchExecutor(load_model(path, config), config), config.page).whole(TEXT)


def equations(stored: Weights, tokens: tuple[int, ...], *, heads: int, kv_heads: int, head_dim: int, layers: int,
              theta: float, eps: float) -> torch.Tensor:
    """From the tensors as the folder holds them; which of them there are says what is computed."""
    tensors = {published(name): torch.from_numpy(tensor) for name, tensor in stored.items()}
    angles = torch.arange(len(tokens))[:, None] * theta ** -(torch.arange(0, head_dim, 2) / head_dim)
    turn = torch.polar(torch.ones_like(angles), angles)

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * tensors[f"{name}.weight"]

    def project(x: torch.Tensor, name: str) -> torch.Tensor:
        return linear(x, tensors[f"{name}.weight"], tensors.get(f"{name}.bias"))

    def rotated(x: torch.Tensor, name: str) -> torch.Tensor:
        if f"{name}.weight" in tensors:
            x = norm(x, name)
        pairs = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat((pairs.real, pairs.imag), -1)

    x = tensors["model.embed_tokens.weight"][list(tokens)]
    for layer in range(layers):
        at = f"model.layers.{layer}"
        y = norm(x, f"{at}.input_layernorm")
        q, k, v = (project(y, f"{at}.self_attn.{part}_proj").unflatten(-1, (-1, head_dim)).transpose(0, 1)
                   for part in "qkv")
        q, k = rotated(q, f"{at}.self_attn.q_norm"), rotated(k, f"{at}.self_attn.k_norm")
        k, v = (each.repeat_interleave(heads // kv_heads, 0) for each in (k, v))
        y = scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1)
        x = x + project(y, f"{at}.self_attn.o_proj")
        y = norm(x, f"{at}.post_attention_layernorm")
        x = x + project(silu(project(y, f"{at}.mlp.gate_proj")) * project(y, f"{at}.mlp.up_proj"),
                        f"{at}.mlp.down_proj")
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    return linear(norm(x, "model.norm"), head)


@both
@pytest.mark.parametrize("tied", [True, False])
def test_the_model_computes_its_equations(tmp_path: Path, name: str, tied: bool) -> None:
    wanted = equations(weights(tied=tied, config=SHAPES[name]), TEXT, heads=4, kv_heads=2, head_dim=8, layers=2,
                       theta=10000.0, eps=1e-5)
    found = logits(model_folder(tmp_path, name, tied=tied))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    rounded = logits(tmp_path, dtype="bfloat16", exact=False).float()
    assert float((rounded - wanted).norm() / wanted.norm()) < 0.15


@both
@pytest.mark.parametrize("tied", [True, False])
def test_a_gguf_file_computes_what_its_folder_does(tmp_path: Path, name: str, tied: bool) -> None:
    """Its rows of q and k are not in pairs."""
    stored = weights(tied=tied, config=SHAPES[name])
    theirs = model_folder(tmp_path / "m", name, tied=tied)
    assert torch.equal(logits(gguf_file(tmp_path / "m.gguf", stored, name)), logits(theirs))


@both
@given(cuts=st.lists(st.integers(1, 59), max_size=6))
@settings(max_examples=15, deadline=None)
def test_exact_bits_do_not_depend_on_chunks(name: str, cuts: list[int]) -> None:
    shape = replace(tiny_llama.SHAPE, biases=name == "qwen2", head_norms=name == "qwen3")
    config, tokens = tiny_config(), [(7 * i * i + 3 * i + 1) % shape.vocab for i in range(60)]
    whole, cut = (Driver(TorchExecutor(tiny_llama.tiny_llama(config, 0, shape), config), config.page).whole(tokens, at)
                  for at in ((), cuts))
    assert torch.equal(whole, cut)


@both
def test_biases_and_norms_are_exchanged_with_the_other_weights(tmp_path: Path, name: str) -> None:
    config = tiny_config(context=32, pages=16)
    first, second = (model_folder(tmp_path / str(seed), name, seed=seed) for seed in (1, 2))
    model = load_model(first, tiny_config(device="cpu", exact=False, dtype="bfloat16"))
    overwrite(model, load_alike(second, model))
    wanted = load_model(second, tiny_config(exact=False, dtype="bfloat16"))
    for mine, theirs in zip(model.blocks, wanted.blocks, strict=True):
        for ours, other in ((mine.bias, theirs.bias), (mine.head_norms, theirs.head_norms)):
            assert (ours is None) == (other is None)
        if mine.bias is not None and theirs.bias is not None:
            assert torch.equal(mine.bias, theirs.bias)
        if mine.head_norms is not None and theirs.head_norms is not None:
            assert torch.equal(mine.head_norms.q, theirs.head_norms.q)
    executor = TorchExecutor(load_model(first, config), config)
    executor.prepare(second)()
    assert torch.equal(Driver(executor, config.page).whole(TEXT), logits(second))


CONFIGS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "qwen2": ("qwen2", {}, {}),
    "qwen3": ("qwen3", {}, {}),
    "heads wider than the stream": ("qwen3", {"head_dim": 16}, {"head_dim": 16}),
    "a window that is not used": ("qwen3", {"sliding_window": 16}, {}),
    "a used window of the whole context": ("qwen2", {"use_sliding_window": True, "sliding_window": 64}, {}),
    "kv heads as many as heads": ("qwen2", {"num_key_value_heads": None}, {"kv_heads": 4}),
    "newer files": ("qwen3", {"layer_types": ["full_attention"] * 2, "rope_theta": ..., "rope_scaling": ...,
                              "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, {"rope_theta": 1e6}),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_the_config_is_read(tmp_path: Path, case: str) -> None:
    name, changes, wanted = CONFIGS[case]
    assert open_model(model_folder(tmp_path, name, **changes)).config == replace(SHAPES[name], **wanted)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a window": ("qwen2", {"use_sliding_window": True}, "sliding_window"),
    "a window of Qwen 3": ("qwen3", {"use_sliding_window": True, "sliding_window": 16}, "sliding_window"),
    "layers in a window": ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
    "biases in Qwen 3": ("qwen3", {"attention_bias": True}, "attention_bias"),
    "heads of Qwen 3 by default": ("qwen3", {"head_dim": ...}, "head_dim"),
    "kv heads by default": ("qwen2", {"num_key_value_heads": ...}, "num_key_value_heads"),
    "experts": ("qwen3", {"architectures": ["Qwen3MoeForCausalLM"]}, "architectures"),
    "chunks of a long context": ("qwen2", {"dual_chunk_attention_config": {"chunk_size": 16}},
                                 "dual_chunk_attention_config"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_config_that_is_not_computed_here_is_refused_by_its_key(tmp_path: Path, case: str) -> None:
    name, changes, key = REFUSED[case]
    with pytest.raises(WeightsError) as caught:
        _ = open_model(model_folder(tmp_path, name, **changes)).config
    assert caught.value.where == f"config.json: {key}"


@pytest.mark.parametrize(("name", "other", "where"), [
    ("qwen2", "qwen3", "tensor model.layers.0.self_attn.q_proj.bias"),
    ("qwen3", "qwen2", "tensor model.layers.0.self_attn.q_norm.weight"),
])
def test_weights_of_another_family_are_refused(tmp_path: Path, name: str, other: str, where: str) -> None:
    path = model_folder(tmp_path, other)
    stated = {**_json(path / "config.json"), **STATED[name]}
    put(path / "config.json", {key: value for key, value in stated.items() if value is not ...})
    with pytest.raises(WeightsError) as caught:
        open_model(path).source()
    assert caught.value.where == where


def _json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value
