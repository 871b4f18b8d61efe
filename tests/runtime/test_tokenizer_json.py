"""The tokenizer of a folder: the same answers as its GGUF file gives, byte for byte back, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from espalier.runtime.errors import ModelError, TokenizerError
from espalier.runtime.models.files import open_model
from espalier.runtime.tokenizer import Tokenizer

from .model_folders import STATED, TEXTS, folder, gguf_file, put, tokenizer_json, weights
from .vocabularies import SPECIALS

SPACE = "\u2581"
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
SAMPLES = ["", "hello hello", " hello\n\n", "<|im_end|>", "a<s>\u00e9\U0001f642 12 im", "  \t\0"]


def read(path: Path, tokenizer: dict[str, Any], config: dict[str, Any] | None = None, **stated: Any) -> Tokenizer:
    put(path / "config.json", {**STATED, "vocab_size": len(TEXTS) + 1, **stated})
    put(path / "tokenizer.json", tokenizer)
    put(path / "tokenizer_config.json", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"} | (config or {}))
    return Tokenizer(open_model(path).vocabulary())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Tokenizer]:
    path = tmp_path_factory.mktemp("models")
    files = folder(path / "m", weights()), gguf_file(path / "m.gguf", weights())
    ours, theirs = (Tokenizer(open_model(each).vocabulary()) for each in files)
    return ours, theirs


def test_a_folder_and_its_gguf_file_are_the_same_tokenizer(both: tuple[Tokenizer, Tokenizer]) -> None:
    ours, theirs = both
    for field in ("vocab_size", "token_bytes", "specials", "special_ids", "stop_ids", "bos_id", "eos_id", "add_bos",
                  "prefix"):
        assert getattr(ours, field) == getattr(theirs, field), field


@given(st.text() | st.text("helo <|im_start|>12'S\n") | st.sampled_from(SAMPLES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_texts_and_templates_have_the_same_tokens(both: tuple[Tokenizer, Tokenizer], text: str) -> None:
    ours, theirs = both
    assert ours.encode(text) == theirs.encode(text)
    assert ours.encode_template(text) == theirs.encode_template(text)
    assert ours.bytes_of(ours.encode(text)) == text.encode()


def sentence_piece() -> dict[str, Any]:
    """Byte fallback, spaces as a mark, a user-defined token and an unknown one in the model's vocabulary."""
    words = ["<unk>", "<|im_start|>", "<|im_end|>", *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, "a", "b", "ab",
             SPACE + "a"]
    added = [("<unk>", True), ("<|im_start|>", True), ("<|im_end|>", True), ("<td>", False)]
    ids = {word: i for i, word in enumerate(words)}
    return tokenizer_json(
        added_tokens=[{"id": ids.get(text, len(words)), "content": text, "special": special, **FLAGS}
                      for text, special in added],
        normalizer={"type": "Replace", "pattern": {"String": " "}, "content": SPACE}, pre_tokenizer=None,
        model={"type": "BPE", "vocab": ids, "merges": ["a b", f"{SPACE} a"], "unk_token": "<unk>", "fuse_unk": True,
               "byte_fallback": True})


@pytest.mark.parametrize("text", ["ab a", " a  b", "<unk><td>\u00e9", "\U0001f642 <|im_end|>\n"])
def test_byte_fallback_is_read(tmp_path: Path, text: str) -> None:
    words = read(tmp_path, sentence_piece(), eos_token_id=2)
    ids = words.encode(text)
    assert words.bytes_of(ids) == text.encode()
    assert not words.special_ids.intersection(ids)
    assert ("<td>" in text) == (words.token_bytes.index(b"<td>") in ids)


def test_rows_behind_the_tokens_are_unused(tmp_path: Path) -> None:
    words = read(tmp_path, tokenizer_json(), vocab_size=len(TEXTS) + 5)
    assert words.vocab_size == len(TEXTS) + 5
    assert words.token_bytes[-5:] == [b""] * 5


PUT_BOS = {"type": "TemplateProcessing", "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
           "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
           "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [0], "tokens": ["<|im_start|>"]}}}
OFFSETS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(("post", "config", "prefix"), [
    (None, {}, ()), (None, {"add_bos_token": True}, (0,)), (PUT_BOS, {}, (0,)), (PUT_BOS, {"add_bos_token": False}, ()),
    ({"type": "Sequence", "processors": [OFFSETS, PUT_BOS]}, {}, (0,)), (OFFSETS, {"bos_token": None}, ()),
])
def test_what_a_plain_prompt_begins_with(tmp_path: Path, post: Any, config: dict[str, Any],
                                         prefix: tuple[int, ...]) -> None:
    assert read(tmp_path, tokenizer_json(post_processor=post), config).prefix == prefix


@pytest.mark.parametrize(("generation", "stated", "named", "ends"), [
    ({"eos_token_id": [1, 3]}, 2, "<|im_end|>", {1, 3}), ({}, [2, 3], "<|im_end|>", {1, 2, 3}),
    ({"eos_token_id": 2}, 3, None, {2}), (None, None, {"content": "<|im_end|>"}, {1}),
])
def test_end_tokens_are_those_that_any_file_names(tmp_path: Path, generation: Any, stated: Any, named: Any,
                                                  ends: set[int]) -> None:
    if generation is not None:
        put(tmp_path / "generation_config.json", generation)
    assert read(tmp_path, tokenizer_json(), {"eos_token": named}, eos_token_id=stated).stop_ids == ends


def _cut(**step: Any) -> dict[str, Any]:
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [step, OFFSETS]}}


