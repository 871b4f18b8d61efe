"""Fixtures of the grammar tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.grammars.vocabulary import Vocabulary
from espalier.runtime.gguf import GGUFFile
from espalier.runtime.tokenizer import Tokenizer


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--schemas", action="append", default=[], metavar="FOLDER",
                     help="a folder of schemas with labelled instances (see bench/grammars/coverage.py) whose verdicts "
                          "are held against tests/data/verdicts_<name of the folder>.json; may be given again")


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> Vocabulary:
    """The small real model's vocabulary: byte-level BPE, 49,152 ids."""
    tokenizer = Tokenizer.from_gguf(GGUFFile.open(smollm2_path))
    return Vocabulary(
        tokenizer.token_bytes, special=tokenizer.special_ids, stop=tokenizer.stop_ids, encode=tokenizer.encode_exactly,
    )
