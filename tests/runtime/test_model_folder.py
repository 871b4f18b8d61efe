"""Models as folders in the form of Hugging Face: the same as their GGUF files, and what is refused, by file and key."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import espalier as esp
from espalier.kernels.rope_scaling import Divided, Llama3, Yarn
from espalier.runtime.catalogue import resolve
from espalier.runtime.errors import WeightsError
from espalier.runtime.models.files import open_model
from espalier.runtime.models.load import load_model
from espalier.runtime.runtime import name_of
from espalier.runtime.torch_executor import TorchExecutor

from .model_folders import CONFIG, STATED, TEMPLATE, edited, folder, gguf_file, put, weights
from .tiny_llama import Driver, tiny_config

TEXT = (1, 7, 3, 9, 30, 2, 200, 44)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}


def logits(path: Path) -> torch.Tensor:
    config = tiny_config(context=32, pages=16)
    return Driver(TorchExecutor(load_model(path, config), config), config.page).whole(TEXT)


@pytest.mark.parametrize(("tied", "shards"), [(True, 1), (False, 3)])
def test_a_folder_computes_what_its_gguf_file_does(tmp_path: Path, tied: bool, shards: int) -> None:
    tensors = weights(tied=tied)
    theirs = folder(tmp_path / "m", tensors, shards=shards, config={"tie_word_embeddings": tied})
    assert torch.equal(logits(theirs), logits(gguf_file(tmp_path / "m.gguf", tensors)))


def test_a_context_beyond_all_memory_costs_what_the_pool_can_hold(tmp_path: Path) -> None:
    tensors, config = weights(), tiny_config(page=16, pages=8)
    path = folder(tmp_path / "far", tensors, config={"max_position_embeddings": 2**31 - 1})
    model = load_model(path, config)
    assert model.cos.shape[0] == model.sin.shape[0] == 8 * 16
    found = Driver(TorchExecutor(model, config), config.page).whole(TEXT)
    assert torch.equal(found, logits(folder(tmp_path / "near", tensors)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = weights()
    source = open_model(folder(tmp_path, tensors, dtype=dtype)).source()
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(source.tensor(name), torch.from_numpy(tensor).to(dtype).float().numpy())


def test_the_config_is_read(tmp_path: Path) -> None:
    files = open_model(folder(tmp_path / "my-model", weights()))
    assert files.config == CONFIG
    assert files.template() == TEMPLATE
    assert resolve(str(tmp_path / "my-model")) == tmp_path / "my-model"
    assert name_of(str(tmp_path / "my-model/")) == "my-model"


CONFIGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": ({"num_key_value_heads": ..., "tie_word_embeddings": ..., "rope_theta": ..., "hidden_act": ...},
                 {"kv_heads": 4, "tied": False}),
    "Mistral": ({"architectures": ["MistralForCausalLM"], "sliding_window": None, "head_dim": 16}, {"head_dim": 16}),
    "a window of the whole context": ({"sliding_window": 64}, {}),
    "newer rope": ({"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
                   {"rope_theta": 5e5}),
    "linear": ({"rope_scaling": {"type": "linear", "factor": 2.0}}, {"rope_divisors": (2.0,) * 4}),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_keys_that_may_be_missing_and_other_names(tmp_path: Path, case: str) -> None:
    changes, wanted = CONFIGS[case]
    assert open_model(folder(tmp_path, weights(), config=changes)).config == replace(CONFIG, **wanted)


def test_the_divisors_of_llama3_are_those_of_its_formula(tmp_path: Path) -> None:
    put(tmp_path / "config.json", {**STATED, "head_dim": 64, "rope_scaling": LLAMA3})
    divisors = open_model(tmp_path).config.rope_divisors
    frequencies = 10000.0 ** -(torch.arange(0, 64, 2) / 64)
    wanted, _ = Llama3(factor=8.0, context=32).applied(frequencies, 10000.0)
    found, _ = Divided(divisors).applied(frequencies, 10000.0)
    torch.testing.assert_close(found, wanted)
    assert len(set(divisors)) > 2


@pytest.mark.parametrize(("changes", "scaling"), [
    ({}, Yarn(4.0, 32)), ({"beta_fast": 8.0, "beta_slow": 2.0}, Yarn(4.0, 32, fast=8.0, slow=2.0)),
    ({"attention_factor": 1.5}, Yarn(4.0, 32, attention=1.5)), ({"factor": 1.0}, Yarn(1.0, 32)),
])
def test_yarn_is_that_of_its_formula(tmp_path: Path, changes: dict[str, float], scaling: Yarn) -> None:
    put(tmp_path / "config.json", {**STATED, "head_dim": 64, "rope_scaling": {**YARN, **changes}})
    config = open_model(tmp_path).config
    frequencies = 10000.0 ** -(torch.arange(0, 64, 2) / 64)
    wanted, scale = scaling.applied(frequencies, 10000.0)
    found, _ = Divided(config.rope_divisors).applied(frequencies, 10000.0)
    torch.testing.assert_close(found, wanted)
    assert config.rope_scale == pytest.approx(scale)
    assert config.context == max(64, 32 * scaling.factor)


def test_what_yarn_rotates_is_scaled(tmp_path: Path) -> None:
    model = load_model(folder(tmp_path, weights(), config={"rope_scaling": YARN}), tiny_config())
    torch.testing.assert_close(model.cos**2 + model.sin**2, torch.full_like(model.cos, (0.1 * math.log(4) + 1) ** 2))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"architectures": ["Gemma3ForCausalLM"]}, "architectures"),
    "no architecture": ({"architectures": ...}, "architectures"),
    "two of them": ({"architectures": ["LlamaForCausalLM"] * 2}, "architectures"),
    "attention bias": ({"attention_bias": True}, "attention_bias"),
    "mlp bias": ({"mlp_bias": True}, "mlp_bias"),
    "another activation": ({"hidden_act": "gelu"}, "hidden_act"),
    "a window": ({"sliding_window": 32}, "sliding_window"),
    "Mistral's window by default": ({"architectures": ["MistralForCausalLM"]}, "sliding_window"),
    "quantized": ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
    "code of its own": ({"auto_map": {"AutoModel": "m.Model"}}, "auto_map"),
    "half rotated": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    "chunked layers": ({"layer_types": ["chunked_attention"]}, "layer_types"),
    "yarn without a context": ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
                               "rope_scaling: original_max_position_embeddings"),
    "yarn that presses together": ({"rope_scaling": {**YARN, "factor": 0.5}}, "rope_scaling: factor"),
    "yarn without an end": ({"rope_scaling": {**YARN, "factor": 1e300}}, "rope_scaling: factor"),
    "yarn of one base": ({"rope_scaling": YARN, "rope_theta": 1.0}, "rope_scaling: factor"),
    "yarn turned round": ({"rope_scaling": {**YARN, "beta_fast": 1.0, "beta_slow": 2.0}}, "rope_scaling: factor"),
    "yarn that hardly turns": ({"rope_scaling": {**YARN, "beta_slow": 1e-320}}, "rope_scaling: factor"),
    "yarn without attention": ({"rope_scaling": {**YARN, "attention_factor": 0}}, "rope_scaling: factor"),
    "yarn of DeepSeek": ({"rope_scaling": {**YARN, "mscale": 1.0}}, "rope_scaling: mscale"),
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling: rope_type"),
    "linear without a factor": ({"rope_scaling": {"type": "linear"}}, "rope_scaling: factor"),
    "a factor of nothing": ({"rope_scaling": {"type": "linear", "factor": 0}}, "rope_scaling: factor"),
    "llama3 turned round": ({"rope_scaling": {**LLAMA3, "low_freq_factor": 4.0}}, "rope_scaling: high_freq_factor"),
    "llama3 without a context": ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                                   "high_freq_factor": 4.0}},
                                 "rope_scaling: original_max_position_embeddings"),
    "a strange key of rope": ({"rope_scaling": {"type": "linear", "factor": 2.0, "mscale": 1.0}},
                              "rope_scaling: mscale"),
    "rope twice": ({"rope_scaling": LLAMA3, "rope_parameters": LLAMA3}, "rope_scaling"),
    "two bases": ({"rope_parameters": {"rope_theta": 5e5}}, "rope_parameters: rope_theta"),
    "rope of no object": ({"rope_scaling": [1]}, "rope_scaling"),
    "kv heads": ({"num_key_value_heads": 3}, "num_key_value_heads"),
    "odd heads": ({"head_dim": 7}, "head_dim"),
    "no epsilon": ({"rms_norm_eps": 0.0}, "rms_norm_eps"),
    "a missing size": ({"hidden_size": ...}, "hidden_size"),
    "a size in words": ({"intermediate_size": "48"}, "intermediate_size"),
    "a head of a gigabyte": ({"head_dim": 1 << 30}, "head_dim"),
    "a vocabulary of a gigabyte": ({"vocab_size": 1 << 30}, "vocab_size"),
    "a size without end": ({"vocab_size": 10**400}, "vocab_size"),
    "a base without end": ({"rope_theta": 10**400}, "rope_theta"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_config_that_is_not_computed_here_is_refused_by_its_key(tmp_path: Path, case: str) -> None:
    changes, key = REFUSED[case]
    put(tmp_path / "config.json", {name: value for name, value in {**STATED, **changes}.items() if value is not ...})
    with pytest.raises(WeightsError) as caught:
        _ = open_model(tmp_path).config
    assert caught.value.where == f"config.json: {key}"


def _without(path: Path, name: str) -> None:
    save_file({key: value for key, value in load_file(path).items() if key != name}, path)


def _with(path: Path, **tensors: torch.Tensor) -> None:
    save_file(load_file(path) | {name.replace("__", "."): tensor for name, tensor in tensors.items()}, path)


ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
Q = "model.layers.1.self_attn.q_proj.weight"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a missing tensor": (lambda at: _without(at / ONE, Q), f"tensor {Q}"),
    "another tensor": (lambda at: _with(at / ONE, model__q__bias=torch.zeros(3)), "tensor model.q.bias"),
    "another shape": (lambda at: _with(at / ONE, model__norm__weight=torch.zeros(3)), "tensor model.norm.weight"),
    "another dtype": (lambda at: _with(at / ONE, model__norm__weight=torch.zeros(32, dtype=torch.int32)),
                      f"{ONE}: tensor model.norm.weight"),
    "a head beside a tied one": (lambda at: _with(at / ONE, lm_head__weight=torch.zeros(3)), "tensor lm_head.weight"),
    "not finite": (lambda at: _with(at / ONE, model__norm__weight=torch.full((32,), torch.inf)),
                   "tensor model.norm.weight"),
    "no safetensors": (lambda at: (at / ONE).write_bytes(b"\x80\x04 pickle"), ONE),
    "a header without end": (lambda at: (at / ONE).write_bytes(b"\xff" * 64), ONE),
    "cut short": (lambda at: (at / ONE).write_bytes((at / ONE).read_bytes()[:-4]), ONE),
    "empty": (lambda at: (at / ONE).write_bytes(b""), ONE),
    "only a pickle": (lambda at: (at / ONE).rename(at / "pytorch_model.bin"), "."),
    "a folder for a file": (lambda at: ((at / ONE).unlink(), (at / ONE).mkdir()), f"./{ONE}"),
}
SHARD = "model-1.safetensors"
BROKEN_INDEX: dict[str, tuple[Callable[[Path], object], str]] = {
    "a missing shard": (lambda at: (at / SHARD).unlink(), f"./{SHARD}"),
    "a tensor that its shard lacks": (lambda at: _without(at / SHARD, Q), f"{INDEX}: {Q}"),
    "a tensor without an entry": (lambda at: _with(at / SHARD, extra=torch.zeros(2)), "tensor extra"),
    "a tensor twice": (lambda at: _with(at / SHARD, model__embed_tokens__weight=torch.zeros(2)),
                       "tensor model.embed_tokens.weight"),
    "no map": (lambda at: put(at / INDEX, {}), f"{INDEX}: weight_map"),
    "no object": (lambda at: put(at / INDEX, []), f"./{INDEX}"),
    "no JSON": (lambda at: (at / INDEX).write_text("{"), f"./{INDEX}"),
    **{f"a shard {name!r}": (lambda at, name=name: edited(at / INDEX, lambda it: it["weight_map"].update({Q: name})),
                             f"{INDEX}: weight_map: {Q}")
       for name in ("../x.safetensors", "/etc/x.safetensors", "a/x.safetensors", "..", "x.bin", "x.safetensors\n", 7)},
}


@pytest.mark.parametrize("case", [*BROKEN, *BROKEN_INDEX])
def test_broken_weights_are_refused_by_their_place(tmp_path: Path, case: str) -> None:
    path = folder(tmp_path, weights(), shards=1 if case in BROKEN else 2)
    damage, where = (BROKEN | BROKEN_INDEX)[case]
    damage(path)
    with pytest.raises(WeightsError) as caught:
        load_model(path, tiny_config())
    assert caught.value.where == (str(path / where) if where[0] == "." else where)


def test_a_tied_head_that_is_the_embedding_and_old_buffers_are_left_out(tmp_path: Path) -> None:
    path = folder(tmp_path, weights())
    before = logits(path)
    embedding = load_file(path / ONE)["model.embed_tokens.weight"].clone()
    _with(path / ONE, lm_head__weight=embedding, model__layers__0__self_attn__rotary_emb__inv_freq=torch.ones(4))
    assert torch.equal(logits(path), before)


def test_files_may_be_links_as_in_the_cache_of_hugging_face(tmp_path: Path) -> None:
    path = folder(tmp_path / "m", weights())
    before = logits(path)
    (path / ONE).rename(tmp_path / "blob")
    (path / ONE).symlink_to(tmp_path / "blob")
    assert torch.equal(logits(path), before)


TEMPLATES: dict[str, tuple[Any, str | None, str]] = {
    "a text": ("a", None, "a"), "a file beside it": ("a", "b", "b"), "none": (None, None, ""),
    "several": ([{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}], None, "d"),
    "several without a default": ([{"name": "tool_use", "template": "t"}], None, ""),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_the_chat_template_is_found(tmp_path: Path, case: str) -> None:
    stated, beside, wanted = TEMPLATES[case]
    path = folder(tmp_path, weights(), tokenizer_config={"chat_template": stated})
    if beside is not None:
        (path / "chat_template.jinja").write_text(beside)
    assert open_model(path).template() == wanted


def test_weights_of_a_folder_are_exchanged_for_those_of_another(tmp_path: Path) -> None:
    first, second = (folder(tmp_path / str(seed), weights(seed)) for seed in (1, 2))
    config = tiny_config(context=32, pages=16)
    executor = TorchExecutor(load_model(first, config), config)
    executor.prepare(second)()
    assert torch.equal(Driver(executor, config.page).whole(TEXT), logits(second))


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another template": (lambda at: (at / "chat_template.jinja").write_text("{{ other }}"), "chat_template"),
    "another tokenizer": (lambda at: edited(at / "tokenizer.json", lambda it: it["model"]["merges"].pop()),
                          "tokenizer.json: model"),
    "another end": (lambda at: put(at / "generation_config.json", {"eos_token_id": [1]}), "eos_token_id"),
    "another rotation": (lambda at: edited(at / "config.json", lambda it: it.update(rope_theta=5e5)), "rope_theta"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_folder_is_refused_by_what_differs(tmp_path: Path, case: str) -> None:
    config = tiny_config(context=32, pages=16)
    executor = TorchExecutor(load_model(folder(tmp_path / "1", weights(1)), config), config)
    other = folder(tmp_path / "2", weights(2))
    change, named = OTHERS[case]
    change(other)
    with pytest.raises(WeightsError, match=named):
        executor.prepare(other)


def test_a_gguf_file_and_a_folder_are_not_exchanged(tmp_path: Path) -> None:
    config = tiny_config(context=32, pages=16)
    theirs = gguf_file(tmp_path / "m.gguf", weights())
    executor = TorchExecutor(load_model(folder(tmp_path / "m", weights()), config), config)
    with pytest.raises(WeightsError):
        executor.prepare(theirs)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    path = folder(tmp_path / "m", weights())
    (path / name).unlink()
    with pytest.raises(WeightsError) as caught:
        open_model(path).vocabulary()
    assert caught.value.where == str(path / name)


def test_a_file_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    path = folder(tmp_path, weights())
    (path / ONE).unlink()
    os.mkfifo(path / ONE)
    with pytest.raises(WeightsError, match="regular"):
        load_model(path, tiny_config())


def test_programs_run_on_a_folder_as_on_its_gguf_file(tmp_path: Path) -> None:
    tensors = weights()
    answers = [_said(path) for path in (folder(tmp_path / "m", tensors), gguf_file(tmp_path / "m.gguf", tensors))]
    assert answers[0] == answers[1]


@esp.function
def _program(s: esp.State) -> tuple[str, str]:
    with s.user():
        s += "hello"
    with s.assistant():
        s += esp.gen("free", max_tokens=4, temperature=0) + esp.select("pick", ["hello", "im"])
    return s["free"], s["pick"]


def _said(path: Path) -> tuple[str, str]:
    with esp.local(path, config=tiny_config()) as model:
        return _program.run(backend=model).result
