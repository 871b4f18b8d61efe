"""How text is cut before BPE merges, by the name that `tokenizer.ggml.pre` gives it. A wrong cut gives quietly worse
answers, so a name that is not here is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from .text_changes import COMPOSED, NO_CHANGES, TextChanges


@dataclass(frozen=True, slots=True)
class PreTokenizerKind:
    """build: a fresh cutter ending in the byte-level alphabet. whole_words: a word that is itself a token is not built
    from merges (`ignore_merges`). add_bos: what a file without `add_bos_token` means. changes: before
    it is cut, which GGUF files do not state."""

    build: Callable[[], PreTokenizer]
    whole_words: bool = False
    add_bos: bool = False
    changes: TextChanges = NO_CHANGES


def _gpt2() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _gpt2()])


_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _llama3() -> PreTokenizer:
    return Sequence([Split(Regex(_LLAMA3), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])


# As the tokenizer.json of Qwen 2, 2.5 and 3 has it: digits one by one.
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _qwen2() -> PreTokenizer:
    return Sequence([Split(Regex(_QWEN2), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "smollm": PreTokenizerKind(_smollm),
    "gpt-2": PreTokenizerKind(_gpt2),
    "llama-bpe": PreTokenizerKind(_llama3, whole_words=True, add_bos=True),
    "qwen2": PreTokenizerKind(_qwen2, changes=COMPOSED),
}
