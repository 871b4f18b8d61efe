"""Tokenizers that compose letters or put a space in front: prompts become what the library makes of them, answers and
forced text stay the bytes that they are."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

import espalier as esp
from espalier.runtime.answering import Cut
from espalier.runtime.branch_state import BranchState
from espalier.runtime.models.files import open_model
from espalier.runtime.tokenizer import Tokenizer
from espalier.runtime.tokenizer_file import read_tokenizer_file
from espalier.runtime.words import Place

from .model_folders import STATED, folder, gguf_file, put, tokenizer_json, weights
from .test_tokenizer_json import sentence_piece
from .tiny_llama import tiny_config

SPACE = "\u2581"
MARKED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
BEFORE = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, MARKED]}


def _marking(scheme: str, **normalizer: Any) -> dict[str, Any]:
    step = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": False}
    return {**sentence_piece(), "normalizer": normalizer or None, "pre_tokenizer": step}


KINDS: Mapping[str, dict[str, Any]] = {
    "composed": tokenizer_json(normalizer={"type": "NFC"}),
    "composed in a sequence": tokenizer_json(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}]}),
    "a space before each section": {**sentence_piece(), "normalizer": BEFORE},
    "a space before the first": _marking("first"),
    "a space before all but blanks": _marking("always"),
    "no space": _marking("never"),
    "composed, and a space": _marking("first", type="NFC"),
}
LETTERS = "ab e\u0301o\u0308\u00e9\u212b\ufb01\u1100\u1161\ud55c>\u0338\u3099 \u2581\n"
TEXTS = st.text(LETTERS) | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module", params=KINDS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tokenizer, Any]:
    """Ours, and the library."""
    path = tmp_path_factory.mktemp("words")
    put(path / "config.json", {**STATED, "vocab_size": 400})
    put(path / "tokenizer.json", KINDS[request.param])
    put(path / "tokenizer_config.json", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
    return Tokenizer(open_model(path).vocabulary()), tokenizers.Tokenizer.from_file(str(path / "tokenizer.json"))


@given(TEXTS)
@example("")
@example(" a")
@example(SPACE)
@example("a<td>\u0338 b<td>")
def test_a_prompt_has_the_tokens_that_the_library_gives(both: tuple[Tokenizer, Any], text: str) -> None:
    ours, library = both
    assert ours.encode(text) == library.encode(text, add_special_tokens=False).ids


@given(st.lists(st.text(LETTERS) | st.sampled_from(["<|im_start|>", "<|im_end|>", "<td>"])))
def test_a_template_has_the_tokens_that_the_library_gives(both: tuple[Tokenizer, Any], parts: list[str]) -> None:
    ours, library = both
    assert ours.encode_template("".join(parts)) == library.encode("".join(parts), add_special_tokens=False).ids


@given(TEXTS)
def test_exact_tokens_spell_the_text_as_it_is(both: tuple[Tokenizer, Any], text: str) -> None:
    ours, library = both
    spelled = text if "\u0120" in library.get_vocab() else text.replace(SPACE, " ")
    assert ours.bytes_of(ours.encode_exactly(text)) == spelled.encode()


@pytest.mark.parametrize("kind", ["composed", "a space before each section", "a space before the first"])
def test_a_file_alone_tells_the_tokens_of_a_text_as_it_is(tmp_path: Path, kind: str) -> None:
    put(tmp_path / "tokenizer.json", KINDS[kind] | {"added_tokens": [
        {**entry, "content": "</s>" if entry["content"] == "<|im_end|>" else entry["content"]}
        for entry in KINDS[kind]["added_tokens"]]} | _with_end(KINDS[kind]))
    words = read_tokenizer_file(tmp_path / "tokenizer.json")
    for text in ("e\u0301", "a b", " a"):
        assert b"".join(words.tokens[token] for token in words.encode(text)) == text.encode()


def _with_end(tokenizer: dict[str, Any]) -> dict[str, Any]:
    vocab = {"</s>" if word == "<|im_end|>" else word: token for word, token in tokenizer["model"]["vocab"].items()}
    return {"model": {**tokenizer["model"], "vocab": vocab}}


def test_a_gguf_file_of_qwen_composes_and_cuts_as_its_tokenizer_json(tmp_path: Path) -> None:
    cut = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
    steps = [{"type": "Split", "pattern": {"Regex": cut}, "behavior": "Isolated", "invert": False},
             {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]
    stated = tokenizer_json(normalizer={"type": "NFC"}, pre_tokenizer={"type": "Sequence", "pretokenizers": steps})
    library = tokenizers.Tokenizer.from_str(json.dumps(stated))
    ours = Tokenizer(open_model(gguf_file(tmp_path / "m.gguf", weights(), "qwen2", "qwen2")).vocabulary())
    for text in ("hello 2026", "e\u0301 hello's\n\n", "\u1100\u1161  im", ">\u0338"):
        assert ours.encode(text) == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize(("kind", "begun", "place", "spelled"), [
    ("a space before each section", "", "start", " a"), ("a space before each section", "<|im_end|>", "section", " a"),
    ("a space before each section", "b", "middle", "a"), ("a space before the first", "", "start", " a"),
    ("a space before the first", "<|im_end|>", "section", "a"), ("a space before the first", "b", "middle", "a"),
])
def test_a_text_behind_tokens_is_spaced_by_what_stands_there(
    tmp_path: Path, kind: str, begun: str, place: Place, spelled: str
) -> None:
    words = _words(tmp_path, kind)
    branch = BranchState(words)
    branch.append_ids([words.specials[begun]] if begun in words.specials else words.encode_exactly(begun))
    assert words.bytes_of(branch.encode_next("a")) == spelled.encode()
    assert branch.encode_next("a") == words.encode("a", place)
    branch.append_text("a")
    assert words.bytes_of(branch.all_tokens()).endswith(spelled.encode())


def test_a_literal_goes_on_behind_an_answer_that_was_cut(tmp_path: Path) -> None:
    words = _words(tmp_path, "a space before each section")
    branch = BranchState(words)
    branch.append_parts([words.specials["<|im_start|>"]])
    branch.flush()
    branch.take_answer(Cut((), (), "", "a"))
    branch.append_text("b")
    assert words.bytes_of(branch.all_tokens()) == b"ab"


def _words(path: Path, kind: str) -> Tokenizer:
    put(path / "config.json", {**STATED, "vocab_size": 400})
    put(path / "tokenizer.json", KINDS[kind])
    put(path / "tokenizer_config.json", {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"})
    return Tokenizer(open_model(path).vocabulary())


@esp.function
def _quoted(s: esp.State) -> tuple[str, str]:
    s += "cafe\u0301: "
    s += esp.gen("one", regex="cafe\u0301", max_tokens=16, temperature=0)
    s += esp.gen("other", choices=["e\u0301", "\u00e9t"], max_tokens=16, temperature=0)
    return s["one"], s["other"]


def test_forced_text_and_answers_are_not_composed(tmp_path: Path) -> None:
    """Law 5: what the grammar asks for is spelled as it stands; only the prompt is composed."""
    path = folder(tmp_path, weights(), tokenizer=KINDS["composed"])
    with esp.local(path, config=tiny_config()) as model:
        run = _quoted.run(backend=model)
        assert run.result[0] == "cafe\u0301"
        assert run.result[1] in ("e\u0301", "\u00e9t")
        assert run.usage.forced >= len("cafe\u0301") - 1
        assert model.encode("e\u0301") == model.encode(unicodedata.normalize("NFC", "e\u0301"))
