"""The vocabulary of a tokenizer.json for the benchmarks: byte-level, or with byte fallback."""

from __future__ import annotations

from pathlib import Path

from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.tokenizer_file import read_tokenizer_file


def file_vocabulary(path: str | Path) -> Vocabulary:
    """One stop id: the first of those that the file names by a usual word."""
    found = read_tokenizer_file(Path(path))
    return Vocabulary(found.tokens, special=found.special, stop=sorted(found.stop)[:1], encode=found.encode)
