"""A JSON file of a model's folder, read with a limit on its bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from .errors import WeightsError
from .keys import Keys
from .regular_file import opened


class JsonFile(Keys):
    """An object. Errors call a key `FILE: KEY`."""

    def __init__(self, name: str, metadata: Mapping[str, object]) -> None:
        self.name = name
        self.metadata = metadata

    @classmethod
    def read(cls, path: Path, limit: int) -> JsonFile:
        """limit: bytes. Raises WeightsError."""
        raw = read_bytes(path, limit)
        try:
            value = json.loads(raw, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise WeightsError(f"not JSON: {error}", where=str(path)) from error
        if not isinstance(value, dict):
            raise WeightsError("a JSON object is expected", where=str(path))
        return cls(path.name, value)

    def place(self, key: str) -> str:
        return f"{self.name}: {key}"

    def child(self, key: str) -> JsonFile:
        """The object under a key; an empty one when it is null or not there."""
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, dict):
            raise WeightsError("a JSON object is expected", where=self.place(key))
        return JsonFile(self.place(key), value or {})

    def has(self, key: str) -> bool:
        """Null is as if it were not there."""
        return self.metadata.get(key) is not None


def read_bytes(path: Path, limit: int) -> bytes:
    """Raises WeightsError for a file of more bytes, and for one that cannot be read."""
    with opened(path) as (file, size):
        if size > limit:
            raise WeightsError(f"the file has {size} bytes and may have {limit}", where=str(path))
        return file.read(limit)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
