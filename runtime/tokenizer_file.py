"""What the ids of a tokenizer.json spell; alone it serves to check constraints against tokenizers of models that are
not here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from .errors import TokenizerError
from .text_changes import SPACE_MARK
from .tokenizer_steps import without_changes
from .vocabulary import byte_level_bytes, is_delimiter

_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_LARGEST = 1 << 22  # ids: what the largest vocabularies have, ten times over
_END_WORDS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>", "</s>", "<eos>")


@dataclass(frozen=True, slots=True)
class FileVocabulary:
    """tokens[id]: the bytes an id stands for, b"" for special and unused ids. stop: the end ids that the file names by
    one of the usual words. encode: plain text to ids that spell it as it is, no specials added."""

    tokens: tuple[bytes, ...]
    special: frozenset[int]
    stop: frozenset[int]
    encode: Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Spelling:
    """tokens[id]: the bytes an id stands for, b"" for special and unused ids. ids: of the added tokens, by content.
    byte_level: by GPT-2's alphabet; else bytes are spelled <0xNN>."""

    tokens: tuple[bytes, ...]
    special: frozenset[int]
    ids: dict[str, int]
    byte_level: bool


def read_tokenizer_file(path: Path) -> FileVocabulary:
    """Byte-level and byte-fallback tokenizers. Raises TokenizerError, which names the file."""
    with library_faults("not a tokenizer.json", str(path)):
        library = tokenizers.Tokenizer.from_file(str(path))
        data = json.loads(path.read_text(encoding="utf-8"))
        added = data.get("added_tokens", [])
        _keep_texts(library, data)
    spelled = spelling(library, added, str(path))
    stop = frozenset(i for word in _END_WORDS if (i := library.token_to_id(word)) in spelled.special and i is not None)
    if not stop:
        raise TokenizerError("no end token is known by name", where=str(path), fix=f"Known: {', '.join(_END_WORDS)}.")
    return FileVocabulary(spelled.tokens, spelled.special, stop,
                          lambda text: library.encode(text, add_special_tokens=False).ids)


def _keep_texts(library: tokenizers.Tokenizer, data: Mapping[str, Any]) -> None:
    """Takes out the steps that compose letters or put a space in front."""
    model = {"type": "BPE", "vocab": {}, "merges": []}
    steps = {key: data.get(key) for key in ("normalizer", "pre_tokenizer")}
    bare = {"version": "1.0", "added_tokens": list[Any](), "post_processor": None, "decoder": None, "model": model}
    read = json.loads(tokenizers.Tokenizer.from_str(json.dumps(bare | steps)).to_str())  # older spellings as newer ones
    kept = tokenizers.Tokenizer.from_str(json.dumps(bare | without_changes(read)))
    library.normalizer, library.pre_tokenizer = kept.normalizer, kept.pre_tokenizer


@contextmanager
def library_faults(fault: str, where: str) -> Iterator[None]:
    """What the library raises, as TokenizerError: bare Exception, and for some damaged files a panic, which is no
    Exception and whose class no module offers."""
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise TokenizerError(f"{fault}: {error}", where=where) from error


def spelling(library: tokenizers.Tokenizer, added: list[dict[str, Any]], where: str) -> Spelling:
    """added: the file's added_tokens. Raises TokenizerError."""
    words = library.get_vocab(with_added_tokens=True)
    special = {entry["id"] for entry in added if entry["special"] or is_delimiter(entry["content"])}
    byte_level = _is_byte_level(words)
    spell = byte_level_bytes if byte_level else _word_bytes
    plain = {entry["id"]: entry["content"].encode() if byte_level else _word_bytes(entry["content"]) for entry in added}
    if len(set(words.values())) < len(words):
        raise TokenizerError("two words have the same id", where=where)
    size = max(words.values(), default=-1) + 1
    if size > _LARGEST:
        raise TokenizerError(f"an id is above {_LARGEST}", where=where)
    tokens = [b""] * size
    for word, token in words.items():
        try:
            tokens[token] = b"" if token in special else plain[token] if token in plain else spell(word)
        except UnicodeEncodeError as error:
            raise TokenizerError(f"token {token} is not spelled in the byte-level alphabet", where=where) from error
    ids = {entry["content"]: entry["id"] for entry in added}
    return Spelling(tuple(tokens), frozenset(special), ids, byte_level)


def _is_byte_level(words: dict[str, int]) -> bool:
    """The byte-level alphabet spells the space as U+0120; byte fallback spells bytes as <0x20>."""
    return "\u0120" in words and "<0x20>" not in words


def _word_bytes(word: str) -> bytes:
    fallback = _BYTE_FALLBACK.fullmatch(word)
    return bytes([int(fallback[1], 16)]) if fallback else word.replace(SPACE_MARK, " ").encode()
