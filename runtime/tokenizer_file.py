"""The vocabulary of a tokenizer.json, for checking constraints against tokenizers whose model is not here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from .errors import TokenizerError
from .vocabulary import byte_level_bytes, is_delimiter

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_LARGEST = 1 << 22  # ids: what the largest vocabularies have, ten times over
_WORD_START = "\u2581"
_END_WORDS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "</s>", "<eos>")


@dataclass(frozen=True, slots=True)
class FileVocabulary:
    """tokens[id]: the bytes an id stands for, b"" for special and unused ids. stop: the end ids that the file names by
    one of the usual words. encode: plain text to ids, no specials added."""

    tokens: tuple[bytes, ...]
    special: frozenset[int]
    stop: frozenset[int]
    encode: Callable[[str], list[int]]


def read_tokenizer_file(path: Path) -> FileVocabulary:
    """Byte-level and byte-fallback tokenizers. Raises TokenizerError, which names the file."""
    try:
        library = tokenizers.Tokenizer.from_file(str(path))
        added = json.loads(path.read_text(encoding="utf-8")).get("added_tokens", [])
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"not a tokenizer.json: {error}", where=str(path)) from error
    return _vocabulary(library, added, str(path))


def _vocabulary(library: tokenizers.Tokenizer, added: list[dict[str, Any]], where: str) -> FileVocabulary:
    words = library.get_vocab(with_added_tokens=True)
    special = {entry["id"] for entry in added if entry["special"] or is_delimiter(entry["content"])}
    byte_level = _is_byte_level(words)
    spell = byte_level_bytes if byte_level else _word_bytes
    plain = {entry["id"]: entry["content"].encode() if byte_level else _word_bytes(entry["content"]) for entry in added}
    size = max(words.values(), default=-1) + 1
    if size > _LARGEST:
        raise TokenizerError(f"an id is above {_LARGEST}", where=where)
    tokens = [b""] * size
    for word, token in words.items():
        try:
            tokens[token] = b"" if token in special else plain[token] if token in plain else spell(word)
        except UnicodeEncodeError as error:
            raise TokenizerError(f"token {token} is not spelled in the byte-level alphabet", where=where) from error
    stop = frozenset(words[word] for word in _END_WORDS if words.get(word) in special)
    if not stop:
        raise TokenizerError("no end token is known by name", where=where, fix=f"Known: {', '.join(_END_WORDS)}.")
    return FileVocabulary(tuple(tokens), frozenset(special), stop,
                          lambda text: library.encode(text, add_special_tokens=False).ids)


def _is_byte_level(words: dict[str, int]) -> bool:
    """The byte-level alphabet spells the space as U+0120; byte fallback spells bytes as <0x20>."""
    return "\u0120" in words and "<0x20>" not in words


def _word_bytes(word: str) -> bytes:
    fallback = _BYTE_FALLBACK.fullmatch(word)
    return bytes([int(fallback[1], 16)]) if fallback else word.replace(_WORD_START, " ").encode()
