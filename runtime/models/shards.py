"""The safetensors files of a folder as one set of tensors: `model.safetensors`, or those that its index names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from ..errors import WeightsError
from ..json_file import JsonFile
from ..regular_file import opened
from ..weights import check_tensors, llama_shapes
from .config import LlamaConfig

if TYPE_CHECKING:
    import torch

_ONE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_INDEX_BYTES = 64 << 20
_SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,200}\.safetensors")
_DTYPES = ("F32", "F16", "BF16")
_LEFT_OVER = re.compile(r".*\.rotary_emb\.inv_freq")  # of old files; computed from the config
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_IN_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
_EMBEDDING, _HEAD = "model.embed_tokens.weight", "lm_head.weight"
_OUTSIDE = {"token_embd.weight": _EMBEDDING, "output_norm.weight": "model.norm.weight", "output.weight": _HEAD}


def published(name: str) -> str:
    """What Hugging Face calls the tensor that GGUF calls `name`."""
    inside = _BLOCK.fullmatch(name)
    return f"model.layers.{inside[1]}.{_IN_BLOCK[inside[2]]}.{inside[3]}" if inside else _OUTSIDE[name]


class Shards:
    """The files are mapped, not read; they must not be truncated while in use."""

    def __init__(self, folder: Path) -> None:
        """Raises WeightsError for a broken or missing file, for an index that names a place outside of the folder, and
        for tensors of another dtype."""
        index = _index(folder)
        names = sorted(set(index.values())) if index is not None else [_ONE]
        self._files: dict[str, tuple[str, Any]] = {}
        for name in names:
            self._open(folder / name)
        if index is not None:
            self._check_index(index)
        self.shapes = {name: self._shape(name) for name in self._files if not _LEFT_OVER.fullmatch(name)}

    def tensor(self, name: str) -> torch.Tensor:
        file, handle = self._files[name]
        with _typed(file):
            tensor: torch.Tensor = handle.get_tensor(name)
        return tensor

    def _open(self, path: Path) -> None:
        with opened(path):  # refuses what is no regular file before the library maps it
            pass
        with _typed(path.name):
            handle: Any = safe_open(str(path), framework="pt", device="cpu")
            found = list(handle.keys())
        for name in found:
            if name in self._files:
                raise WeightsError(f"it stands in {self._files[name][0]} and in {path.name}", where=f"tensor {name}")
            self._files[name] = (path.name, handle)

    def _shape(self, name: str) -> tuple[int, ...]:
        file, handle = self._files[name]
        with _typed(file):
            view = handle.get_slice(name)
            dtype, shape = view.get_dtype(), tuple(view.get_shape())
        if dtype not in _DTYPES:
            raise WeightsError(f"the dtype {dtype} is not supported", where=f"{file}: tensor {name}",
                               fix=f"These are: {', '.join(_DTYPES)}.")
        return shape

    def _check_index(self, index: Mapping[str, str]) -> None:
        """The index and the files say the same."""
        for name, shard in index.items():
            if name not in self._files or self._files[name][0] != shard:
                raise WeightsError(f"{shard} has no such tensor", where=f"{_INDEX}: {name[:200]}")
        for name, (file, _) in self._files.items():
            if name not in index:
                raise WeightsError(f"the index does not name it, and {file} holds it", where=f"tensor {name[:200]}")


def llama_shards(folder: Path, config: LlamaConfig) -> Shards:
    """Those of the model of this shape, checked. Raises WeightsError."""
    shards = Shards(folder)
    found = dict(shards.shapes)
    if config.tied and _HEAD in found:
        _refuse_another_head(shards)
        del found[_HEAD]
    check_tensors(found, {published(name): shape for name, shape in llama_shapes(config).items()})
    return shards


def _refuse_another_head(shards: Shards) -> None:
    """A tied model may hold its embedding twice."""
    head, embedding = (shards.tensor(name) for name in (_HEAD, _EMBEDDING))
    if head.shape != embedding.shape or not head.equal(embedding):
        raise WeightsError("the config ties it to the embedding, and it differs", where=f"tensor {_HEAD}",
                           fix="Set tie_word_embeddings as it was in training.")


def _index(folder: Path) -> dict[str, str] | None:
    """Tensor -> shard; None when one file holds all."""
    if (folder / _ONE).exists():
        return None
    if not (folder / _INDEX).exists():
        raise WeightsError(f"there is neither {_ONE} nor {_INDEX}", where=str(folder),
                           fix="Only safetensors are read: convert other weights with transformers.")
    shards = JsonFile.read(folder / _INDEX, _INDEX_BYTES).child("weight_map")
    if not shards.metadata:
        raise WeightsError("it names no tensor", where=f"{_INDEX}: weight_map")
    index = {name: shards.text(name) for name in shards.metadata}
    for name, shard in index.items():
        if not _SHARD.fullmatch(shard):
            raise WeightsError("a shard is the name of a .safetensors file in the folder itself",
                               where=f"{_INDEX}: weight_map: {name[:200]}")
    return index


@contextmanager
def _typed(file: str) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"the file cannot be read: {error}", where=file,
                           fix="The file is broken: fetch it again.") from error
