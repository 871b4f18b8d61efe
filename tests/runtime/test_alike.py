"""Weights of a model are replaced by others of the same model, from real files; any other model is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from espalier.kernels.registry import kernels
from espalier.runtime.config import EngineConfig
from espalier.runtime.errors import WeightsError
from espalier.runtime.models.alike import load_alike, overwrite
from espalier.runtime.models.files import open_model
from espalier.runtime.models.load import load_model, read_model
from espalier.runtime.torch_executor import TorchExecutor
from espalier.runtime.weights import llama_shapes
from tests.runtime.gguf_files import add_llama, llama_fields, values, written
from tests.runtime.test_gguf_llama import CONFIG
from tests.runtime.tiny_llama import Driver, tiny_config

TEXT = (1, 7, 3, 9, 30, 2)
Q4_1 = EngineConfig(dtype="bfloat16", pages=16, page=8, threads=1)


def model_file(folder: Path, seed: int, *, fields: Mapping[str, Any] = {}, ffn: int = CONFIG.ffn,
               tokens: Sequence[str] = (), template: str = "{{ messages }}", tied: bool = True) -> Path:
    shapes = llama_shapes(CONFIG)
    for layer in range(CONFIG.layers):
        for name in ("gate", "up"):
            shapes[f"blk.{layer}.ffn_{name}.weight"] = (ffn, CONFIG.width)
        shapes[f"blk.{layer}.ffn_down.weight"] = (CONFIG.width, ffn)
    if not tied:
        shapes["output.weight"] = shapes["token_embd.weight"]

    def fill(writer: gguf.GGUFWriter) -> None:
        tensors = {name: values(shape, 100 * seed + n) for n, (name, shape) in enumerate(shapes.items())}
        add_llama(writer, llama_fields(feed_forward_length=ffn, **fields), tensors)
        writer.add_token_list(list(tokens) or [f"t{n}" for n in range(CONFIG.vocab)])
        writer.add_chat_template(template)

    folder.mkdir(exist_ok=True)
    return written(folder / f"{seed}.gguf", fill)


def logits(executor: TorchExecutor) -> torch.Tensor:
    return Driver(executor, 8).whole(TEXT)


@pytest.mark.parametrize("config", [tiny_config(), Q4_1], ids=["exact", "bfloat16"])
def test_an_executor_computes_with_the_weights_it_was_given_last(tmp_path: Path, config: EngineConfig) -> None:
    first, second = (model_file(tmp_path, seed) for seed in (1, 2))
    executor, other = (TorchExecutor(load_model(path, config), config) for path in (first, second))
    before, wanted = logits(executor), logits(other)
    assert not torch.equal(before, wanted)
    exchange = executor.prepare(second)
    assert torch.equal(logits(executor), before)
    exchange()
    assert torch.equal(logits(executor), wanted)
    executor.prepare(first)()
    assert torch.equal(logits(executor), before)


def test_weights_are_written_where_the_old_ones_are(tmp_path: Path) -> None:
    """As captured graphs ask for; unpacked, as on a GPU."""
    ops, cpu = kernels("cuda", torch.bfloat16, "fast"), torch.device("cpu")
    model, other = (read_model(open_model(model_file(tmp_path, seed, tied=False)), ops, torch.bfloat16, cpu)
                    for seed in (1, 2))
    places = [block.qkv.dense.data_ptr() for block in model.blocks]
    overwrite(model, load_alike(tmp_path / "2.gguf", model))
    assert [block.qkv.dense.data_ptr() for block in model.blocks] == places
    for mine, wanted in zip(model.blocks, other.blocks, strict=True):
        assert torch.equal(mine.down.dense, wanted.down.dense)
        assert torch.equal(mine.ffn_norm, wanted.ffn_norm)
    assert torch.equal(model.head.dense, other.head.dense)
    assert torch.equal(model.norm, other.norm)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "wider": ({"ffn": 64}, "ffn is 64"),
    "another rotation": ({"fields": {"rope.freq_base": 5000.0}}, "rope_theta"),
    "a stretched rotation": ({"fields": {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}}, "rope_divisors"),
    "a head of its own": ({"tied": False}, "tied"),
    "other tokens": ({"tokens": [f"u{n}" for n in range(CONFIG.vocab)]}, "tokenizer.ggml.tokens"),
    "another template": ({"template": "{{ other }}"}, "tokenizer.chat_template"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_model_is_refused_by_what_differs(tmp_path: Path, case: str) -> None:
    changes, named = OTHERS[case]
    config = tiny_config()
    executor = TorchExecutor(load_model(model_file(tmp_path, 1), config), config)
    with pytest.raises(WeightsError, match=named):
        executor.prepare(model_file(tmp_path / "other", 2, **changes))


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    config = tiny_config()
    executor = TorchExecutor(load_model(model_file(tmp_path, 1), config), config)
    whole = model_file(tmp_path, 2).read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    for name in ("cut.gguf", "none.gguf"):
        with pytest.raises(WeightsError):
            executor.prepare(tmp_path / name)
