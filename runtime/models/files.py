"""What loading asks of a model's files, whatever form they have. Torch is imported with the weights only."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..gguf import GGUFFile
from ..vocabulary import Vocabulary, read_vocabulary
from ..weights import check_llama_tensors
from .config import LlamaConfig, llama_config

if TYPE_CHECKING:
    from .sources import Source

_TEMPLATE = "tokenizer.chat_template"


class ModelFiles(Protocol):
    """config: raises WeightsError when it is first read."""

    @property
    def config(self) -> LlamaConfig: ...

    def source(self) -> Source:
        """Of weights that are all there, of the right shapes. Raises WeightsError."""

    def vocabulary(self) -> Vocabulary:
        """Raises TokenizerError, or WeightsError when a key is missing or of the wrong type."""

    def template(self) -> str:
        """"" when there is none."""

    def words(self) -> dict[str, str]:
        """What the files say of the tokenizer, the chat template included: key -> digest."""


def open_model(path: str | Path) -> ModelFiles:
    """A .gguf file, or a folder in the form of Hugging Face. Raises WeightsError."""
    from .folder import FolderModel

    return FolderModel(Path(path)) if Path(path).is_dir() else GGUFModel(GGUFFile.open(path))


class GGUFModel:
    def __init__(self, gguf: GGUFFile) -> None:
        self._gguf = gguf

    @cached_property
    def config(self) -> LlamaConfig:
        return llama_config(self._gguf)

    def source(self) -> Source:
        from .sources import GGUFSource

        check_llama_tensors(self._gguf, self.config)
        return GGUFSource(self._gguf, self.config)

    def vocabulary(self) -> Vocabulary:
        return read_vocabulary(self._gguf)

    def template(self) -> str:
        return self._gguf.text(_TEMPLATE) if _TEMPLATE in self._gguf.metadata else ""

    def words(self) -> dict[str, str]:
        return {key: digest(value) for key, value in self._gguf.metadata.items() if key.startswith("tokenizer.")}


def digest(value: object) -> str:
    told = (value.dtype.str, value.tobytes()) if isinstance(value, np.ndarray) else value
    return hashlib.sha256(repr(told).encode(errors="surrogatepass")).hexdigest()
