from collections.abc import Callable, Iterator

import pytest

import espalier as esp
from espalier.frontend.backends.local import LocalModel
from espalier.frontend.backends.scripted import Answers, ScriptedModel, Totals
from espalier.runtime.config import EngineConfig
from espalier.runtime.loading import bind_grammars, compile_grammar
from tests import fakes

Script = Callable[..., ScriptedModel]


@pytest.fixture
def script() -> Iterator[Script]:
    """Opens scripted models; when the test ends, every branch and session must have been given back."""
    models: list[ScriptedModel] = []

    def opened(answers: Answers = (), scores: Totals | None = None) -> ScriptedModel:
        models.append(esp.scripted(answers, scores))
        return models[-1]

    yield opened
    for model in models:
        model.close()
        assert model.live == {}
        kinds = [operation.kind for operation in model.operations]
        assert kinds.count("open") == kinds.count("close")


@pytest.fixture(scope="module")
def babbling() -> Iterator[LocalModel]:
    """A whole runtime whose model prefers every byte alike, so that only the grammar shapes the answer."""
    tokenizer = fakes.ByteTokenizer()
    config = EngineConfig(page=4, pages=512, step_tokens=64, max_rows=16)
    with LocalModel(fakes.scripted_runtime(
        fakes.ScriptedModel(tokenizer, {}), tokenizer, config,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, config), compile=compile_grammar,
    )) as model:
        yield model
