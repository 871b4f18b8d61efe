"""Fixtures of the grammar tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.grammars.vocabulary import Vocabulary

_PLACES = (Path(__file__).parent.parent / "data",)


@pytest.fixture(scope="session")
def smollm2() -> Vocabulary:
    """A real byte-level BPE vocabulary of 49,152 ids; skips when its tokenizer file is absent."""
    tokenizers = pytest.importorskip("tokenizers")
    paths = [place / "smollm2_tokenizer.json" for place in _PLACES]
    path = next((p for p in paths if p.exists()), None)
    if path is None:
        pytest.skip("the tokenizer file is absent")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    return vocabulary_of(tokenizer)


def vocabulary_of(tokenizer) -> Vocabulary:
    """The vocabulary of a byte-level BPE tokenizer."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in printable}
    letters |= {chr(256 + k): b for k, b in enumerate(b for b in range(256) if b not in printable)}
    special = {i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    tokens = [b""] * tokenizer.get_vocab_size()
    for text, i in tokenizer.get_vocab().items():
        tokens[i] = b"" if i in special else bytes(letters[c] for c in text)
    return Vocabulary(tokens, special=special, stop=[0, 2],
                      encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
