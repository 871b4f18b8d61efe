from collections.abc import Callable, Iterator

import pytest

import espalier as esp
from espalier.frontend.backends.scripted import Answers, ScriptedModel, Totals

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
