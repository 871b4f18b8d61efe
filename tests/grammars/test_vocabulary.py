"""The trie holds exactly the text tokens, in order; special and stop ids are never text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.grammars.binding.trie import build_trie, find_node
from espalier.grammars.vocabulary import Vocabulary


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=40))
def test_walking_the_trie_spells_every_token_once(tokens):
    vocabulary = Vocabulary([*tokens, b"x"], special=(), stop=(), encode=lambda text: [])
    trie, path, found = vocabulary.trie, b"", {}
    for i in range(len(trie.byte)):
        path = path[: trie.depth[i] - 1] + bytes([trie.byte[i]])
        inside = trie.depth[i + 1: i + trie.size[i]]
        assert (inside > trie.depth[i]).all()
        after = i + trie.size[i]
        assert after == len(trie.byte) or trie.depth[after] <= trie.depth[i]
        token = trie.token[i]
        while token >= 0:
            found[int(token)] = path
            token = trie.twin[token]
        text = np.frombuffer(path, np.uint8).copy()
        assert find_node(trie, text, 0, len(path)) == i
    assert found == {i: t for i, t in enumerate([*tokens, b"x"]) if t}


def test_a_text_that_no_token_begins_with_has_no_node():
    trie = build_trie([b"ab", b"b"], [0, 1], 2)
    for text in (b"c", b"abc", b"ba", b"aa"):
        assert find_node(trie, np.frombuffer(text, np.uint8).copy(), 0, len(text)) == -1


def test_special_and_stop_ids_are_not_text_whatever_their_bytes():
    vocabulary = Vocabulary([b"a", b"<s>", b"</s>", b""], special=(1,), stop=(2,), encode=lambda text: [])
    assert vocabulary.text_ids == (0,)
    assert [vocabulary.is_text(i) for i in range(-1, 5)] == [False, True, False, False, False, False]
    assert vocabulary.stop_words.tolist() == [4]


@pytest.mark.parametrize("wrong", [{"special": (9,), "stop": ()}, {"special": (), "stop": (-1,)}])
def test_ids_outside_the_vocabulary_are_refused(wrong):
    with pytest.raises(ValueError, match="outside"):
        Vocabulary([b"a"], encode=lambda text: [], **wrong)


def test_the_width_of_the_logits_may_exceed_the_tokens_but_not_fall_short():
    assert Vocabulary([b"a"], special=(), stop=(), encode=lambda text: [], size=65).words == 3
    with pytest.raises(ValueError, match="below"):
        Vocabulary([b"a", b"b"], special=(), stop=(), encode=lambda text: [], size=1)


def test_the_byte_vocabulary_has_every_byte_and_one_stop_id():
    vocabulary = Vocabulary.bytes_only()
    assert vocabulary.single.all()
    assert vocabulary.stop == (256,)
    assert vocabulary.encode("é") == [0xC3, 0xA9]
