"""Other weights of a model that is loaded: of the same shape, tokenizer and chat template."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import torch

from ..errors import WeightsError
from .config import LlamaConfig
from .files import open_model
from .llama import Block, Llama
from .load import read_model


def load_alike(path: str | Path, model: Llama) -> Llama:
    """Other weights of a model, in the main memory. Raises WeightsError as `load_model` does, and for the first thing
    that is not as in `model`: its shape, its tokenizer or its chat template."""
    files = open_model(path)
    shape, words = files.config, files.words()
    fix = "Start another engine with these weights."
    for name in (field.name for field in fields(LlamaConfig)):
        if getattr(shape, name) != getattr(model.config, name):
            raise WeightsError(f"{name} is {getattr(shape, name)} and {getattr(model.config, name)} in the model",
                               where=str(path), fix=fix)
    for key in sorted(words.keys() | model.words.keys()):
        if words.get(key) != model.words.get(key):
            raise WeightsError(f"{key[:80]} is not that of the model", where=str(path), fix=fix)
    return read_model(files, model.kernels, model.dtype, torch.device("cpu"), len(model.cos))


def overwrite(model: Llama, other: Llama) -> None:
    """The weights of another model of the same shape, into the memory that captured graphs know."""
    with torch.inference_mode():
        for target, source in zip(_tensors(model), _tensors(other), strict=True):
            target.copy_(source)


def _tensors(model: Llama) -> list[torch.Tensor]:
    """All weights, each once."""
    matrices = [matrix for block in model.blocks for matrix in (block.qkv, block.out, block.gate_up, block.down)]
    vectors = [vector for block in model.blocks for vector in _vectors(block)]
    packed = [part for matrix in (*matrices, model.head)
              for part in (matrix.dense, matrix.tiles, matrix.codes, matrix.scales) if part is not None]
    return [model.embedding, *vectors, model.norm, *packed]


def _vectors(block: Block) -> list[torch.Tensor]:
    heads = [] if block.head_norms is None else [block.head_norms.q, block.head_norms.k]
    return [block.attention_norm, block.ffn_norm, *heads, *([] if block.bias is None else [block.bias])]
