"""A small byte-level vocabulary as the metadata of a GGUF file."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from espalier.runtime.gguf import GGUFFile
from espalier.runtime.tokenizer import Tokenizer
from espalier.runtime.vocabulary import read_vocabulary

from .gguf_files import file_bytes, key_array, key_text, key_u32, string

SPECIALS = ("<|im_start|>", "<|im_end|>", "<|im|>", "<s>")
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ h", "Ġh e", "Ġhe ll", "Ġhell o", "Ċ Ċ", "i m", "Ġ Ġ")


def byte_letters() -> dict[int, str]:
    """GPT-2's spelling of each byte as one character, written down apart from the code under test."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(rest)}


def tokens(missing: Sequence[int] = (), merges: Sequence[str] = MERGES, user: Sequence[str] = ()) -> list[str]:
    """Specials first, then single bytes, then what the merges make, then user-defined tokens."""
    letters = [letter for byte, letter in sorted(byte_letters().items()) if byte not in missing]
    made = ["".join(merge.split(" ")) for merge in merges]
    return [*SPECIALS, *letters, *made, *user]


def metadata(
    texts: Sequence[str], merges: Sequence[str] = MERGES, user: Sequence[str] = (), pre: str = "smollm",
    model: str = "gpt2", ids: Mapping[str, int] | None = None, flags: Mapping[str, bool] | None = None,
    types: Sequence[int] | None = None, template: str | None = None,
) -> GGUFFile:
    """ids: eos, eot, eom, bos. types: by default control for SPECIALS, user-defined for `user`, else normal."""
    kinds = types or [3 if text in SPECIALS else 4 if text in user else 1 for text in texts]
    keys = [
        key_text("tokenizer.ggml.model", model),
        key_text("tokenizer.ggml.pre", pre),
        key_array("tokenizer.ggml.tokens", 8, len(texts), b"".join(map(string, texts))),
        key_array("tokenizer.ggml.merges", 8, len(merges), b"".join(map(string, merges))),
        key_array("tokenizer.ggml.token_type", 5, len(kinds), struct.pack(f"<{len(kinds)}i", *kinds)),
        *(key_u32(f"tokenizer.ggml.{name}_token_id", token) for name, token in (ids or {"eos": 1}).items()),
        *(string(f"tokenizer.ggml.{name}") + struct.pack("<IB", 7, on) for name, on in (flags or {}).items()),
    ]
    if template is not None:
        keys.append(key_text("tokenizer.chat_template", template))
    return GGUFFile(file_bytes(keys))


def small_tokenizer(context: int | None = None) -> Tokenizer:
    return Tokenizer(read_vocabulary(metadata(tokens(), ids={"bos": 0, "eos": 1})), context=context)
