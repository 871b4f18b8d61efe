from __future__ import annotations

import itertools
import re
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.grammars.errors import MissingByte
from espalier.runtime.detokenizer import Detokenizer
from espalier.runtime.errors import EspalierError, InvalidParameter, PromptTooLong, TokenizerError, WeightsError
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.gguf_cursor import Value
from espalier.runtime.pretokenizers import PRE_TOKENIZERS
from espalier.runtime.tokenizer import Tokenizer

from .vocabularies import MERGES, SPECIALS, byte_letters, metadata, small_tokenizer, tokens

LETTERS = byte_letters()
SMALL = small_tokenizer()
SPELLED = st.lists(st.sampled_from(
    ["hello", " hello", "he", "l", "\n", "  ", "1", "42", "'s", "_", "é", "世", "😀", "\0", *SPECIALS, "<|im_", "end|>"]
)).map("".join)


def naive_bpe(text: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """Digits alone, then GPT-2's cut, then the merge of lowest rank until none is left. ASCII only."""
    cut = r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
    found: list[str] = []
    for run in re.findall(r"[0-9]|[^0-9]+", text):
        for word in re.findall(cut, run):
            pieces = [LETTERS[byte] for byte in word.encode()]
            while pairs := [pair for pair in itertools.pairwise(pieces) if pair in ranks]:
                best = min(pairs, key=ranks.__getitem__)
                merged: list[str] = []
                while pieces:
                    step = 2 if tuple(pieces[:2]) == best else 1
                    merged.append("".join(pieces[:step]))
                    pieces = pieces[step:]
                pieces = merged
            found += pieces
    return found


@given(st.text(alphabet="hello \n\t'st42<|im_end>!x", max_size=40))
@settings(max_examples=200, deadline=None)
def test_encoding_is_plain_byte_pair_merging(text: str) -> None:
    ranks = {tuple(merge.split(" ")): n for n, merge in enumerate(MERGES)}
    texts = tokens()
    assert [texts[token] for token in SMALL.encode(text)] == naive_bpe(text, ranks)  # type: ignore[arg-type]


@given(st.one_of(SPELLED, st.text()))
@settings(max_examples=200, deadline=None)
def test_decoding_gives_the_text_back_and_no_text_gives_a_special_id(text: str) -> None:
    ids = SMALL.encode(text)
    assert SMALL.decode(ids) == text
    assert not SMALL.special_ids & set(ids)


@given(SPELLED)
@settings(max_examples=100, deadline=None)
def test_template_text_is_its_parts_and_specials_in_it_are_ids(text: str) -> None:
    parts = SMALL.parts(text)
    names = {token: name for name, token in SMALL.specials.items()}
    assert "".join(names[part] if isinstance(part, int) else part for part in parts) == text
    assert not any(name in part for part in parts if isinstance(part, str) for name in SPECIALS)
    assert SMALL.encode_template(text) == SMALL.encode_parts(parts)


def test_the_longest_special_at_a_place_wins() -> None:
    texts = [*SPECIALS[:3], "<s>", "<s>x", *tokens()[4:]]
    tokenizer = Tokenizer.from_gguf(metadata(texts, types=[3] * 5 + [1] * (len(texts) - 5)))
    assert tokenizer.parts("a<s>x<s>y") == ("a", 4, 3, "y")


def test_texts_in_a_row_are_encoded_as_one() -> None:
    assert SMALL.encode_parts(["he", "llo", 1, "\n", "\n"]) == [*SMALL.encode("hello"), 1, *SMALL.encode("\n\n")]


def test_user_defined_tokens_are_found_in_any_text() -> None:
    user = ("<tool>", "->")
    texts = tokens(user=user)
    tokenizer = Tokenizer.from_gguf(metadata(texts, user=user))
    ids = tokenizer.encode("hello-><tool>é")
    assert [texts.index("->"), texts.index("<tool>")] == ids[1:3]
    assert tokenizer.decode(ids) == "hello-><tool>é"
    assert not tokenizer.special_ids & set(ids)


@pytest.mark.parametrize(("text", "where"), [
    ("\x04", "byte 0 of the text"), ("hello \x04", "byte 6 of the text"), ("é\x04\xe9", "byte 2 of the text"),
])
def test_text_that_needs_a_missing_byte_is_refused_with_byte_and_offset(text: str, where: str) -> None:
    tokenizer = Tokenizer.from_gguf(metadata(tokens(missing=[4])))
    with pytest.raises(MissingByte, match="0x04") as caught:
        tokenizer.encode(text)
    assert caught.value.where == where


def test_a_byte_of_a_wide_character_can_be_missing() -> None:
    tokenizer = Tokenizer.from_gguf(metadata(tokens(missing=[0x98])))
    with pytest.raises(MissingByte, match="0x98") as caught:
        tokenizer.encode("a😀")
    assert caught.value.where == "byte 3 of the text"


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    for read in (SMALL.encode, SMALL.encode_template):
        with pytest.raises(InvalidParameter) as caught:
            read("ab\ud800")
        assert caught.value.where == "character 2"


@pytest.mark.parametrize("token", [-1, 10**9])
def test_an_id_outside_of_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(InvalidParameter) as caught:
        SMALL.decode([5, token])
    assert caught.value.where == "ids/1"


def test_the_stop_set_is_end_of_sequence_turn_and_message() -> None:
    file = metadata(tokens(), ids={"bos": 0, "eos": 1, "eot": 2, "eom": 3})
    tokenizer = Tokenizer.from_gguf(file)
    assert (tokenizer.stop_ids, tokenizer.bos_id, tokenizer.special_ids) == ({1, 2, 3}, 0, {0, 1, 2, 3})
    assert Tokenizer.from_gguf(metadata(tokens(), ids={"eot": 2})).stop_ids == {2}


@pytest.mark.parametrize(("pre", "flags", "prefix"), [
    ("smollm", {}, ()), ("smollm", {"add_bos_token": True}, (0,)), ("llama-bpe", {}, (0,)),
    ("llama-bpe", {"add_bos_token": False}, ()), ("gpt-2", {}, ()),
])
def test_a_prompt_begins_as_the_file_says_or_as_its_kind_does(
    pre: str, flags: dict[str, bool], prefix: tuple[int, ...]
) -> None:
    tokenizer = Tokenizer.from_gguf(metadata(tokens(), pre=pre, ids={"bos": 0, "eos": 1}, flags=flags))
    assert tokenizer.prefix == prefix
    assert tokenizer.add_bos == bool(prefix)
    assert tokenizer.encode("hello")[0] != 0


def test_special_and_unused_ids_have_no_bytes() -> None:
    texts = [*tokens(), "[UNUSED]"]
    types = [3] * 4 + [1] * (len(texts) - 5) + [5]
    tokenizer = Tokenizer.from_gguf(metadata(texts, types=types))
    assert [i for i, token in enumerate(tokenizer.token_bytes) if not token] == [0, 1, 2, 3, len(texts) - 1]
    assert tokenizer.vocab_size == len(texts)
    assert sorted(token[0] for token in tokenizer.token_bytes if len(token) == 1) == list(range(256))


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "other model": ({"model": "llama"}, "tokenizer.ggml.model"),
    "unknown cut": ({"pre": "tekken"}, "tokenizer.ggml.pre"),
    "no tokens": ({"texts": []}, "tokenizer.ggml.tokens"),
    "a token twice": ({"texts": [*tokens(), "hello"]}, "tokenizer.ggml.tokens"),
    "fewer types": ({"types": [1]}, "tokenizer.ggml.token_type"),
    "a byte type": ({"types": [6] * len(tokens())}, "tokenizer.ggml.token_type"),
    "eos outside": ({"ids": {"eos": 10**6}}, "tokenizer.ggml.eos_token_id"),
    "a merge of three": ({"merges": ["h e", "l l o"]}, "tokenizer.ggml.merges/1"),
    "a merge of one": ({"merges": ["h "]}, "tokenizer.ggml.merges/0"),
    "a merge to no token": ({"merges": ["q q"]}, "tokenizer.ggml.merges"),
    "a merge that makes a special": ({"merges": ["< s", "<s >"], "texts": [*tokens(), "<s"]}, "tokenizer.ggml.merges"),
    "outside of the alphabet": ({"texts": [*tokens(), "世"]}, f"tokenizer.ggml.tokens/{len(tokens())}"),
    "a byte that spells no byte": ({"texts": [*tokens(), "a b"]}, f"tokenizer.ggml.tokens/{len(tokens())}"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_vocabulary_is_refused_with_its_place(case: str) -> None:
    changes, where = BROKEN[case]
    file = metadata(**({"texts": tokens()} | changes))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.from_gguf(file)
    assert caught.value.where == where


ODD_VALUES: list[Value] = [
    "text", "", ("a", "b"), (), True, -1, 2**63, 0.5, float("nan"), np.zeros(0, np.int32), np.array([1, 2]),
    np.array([0.5]), np.array([True, False]), np.array([3] * len(tokens())), np.array([-1] * len(tokens())),
]


def test_any_value_of_any_key_is_read_or_refused_with_its_place() -> None:
    file = metadata(tokens(), ids={"bos": 0, "eos": 1, "eot": 2, "eom": 3}, flags={"add_bos_token": True})
    whole, refused = file.metadata, 0
    for key in whole:
        for value in ODD_VALUES:
            file.metadata = {**whole, key: value}
            refused += _refused(file)
    assert refused > 100


def _refused(file: GGUFFile) -> bool:
    try:
        Tokenizer.from_gguf(file)
    except (TokenizerError, WeightsError) as error:
        return bool(error.where)
    return False


def test_a_file_without_a_tokenizer_names_the_missing_key() -> None:
    with pytest.raises(EspalierError) as caught:
        Tokenizer.from_gguf(GGUFFile(b"GGUF\x03\0\0\0" + bytes(16)))
    assert caught.value.where == "tokenizer.ggml.model"


@pytest.mark.parametrize(("pre", "text", "words"), [
    ("gpt-2", "I'll pay 12345\n\n  now", ["I", "'ll", " pay", " 12345", "\n\n ", " now"]),
    ("smollm", "I'll pay 123\n\n  now", ["I", "'ll", " pay", " ", "1", "2", "3", "\n\n ", " now"]),
    ("llama-bpe", "I'LL pay 12345\n\n  now!\n", ["I", "'LL", " pay", " ", "123", "45", "\n\n", " ", " now", "!\n"]),
])
def test_text_is_cut_as_the_kind_says(pre: str, text: str, words: list[str]) -> None:
    cut = PRE_TOKENIZERS[pre].build().pre_tokenize_str(text)
    assert [word for word, _ in cut] == ["".join(LETTERS[byte] for byte in word.encode()) for word in words]


def test_a_whole_word_may_skip_the_merges_only_where_the_kind_says() -> None:
    texts = [*tokens(), "world"]
    whole = Tokenizer.from_gguf(metadata(texts, pre="llama-bpe")).encode("world")
    merged = Tokenizer.from_gguf(metadata(texts, pre="gpt-2")).encode("world")
    assert (len(whole), len(merged)) == (1, 5)


@given(st.one_of(st.lists(st.binary(max_size=4), max_size=20), st.text().map(
    lambda text: [bytes([byte]) for byte in text.encode()])))
@settings(max_examples=300, deadline=None)
def test_a_stream_gives_what_decoding_at_once_gives(pieces: list[bytes]) -> None:
    stream = Detokenizer(pieces)
    steps: list[str] = []
    for token in range(len(pieces)):
        steps.append(stream.push(token))
        stream = stream.copy()
    assert "".join(steps) + stream.finish() == b"".join(pieces).decode(errors="replace")


def test_a_stream_gives_whole_characters_only() -> None:
    table = [b"", "é".encode()[:1], "é".encode()[1:], b"\xf0\x9f\x98", b"a"]
    stream = Detokenizer(table)
    assert [stream.push(token) for token in (1, 0, 2, 3)] == ["", "", "é", ""]
    assert stream.pending == b"\xf0\x9f\x98"
    twin = stream.copy()
    assert (stream.push(4), stream.finish()) == ("�a", "")
    assert (twin.finish(), twin.finish(), twin.push(4)) == ("�", "", "a")


@pytest.mark.model
@pytest.mark.parametrize(("text", "ids"), [
    ("a  1", [81, 256, 33]), ("x\n 5", [104, 3805, 37]), (" \n7", [3717, 39]), ("abc\n\n  def", [25276, 8866, 753]),
    ("", []),
])
def test_the_small_model_tokenizes_spaces_before_digits_as_it_was_trained(
    smollm2_tokenizer: Tokenizer, text: str, ids: list[int]
) -> None:
    assert smollm2_tokenizer.encode(text) == ids


@pytest.mark.model
def test_the_small_model_tokenizes_the_reference_prompts(
    smollm2_tokenizer: Tokenizer, reference: dict[str, Any]
) -> None:
    raw = [result for result in reference["results"] if result["kind"] == "raw"]
    assert len(raw) == 5
    for result in raw:
        assert smollm2_tokenizer.encode(result["prompt"]) == result["prompt_ids"]


@pytest.mark.model
def test_the_small_model_lacks_21_bytes_and_has_17_specials(smollm2_tokenizer: Tokenizer) -> None:
    single = {token[0] for token in smollm2_tokenizer.token_bytes if len(token) == 1}
    assert sorted(set(range(256)) - single) == [
        0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)]
    assert smollm2_tokenizer.special_ids == set(range(17))
    assert (smollm2_tokenizer.stop_ids, smollm2_tokenizer.prefix) == ({2}, ())


@pytest.mark.model
@given(st.one_of(st.text(), SPELLED, st.text(alphabet=" \n\t0123abc.,'<|>_im_startend")))
@settings(max_examples=200, deadline=None)
def test_the_small_model_gives_any_text_back_or_names_the_missing_byte(
    smollm2_tokenizer: Tokenizer, text: str
) -> None:
    single = {token[0] for token in smollm2_tokenizer.token_bytes if len(token) == 1}
    missing = [byte for byte in text.encode() if byte not in single]
    if missing:
        with pytest.raises(MissingByte, match=f"0x{missing[0]:02X}"):
            smollm2_tokenizer.encode(text)
        return
    ids = smollm2_tokenizer.encode(text)
    assert smollm2_tokenizer.decode(ids) == text
    assert not smollm2_tokenizer.special_ids & set(ids)


@pytest.mark.model
def test_every_special_string_of_the_small_model_stays_text(smollm2_tokenizer: Tokenizer) -> None:
    for special, token in smollm2_tokenizer.specials.items():
        ids = smollm2_tokenizer.encode(f"a{special}b")
        assert token not in ids
        assert smollm2_tokenizer.decode(ids) == f"a{special}b"
        assert smollm2_tokenizer.encode_template(special) == [token]


def test_a_long_text_has_the_tokens_of_a_short_one() -> None:
    long = "hello it's 42 世 " * 1000
    assert SMALL.encode(long) == SMALL._encoder.encode(long, add_special_tokens=False).ids


def test_other_threads_go_on_while_a_long_text_is_encoded() -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    SMALL.encode("1" * 400_000)
    done.set()
    thread.join()
    assert ticks > 10


@given(st.lists(st.sampled_from(["hello", " ", "1", "世界", "😀"]), max_size=60), st.integers(1, 40))
def test_a_prompt_that_is_refused_unread_would_pass_the_context(texts: list[str], context: int) -> None:
    bounded = small_tokenizer(context=context)
    try:
        assert bounded.encode_parts(texts) == SMALL.encode_parts(texts)
    except PromptTooLong:
        assert len(SMALL.encode_parts(texts)) > context
    assert bounded.encode("".join(texts)) == SMALL.encode("".join(texts))


def test_megabytes_for_a_small_context_are_refused_unread() -> None:
    with pytest.raises(PromptTooLong, match="4000000 characters of prompt are more than 100 tokens"):
        small_tokenizer(context=100).encode_parts(["1" * 4_000_000])
