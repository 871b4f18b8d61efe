"""The Llama architecture in a GGUF file: its config, its tensors, and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import WeightsError
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.gguf_cursor import Value
from espalier.runtime.models.config import LlamaConfig, llama_config
from espalier.runtime.models.load import load_model
from espalier.runtime.models.rope import Yarn
from espalier.runtime.weights import check_llama_tensors, llama_shapes, llama_tensor, unpermute_rows

from .gguf_files import (
    add_llama,
    llama_fields,
    values,
    written,
)

CONFIG = LlamaConfig(layers=2, width=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=40, context=64,
                     rope_theta=10000.0, rms_eps=pytest.approx(1e-5), tied=True)


def _llama(path: Path, fields: dict[str, int | float | str] | None = None, *, drop: str = "",
           extra: str = "", architecture: str = "llama", divisors: Sequence[float] = ()) -> GGUFFile:
    shapes = llama_shapes(CONFIG)
    shapes.pop(drop, None)
    if extra:
        shapes[extra] = (8,)
    tensors = {name: values(shape, n) for n, (name, shape) in enumerate(shapes.items())}
    if divisors:
        tensors["rope_freqs.weight"] = np.array(divisors, np.float32)
    fill = lambda writer: add_llama(writer, llama_fields(**(fields or {})), tensors)  # noqa: E731
    return GGUFFile.open(written(path / "llama.gguf", fill, architecture))


YARN: dict[str, int | float | str] = {
    "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}


def test_yarn_is_read_and_lengthens_the_context(tmp_path: Path) -> None:
    """As the folder of the same model, whose divisors are tested there."""
    for fields, fast in (({}, 32.0), ({"rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_ext_factor": 1.0}, 8.0)):
        config = llama_config(_llama(tmp_path, YARN | fields))
        yarn = Yarn(4.0, 32, fast=fast)
        assert config == dataclasses.replace(CONFIG, context=128, rope_scale=yarn.scale,
                                             rope_divisors=yarn.divisors(4, 10000.0))


def test_divisors_beside_yarn_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError) as caught:
        llama_config(_llama(tmp_path, YARN, divisors=(1.0, 1.0, 2.0, 8.0)))
    assert caught.value.where == "tensor rope_freqs.weight"


def test_the_config_is_read(tmp_path: Path) -> None:
    file = _llama(tmp_path)
    config = llama_config(file)
    assert config == CONFIG
    check_llama_tensors(file, config)


@pytest.mark.parametrize(("fields", "where"), [
    ({"rope.scaling.type": "longrope"}, "llama.rope.scaling.type"),
    ({"rope.scaling.type": "yarn"}, "llama.rope.scaling.factor"),
    ({"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, "llama.rope.scaling.original_context_length"),
    (YARN | {"rope.scaling.factor": float("nan")}, "llama.rope.scaling.factor"),
    (YARN | {"rope.scaling.yarn_beta_fast": 0.5}, "llama.rope.scaling.factor"),
    (YARN | {"rope.scaling.yarn_attn_factor": 0.5}, "llama.rope.scaling.yarn_attn_factor"),
    (YARN | {"rope.scaling.yarn_ext_factor": 0.0}, "llama.rope.scaling.yarn_ext_factor"),
    (YARN | {"rope.scaling.yarn_log_multiplier": 0.1}, "llama.rope.scaling.yarn_log_multiplier"),
    ({"rope.scaling.type": "linear"}, "llama.rope.scaling.factor"),
    ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, "llama.rope.scaling.factor"),
    ({"rope.scaling.type": "none", "rope.scaling.factor": 8.0}, "llama.rope.scaling.factor"),
    ({"rope.scaling.factor": 8.0}, "llama.rope.scaling.factor"),
    ({"expert_count": 8}, "llama.expert_count"),
    ({"attention.head_count_kv": 3}, "llama.attention.head_count_kv"),
    ({"attention.head_count": 0}, "llama.attention.head_count"),
    ({"attention.key_length": 7}, "llama.attention.key_length"),
    ({"attention.value_length": 16}, "llama.attention.value_length"),
    ({"rope.dimension_count": 4}, "llama.rope.dimension_count"),
    ({"rope.freq_base": float("nan")}, "llama.rope.freq_base"),
    ({"attention.layer_norm_rms_epsilon": 0.0}, "llama.attention.layer_norm_rms_epsilon"),
    ({"block_count": "many"}, "llama.block_count"),
    ({"context_length": 0}, "llama.context_length"),
])
def test_what_the_model_code_does_not_compute_is_refused(
    tmp_path: Path, fields: dict[str, int | float | str], where: str
) -> None:
    with pytest.raises(WeightsError) as caught:
        llama_config(_llama(tmp_path, fields))
    assert caught.value.where == where


ODD_VALUES: list[Value] = [
    "text", "", ("a", "b"), (), True, -1, 0, 2**63, 10**30, 0.5, float("nan"), float("inf"), np.zeros(0, np.int32),
    np.array([1, 2]), np.array([0.5]), np.array([True, False]),
]
OPTIONAL_KEYS = ("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.rope.scale_linear",
                 "llama.expert_count", "llama.attention.key_length", "llama.attention.value_length")


def test_any_value_of_any_key_is_read_or_refused_with_its_place(tmp_path: Path) -> None:
    file = _llama(tmp_path)
    metadata = file.metadata
    keys = [*(key for key in metadata if key.startswith("llama.")), "general.architecture", *OPTIONAL_KEYS]
    refused = 0
    for key in keys:
        for value in ODD_VALUES:
            file.metadata = {**metadata, key: value}
            refused += _config_refused(file)
    assert refused > 100


def _config_refused(file: GGUFFile) -> bool:
    try:
        check_llama_tensors(file, llama_config(file))
    except WeightsError as error:
        return bool(error.where)
    return False


def test_another_architecture_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="'gemma3' is not supported"):
        llama_config(_llama(tmp_path, architecture="gemma3"))


def test_a_vocabulary_of_another_size_than_the_embedding_is_refused(tmp_path: Path) -> None:
    file = _llama(tmp_path)
    for count, fits in [(CONFIG.vocab, True), (CONFIG.vocab + 1, False), (CONFIG.vocab - 1, False)]:
        file.metadata = {**file.metadata, "tokenizer.ggml.tokens": tuple(map(str, range(count)))}
        if fits:
            assert llama_config(file).vocab == count
            continue
        with pytest.raises(WeightsError, match=f"{count} tokens for {CONFIG.vocab} rows"):
            llama_config(file)


LINEAR: dict[str, int | float | str] = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}


@pytest.mark.parametrize(("fields", "stated", "divisors"), [
    ({}, (1.0, 1.0, 2.5, 8.0), (1.0, 1.0, 2.5, 8.0)), (LINEAR, (), (4.0,) * 4),
    (LINEAR, (1.0, 1.0, 2.0, 8.0), (4.0, 4.0, 8.0, 32.0)),
    ({"rope.scaling.type": "linear", "rope.scaling.factor": 1.0}, (), ()), ({"rope.scaling.type": "none"}, (), ()),
])
def test_what_divides_the_frequencies_of_rope_is_read(
    tmp_path: Path, fields: dict[str, int | float | str], stated: tuple[float, ...], divisors: tuple[float, ...]
) -> None:
    file = _llama(tmp_path, fields, divisors=stated)
    config = llama_config(file)
    assert config == dataclasses.replace(CONFIG, rope_divisors=divisors)
    check_llama_tensors(file, config)
    if divisors:
        model = load_model(tmp_path / "llama.gguf", EngineConfig(dtype="float32", exact=True))
        angles = np.arange(64)[:, None] * 10000.0 ** -(np.arange(0, 8, 2) / 8) / np.array(divisors)
        np.testing.assert_allclose(model.cos.numpy(), np.cos(angles), atol=1e-5)
        np.testing.assert_allclose(model.sin.numpy(), np.sin(angles), atol=1e-5)


@pytest.mark.parametrize("stated", [(1.0, 1.0), (1.0, 1.0, 0.0, 8.0), (1.0, 1.0, -2.0, 8.0), (1.0,) * 8,
                                    (1.0, 1.0, float("inf"), 8.0)])
def test_divisors_of_rope_that_cannot_be_are_refused(tmp_path: Path, stated: tuple[float, ...]) -> None:
    with pytest.raises(WeightsError) as caught:
        llama_config(_llama(tmp_path, divisors=stated))
    assert caught.value.where == "tensor rope_freqs.weight"


def test_missing_strange_and_misshapen_tensors_are_refused(tmp_path: Path) -> None:
    for number, (options, where) in enumerate([
        ({"drop": "blk.1.attn_v.weight"}, "tensor blk.1.attn_v.weight"),
        ({"extra": "blk.0.attn_q.bias"}, "tensor blk.0.attn_q.bias"),
    ]):
        (folder := tmp_path / str(number)).mkdir()
        file = _llama(folder, **options)
        with pytest.raises(WeightsError) as caught:
            check_llama_tensors(file, llama_config(file))
        assert caught.value.where == where
    file = _llama(tmp_path)
    with pytest.raises(WeightsError, match="its shape is"):
        check_llama_tensors(file, dataclasses.replace(llama_config(file), ffn=64))


def test_the_reordering_of_q_and_k_is_undone_on_floats_and_on_packed_rows(tmp_path: Path) -> None:
    file = _llama(tmp_path)
    for name, heads in [("blk.0.attn_q.weight", 4), ("blk.0.attn_k.weight", 2)]:
        stored, ours = file.tensor(name), llama_tensor(file, name)
        for head in range(heads):
            for half in range(2):
                for pair in range(4):
                    np.testing.assert_array_equal(ours[head * 8 + half * 4 + pair], stored[head * 8 + pair * 2 + half])
        packed = unpermute_rows(file.raw(name).reshape(len(stored), -1), heads)
        np.testing.assert_array_equal(packed.view("<f4"), ours)
    np.testing.assert_array_equal(llama_tensor(file, "blk.0.attn_v.weight"), file.tensor("blk.0.attn_v.weight"))


@pytest.mark.model
def test_the_small_model_has_the_reference_weights(smollm2_path: Path, reference: dict[str, object]) -> None:
    file = GGUFFile.open(smollm2_path)
    check_llama_tensors(file, llama_config(file))
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    names |= {f"model.layers.0.{theirs}": f"blk.0.{ours}" for theirs, ours in (
        ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"))}
    stored = reference["weights_layer0"]
    assert isinstance(stored, dict)
    assert {f"{name}.weight" for name in names} == set(stored)
    for theirs, ours in names.items():
        got = llama_tensor(file, f"{ours}.weight")
        assert hashlib.sha256(got.tobytes()).hexdigest() == stored[f"{theirs}.weight"]["sha256_f32le"], json.dumps(ours)
