"""Small models as Hugging Face publishes them, and the same ones as GGUF files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from espalier.runtime.models.config import LlamaConfig
from espalier.runtime.models.shards import published
from espalier.runtime.weights import llama_shapes

from .gguf_files import add_llama, llama_fields, values, written
from .vocabularies import MERGES, SPECIALS, tokens

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
TEXTS = tokens()
CONFIG = LlamaConfig(layers=2, width=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=len(TEXTS), context=64,
                     rope_theta=10000.0, rms_eps=1e-5, tied=True)
STATED: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48, "vocab_size": len(TEXTS),
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "hidden_act": "silu", "attention_bias": False, "rope_scaling": None, "eos_token_id": 2,
}
Weights = Mapping[str, NDArray[np.float32]]


def weights(seed: int = 0, *, tied: bool = True, config: LlamaConfig = CONFIG) -> Weights:
    """By the names of GGUF, in half-rotation order."""
    shapes = llama_shapes(config)
    if not tied:
        shapes["output.weight"] = shapes["token_embd.weight"]
    return {name: values(shape, 100 * seed + n) for n, (name, shape) in enumerate(shapes.items())}


def tokenizer_json(**changes: Any) -> dict[str, Any]:
    """The byte-level vocabulary of `tokens`, cut as `smollm` is."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "normalizer": None, "post_processor": None, "decoder": None,
        "added_tokens": [{"id": i, "content": text, **flags} for i, text in enumerate(SPECIALS)],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(TEXTS)}, "merges": list(MERGES)},
        **changes,
    }


def folder(path: Path, tensors: Weights, *, config: Mapping[str, Any] = {}, tokenizer: Mapping[str, Any] | None = None,
           tokenizer_config: Mapping[str, Any] = {}, shards: int = 1, dtype: torch.dtype = torch.float32) -> Path:
    """shards above 1: with an index. A config of `...` takes the key out."""
    path.mkdir(parents=True, exist_ok=True)
    stated = {key: value for key, value in {**STATED, **config}.items() if value is not ...}
    put(path / "config.json", stated)
    put(path / "tokenizer.json", tokenizer or tokenizer_json())
    put(path / "tokenizer_config.json", {
        "bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, "add_bos_token": False,
        "chat_template": TEMPLATE, **tokenizer_config})
    theirs = {published(name): torch.from_numpy(tensor).to(dtype) for name, tensor in tensors.items()}
    if shards == 1:
        save_file(theirs, path / "model.safetensors")
        return path
    index = {name: f"model-{n % shards}.safetensors" for n, name in enumerate(theirs)}
    for shard in set(index.values()):
        save_file({name: theirs[name] for name in theirs if index[name] == shard}, path / shard)
    put(path / "model.safetensors.index.json", {"weight_map": index})
    return path


def gguf_file(path: Path, tensors: Weights, architecture: str = "llama", pre: str = "smollm") -> Path:
    """The same model as a converter writes it: rows of q and k in pairs, where it does so."""
    heads = {"attn_q.w": CONFIG.heads, "attn_k.w": CONFIG.kv_heads} if architecture == "llama" else {}

    def fill(writer: gguf.GGUFWriter) -> None:
        stored = {name: paired(tensor, next((n for part, n in heads.items() if part in name), 0))
                  for name, tensor in tensors.items()}
        add_llama(writer, llama_fields(), stored, architecture=architecture)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        writer.add_token_list(TEXTS)
        writer.add_token_types([3 if text in SPECIALS else 1 for text in TEXTS])
        writer.add_token_merges(list(MERGES))
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_eot_token_id(2)
        writer.add_chat_template(TEMPLATE)

    return written(path, fill, architecture)


def paired(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Per head, rows (half, pair) to (pair, half)."""
    if not heads:
        return rows
    halves = rows.reshape(heads, 2, -1, rows.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def put(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """A JSON file, changed in place."""
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    put(path, value)
