"""The vocabulary of a tokenizer.json: byte fallback, the mark of a space, tokens that are no text, damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from espalier.runtime.errors import TokenizerError
from espalier.runtime.tokenizer_file import FileVocabulary, library_faults, read_tokenizer_file
from espalier.runtime.vocabulary import is_delimiter

from .vocabularies import byte_letters

SPACE = "\u2581"


def written(folder: Path, vocabulary: dict[str, int], merges: list[str], added: list[tuple[str, bool]],
            **more: Any) -> FileVocabulary:
    """added: (text, special); those that the vocabulary lacks get ids behind it."""
    fresh = [text for text, _ in added if text not in vocabulary]
    ids = vocabulary | {text: len(vocabulary) + i for i, text in enumerate(fresh)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokens = [{"id": ids[text], "content": text, "special": special, **flags} for text, special in added]
    model = {"type": "BPE", "vocab": vocabulary, "merges": merges, "byte_fallback": "normalizer" in more}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({"version": "1.0", "added_tokens": tokens, "model": model, **more}), encoding="utf-8")
    return read_tokenizer_file(path)


def sentence_piece(folder: Path) -> FileVocabulary:
    """As Gemma's: byte fallback, the space as a mark, runs of it and HTML tags as user-defined tokens."""
    words = [f"<0x{b:02X}>" for b in range(256)] + [SPACE, "a", "b", "ab", SPACE + "a", "\n", "</s>"]
    return written(
        folder, {word: i for i, word in enumerate(words)}, ["a b", f"{SPACE} a"],
        [("<eos>", True), (SPACE * 2, False), ("<td>", False), ("<unused7>", False), ("<start_of_turn>", False)],
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
    )


def byte_level(folder: Path, *, missing: int = -1) -> FileVocabulary:
    """As Qwen's: byte-level letters, delimiters of tools and reasoning that are not marked special."""
    letters = [letter for byte, letter in byte_letters().items() if byte != missing]
    return written(
        folder, {word: i for i, word in enumerate([*letters, "ab", "</s>"])}, ["a b"],
        [("<|im_end|>", True), ("<tool_call>", False), ("</think>", False), ("<td>", False)],
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    )


@pytest.mark.parametrize("make", [sentence_piece, byte_level])
@pytest.mark.parametrize("text", ["ab a", "a  b", "  ", "\n<td>\u00e9", "\U0001f600 </s>"])
def test_the_tokens_of_a_text_spell_it(tmp_path: Path, make: Any, text: str) -> None:
    words = make(tmp_path)
    ids = words.encode(text)
    assert b"".join(words.tokens[i] for i in ids) == text.encode()
    assert not words.special.intersection(ids)


@pytest.mark.parametrize(("make", "hidden"), [(sentence_piece, 3), (byte_level, 3)])
def test_what_stands_around_text_is_special_and_no_ordinary_word_is_an_end(tmp_path: Path, make: Any, hidden: int
                                                                           ) -> None:
    words = make(tmp_path)
    assert len(words.special) == hidden
    assert all(words.tokens[i] == b"" for i in words.special)
    assert words.stop <= words.special
    assert b"</s>" in words.tokens
    assert b"<td>" in words.tokens


def test_every_byte_is_a_token_and_two_ids_may_have_the_same_bytes(tmp_path: Path) -> None:
    words = sentence_piece(tmp_path)
    assert {token[0] for token in words.tokens if len(token) == 1} == set(range(256))
    assert words.tokens.count(b"\n") == 2
    assert words.tokens.count(b"a") == 2


@pytest.mark.parametrize("vocabulary", [{"\u0120": 0, "\u0154": 1}, {"\u0120": 0, "a": 1 << 30}])
def test_a_damaged_vocabulary_is_refused_by_name(tmp_path: Path, vocabulary: dict[str, int]) -> None:
    with pytest.raises(TokenizerError) as caught:
        written(tmp_path, vocabulary, [], [])
    assert caught.value.where.endswith("tokenizer.json")


@pytest.mark.parametrize(("text", "is_one"), [
    ("<|im_start|>", True), ("<tool_call>", True), ("</think>", True), ("<unused99>", True), ("[multimodal]", True),
    ("[INST]", True), ("<td>", False), ("</h1>", False), ("\n\n", False), ("  ", False), ("<thinking hard>", False),
])
def test_delimiters_are_told_from_text(text: str, is_one: bool) -> None:
    assert is_delimiter(text) == is_one


class PanicException(BaseException):
    """As the library's own, which no module offers."""


@pytest.mark.parametrize(("raised", "told"), [
    (PanicException(), TokenizerError), (Exception("no"), TokenizerError), (KeyboardInterrupt(), KeyboardInterrupt),
])
def test_a_fault_of_the_library_is_a_typed_error_and_an_interrupt_stays_one(
    raised: BaseException, told: type[BaseException]
) -> None:
    with pytest.raises(told), library_faults("damaged", "tokenizer.json"):
        raise raised