def _added(**flags: Any) -> dict[str, Any]:
    return {"added_tokens": [{"id": i, "content": text, "special": True, **FLAGS, **flags}
                             for i, text in enumerate(SPECIALS)]}


MODEL = tokenizer_json()["model"]
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "lower case": ({"normalizer": {"type": "Lowercase"}}, {}, "tokenizer.json: normalizer"),
    "composed by likeness": ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}}, {},
                             "tokenizer.json: normalizer"),
    "a word in front": ({"normalizer": {"type": "Prepend", "prepend": "so"}}, {}, "tokenizer.json: normalizer"),
    "a mark of no space in front": ({"normalizer": {"type": "Prepend", "prepend": SPACE}}, {}, "tokenizer.json"),
    "a space in front of letters": ({"pre_tokenizer": {**OFFSETS, "add_prefix_space": True}}, {},
                                    "tokenizer.json: pre_tokenizer"),
    "another mark of a space": (_cut(type="Metaspace", replacement="_", prepend_scheme="first", split=False), {},
                                "tokenizer.json: pre_tokenizer"),
    "tokens in composed text": (
        {"normalizer": {"type": "NFC"}, "added_tokens": [*_added()["added_tokens"], {
            "id": len(TEXTS), "content": "<td>", "special": False, **FLAGS, "normalized": True}]},
        {}, "tokenizer.json: added_tokens: <td>"),
    "blanks lost": (_cut(type="WhitespaceSplit"), {}, "tokenizer.json: pre_tokenizer"),
    "cuts lost": (_cut(type="Split", pattern={"String": "x"}, behavior="Removed", invert=False), {},
                  "tokenizer.json: pre_tokenizer"),
    "words": ({"model": {"type": "WordLevel", "vocab": MODEL["vocab"], "unk_token": "<s>"}}, {},
              "tokenizer.json: model"),
    "two words of one id": ({"model": {**MODEL, "vocab": {**MODEL["vocab"], "h": MODEL["vocab"]["l"]}}}, {},
                            "tokenizer.json"),
    "dropout": ({"model": {**MODEL, "dropout": 0.5}}, {}, "tokenizer.json: model: dropout"),
    "blanks beside a token": (_added(lstrip=True), {}, "tokenizer.json: added_tokens: <|im_start|>"),
    "no special end": (_added(special=False) | {"added_tokens": []}, {}, "tokenizer_config.json: bos_token"),
    "an end behind": ({"post_processor": {**PUT_BOS, "single": PUT_BOS["single"][::-1]}}, {},
                      "tokenizer.json: post_processor"),
    "an unknown token in front": ({"post_processor": {**PUT_BOS, "special_tokens": {}}}, {},
                                  "tokenizer.json: post_processor"),
    "Bert's frame": ({"post_processor": {"type": "BertProcessing", "sep": ["<s>", 3], "cls": ["<s>", 3]}}, {},
                             "tokenizer.json: post_processor"),
    "another token in front": ({"post_processor": PUT_BOS}, {"bos_token": "<s>"}, "tokenizer.json: post_processor"),
    "an end behind each prompt": ({}, {"add_eos_token": True}, "tokenizer_config.json: add_eos_token"),
    "an unknown end": ({}, {"eos_token": "<|fin|>"}, "tokenizer_config.json: eos_token"),
    "an end that is no Unicode": ({}, {"eos_token": "\ud800"}, "tokenizer_config.json: eos_token"),
    "an end of no text": ({}, {"eos_token": 7}, "tokenizer_config.json: eos_token"),
    "a flag of no flag": ({}, {"add_bos_token": "yes"}, "tokenizer_config.json: add_bos_token"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tokenizer_that_would_answer_otherwise_is_refused_by_its_place(tmp_path: Path, case: str) -> None:
    changes, config, where = REFUSED[case]
    with pytest.raises(ModelError) as caught:
        read(tmp_path, tokenizer_json(**changes), config)
    assert caught.value.where == where


@pytest.mark.parametrize(("ends", "where"), [([], "tokenizer.json"), (900, "eos_token_id"), (50, "eos_token_id"),
                                             (True, "config.json: eos_token_id"), (["a"], "config.json: eos_token_id")])
def test_ends_that_are_no_special_tokens_are_refused(tmp_path: Path, ends: Any, where: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(tmp_path, tokenizer_json(), {"eos_token": None}, eos_token_id=ends)
    assert caught.value.where == where


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"model": {"type": "BPE"}}'])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    read(tmp_path, tokenizer_json())
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"not a tokenizer\.json"):
        open_model(tmp_path).vocabulary()


def test_more_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="rows of the embedding"):
        read(tmp_path, tokenizer_json(), vocab_size=len(TEXTS) - 1)
