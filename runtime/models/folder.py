"""A model as Hugging Face publishes it: a folder with config.json, safetensors, tokenizer.json and more."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import WeightsError
from ..json_file import JsonFile, read_bytes
from ..tokenizer_json import TokenizerJson
from ..vocabulary import Vocabulary
from .config import LlamaConfig
from .files import digest
from .folder_config import folder_config

if TYPE_CHECKING:
    from .sources import Source

_LIMIT = 16 << 20  # bytes of a config or a template
_TEMPLATE, _ENDS = "chat_template", "eos_token_id"
_NAMED = ("bos_token", "eos_token", "add_bos_token")


class FolderModel:
    def __init__(self, folder: Path) -> None:
        """Raises WeightsError when a file that must be there is not, or is no JSON."""
        self._folder = folder
        self._config = JsonFile.read(folder / "config.json", _LIMIT)
        self._tokenizer_config = self._optional("tokenizer_config.json")
        self._generation = self._optional("generation_config.json")

    @cached_property
    def config(self) -> LlamaConfig:
        return folder_config(self._config)

    def source(self) -> Source:
        from .shards import llama_shards
        from .sources import FolderSource

        return FolderSource(llama_shards(self._folder, self.config))

    def vocabulary(self) -> Vocabulary:
        return self._tokenizer.vocabulary(self.config.vocab, self._tokenizer_config, self._ends())

    def template(self) -> str:
        """chat_template.jinja, else the one of tokenizer_config.json: a text, or the default one of several."""
        path = self._folder / f"{_TEMPLATE}.jinja"
        if path.exists():
            return _text(path)
        stated = self._tokenizer_config.metadata.get(_TEMPLATE)
        if isinstance(stated, list):
            named = {each.get("name"): each.get("template") for each in stated if isinstance(each, dict)}
            stated = named.get("default")
        if stated is not None and not isinstance(stated, str):
            raise WeightsError("a string is expected", where=self._tokenizer_config.place(_TEMPLATE))
        return stated or ""

    def words(self) -> dict[str, str]:
        stated = {self._tokenizer_config.place(key): self._tokenizer_config.metadata.get(key) for key in _NAMED}
        parts = self._tokenizer.parts() | stated | {_ENDS: self._ends(), _TEMPLATE: self.template()}
        return {key: digest(json.dumps(value, sort_keys=True)) for key, value in parts.items()}

    @cached_property
    def _tokenizer(self) -> TokenizerJson:
        return TokenizerJson(self._folder / "tokenizer.json")

    def _optional(self, name: str) -> JsonFile:
        path = self._folder / name
        return JsonFile.read(path, _LIMIT) if path.exists() else JsonFile(name, {})

    def _ends(self) -> list[int]:
        """Of generation_config.json, else of config.json; eos_token of tokenizer_config.json is added to them."""
        file = self._generation if self._generation.has(_ENDS) else self._config
        stated = file.metadata.get(_ENDS)
        ends = stated if isinstance(stated, list) else [] if stated is None else [stated]
        found = [end for end in ends if isinstance(end, int) and not isinstance(end, bool)]
        if len(found) < len(ends):
            raise WeightsError("ids of tokens are expected", where=file.place(_ENDS))
        return found


def _text(path: Path) -> str:
    try:
        return read_bytes(path, _LIMIT).decode()
    except UnicodeDecodeError as error:
        raise WeightsError("the file is no UTF-8", where=str(path)) from error
