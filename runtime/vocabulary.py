"""What a tokenizer is made of, and how a GGUF file states it: what each id is, and what bytes it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import tokenizers
from tokenizers.models import BPE

from .errors import TokenizerError
from .gguf import GGUFFile
from .pretokenizers import PRE_TOKENIZERS, PreTokenizerKind
from .text_changes import NO_CHANGES, TextChanges

# User-defined tokens that are no text: what templates put around turns, tools and reasoning. Tokenizers do not always
# mark them special. Other user-defined tokens (runs of blanks, HTML tags) are text.
_DELIMITER = re.compile(r"<\|.*\|>|<\uff5c.*\uff5c>|</?(think|thinking|tools|tool_calls?)>|"
                        r"</?(tool_responses?|tool_results?)>|<unused\d+>|<(start|end)_of_\w+>|"
                        r"<(mask|pad|bos|eos|unk)>|\[[A-Z_]+\]|\[multimodal\]", re.DOTALL)
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """encoder: text to ids by BPE, without special tokens, the text as it is. changes: what the model's tokenizer makes
    of a text before. token_bytes[id]: b"" for special and unused ids. specials: string -> id, control tokens that
    template text may name. user_defined: string -> id, matched in any text before BPE. add_bos: whether a fresh prompt
    begins with bos_id."""

    encoder: tokenizers.Tokenizer
    changes: TextChanges = NO_CHANGES
    token_bytes: tuple[bytes, ...]
    specials: Mapping[str, int]
    user_defined: Mapping[str, int]
    special_ids: frozenset[int]
    stop_ids: frozenset[int]
    bos_id: int | None
    eos_id: int | None
    add_bos: bool


def read_vocabulary(gguf: GGUFFile) -> Vocabulary:
    """Raises TokenizerError, or WeightsError when a key is missing or of the wrong type."""
    _check_kind(gguf)
    texts = gguf.texts("tokenizer.ggml.tokens")
    types = [_CONTROL if kind == _USER_DEFINED and is_delimiter(texts[i]) else kind
             for i, kind in enumerate(_types(gguf, texts))]
    by_type = {kind: {text: i for i, text in enumerate(texts) if types[i] == kind} for kind in range(1, 6)}
    ends = [_special_id(gguf, name, len(texts)) for name in ("eos", "eot", "eom")]
    kind = PRE_TOKENIZERS[gguf.text("tokenizer.ggml.pre")]
    return Vocabulary(
        encoder=_encoder(kind, by_type[_NORMAL], _merges(gguf)),
        changes=kind.changes,
        token_bytes=tuple([_bytes(i, text, types[i]) for i, text in enumerate(texts)]),
        specials=by_type[_CONTROL],
        user_defined=by_type[_USER_DEFINED],
        special_ids=frozenset(by_type[_CONTROL].values()) | frozenset(by_type[_UNKNOWN].values()),
        stop_ids=frozenset(token for token in ends if token is not None),
        bos_id=_special_id(gguf, "bos", len(texts)),
        eos_id=ends[0],
        add_bos=gguf.flag(_ADD_BOS) if _ADD_BOS in gguf.metadata else kind.add_bos,
    )


def is_delimiter(text: str) -> bool:
    """Whether a user-defined token stands around text and is none itself."""
    return _DELIMITER.fullmatch(text) is not None


_ADD_BOS = "tokenizer.ggml.add_bos_token"


def _check_kind(gguf: GGUFFile) -> None:
    model = gguf.text("tokenizer.ggml.model")
    if model != "gpt2":
        raise TokenizerError(
            f"the tokenizer model {model[:80]!r} is not supported", where="tokenizer.ggml.model",
            fix="This runtime reads 'gpt2' (byte-level BPE).",
        )
    pre = gguf.text("tokenizer.ggml.pre")
    if pre not in PRE_TOKENIZERS:
        raise TokenizerError(
            f"the pre-tokenizer {pre[:80]!r} is not known", where="tokenizer.ggml.pre",
            fix=f"Known are: {', '.join(PRE_TOKENIZERS)}.",
        )


def _types(gguf: GGUFFile, texts: tuple[str, ...]) -> list[int]:
    if not texts:
        raise TokenizerError("the vocabulary is empty", where="tokenizer.ggml.tokens")
    types = gguf.integers("tokenizer.ggml.token_type")
    if len(types) != len(texts):
        raise TokenizerError(f"{len(types)} types for {len(texts)} tokens", where="tokenizer.ggml.token_type")
    wrong = next((i for i, kind in enumerate(types) if not _NORMAL <= kind <= _UNUSED), None)
    if wrong is not None:
        raise TokenizerError(f"token {wrong} has type {types[wrong]}, which byte-level BPE lacks",
                             where="tokenizer.ggml.token_type")
    if len(set(texts)) != len(texts) or "" in texts:
        raise TokenizerError("a token is empty or comes twice", where="tokenizer.ggml.tokens")
    return types


def _special_id(gguf: GGUFFile, name: str, size: int) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in gguf.metadata:
        return None
    token = gguf.integer(key)
    if token >= size:
        raise TokenizerError(f"{token} is outside of the {size} tokens", where=key)
    return token


def _merges(gguf: GGUFFile) -> tuple[tuple[str, str], ...]:
    """Each line is two tokens with one space between; neither holds a space (the alphabet spells it otherwise)."""
    pairs: list[tuple[str, str]] = []
    for rank, line in enumerate(gguf.texts("tokenizer.ggml.merges")):
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise TokenizerError("a merge is not two tokens", where=f"tokenizer.ggml.merges/{rank}")
        pairs.append((left, right))
    return tuple(pairs)


def _encoder(kind: PreTokenizerKind, ordinary: Mapping[str, int],
             merges: tuple[tuple[str, str], ...]) -> tokenizers.Tokenizer:
    """ordinary: text -> id of the tokens that BPE may make."""
    try:
        model = BPE(dict(ordinary), list(merges), ignore_merges=kind.whole_words)
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"the merges do not fit the vocabulary: {error}", where="tokenizer.ggml.merges") from error
    encoder = tokenizers.Tokenizer(model)
    encoder.pre_tokenizer = kind.build()
    return encoder


def _bytes(token: int, text: str, kind: int) -> bytes:
    if kind == _USER_DEFINED:
        return text.encode()
    if kind != _NORMAL:
        return b""
    try:
        return byte_level_bytes(text)
    except UnicodeEncodeError as error:
        raise TokenizerError(f"token {token} is not spelled in the byte-level alphabet",
                             where=f"tokenizer.ggml.tokens/{token}") from error


def _byte_alphabet() -> dict[int, int]:
    """GPT-2's alphabet: visible Latin-1 characters stand for their own byte, the other 68 bytes, in order, are the
    characters from U+0100 on. A Latin-1 character that stands for no byte maps to one that cannot be encoded."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {0x100 + i: byte for i, byte in enumerate(hidden)} | dict.fromkeys(hidden, 0xFFFD)


_TO_LATIN1 = _byte_alphabet()


def byte_level_bytes(text: str) -> bytes:
    """The bytes that a byte-level token spells. Raises UnicodeEncodeError when it is spelled otherwise."""
    return text.translate(_TO_LATIN1).encode("latin-1")
