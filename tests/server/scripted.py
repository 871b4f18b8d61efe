"""The whole runtime over a model that answers each user's text as it was told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from espalier.runtime.compiler import Compile
from espalier.runtime.config import EngineConfig
from espalier.runtime.loading import bind_grammars, compile_grammar
from espalier.runtime.runtime import Runtime
from espalier.runtime.server.settings import Settings

from ..fakes import ByteTokenizer, PlainTemplate, scripted_runtime
from .live import LiveServer, live

CONFIG = EngineConfig(page=4, pages=1024, step_tokens=256, max_rows=8)
WORDS = ("north", " east", " south", " west", "ast so", "<th", "ink>", "...", "漢字", " done", "tick ")


class Obedient:
    """The next token of the answer to the last user's text; the end token where there is none. '...': over and over."""

    def __init__(self, tokenizer: ByteTokenizer, answers: Mapping[str, str]) -> None:
        self._tokenizer = tokenizer
        self._turn = tokenizer.specials["<turn>"]
        self._opening = tokenizer.encode("assistant: ")
        self._answers = {question: tokenizer.encode(answer) for question, answer in answers.items()}

    def __call__(self, prefix: tuple[int, ...]) -> Sequence[float]:
        logits = [0.0] * self._tokenizer.vocab_size
        logits[self._next(prefix)] = 20.0
        return logits

    def _next(self, prefix: tuple[int, ...]) -> int:
        turns = [at for at, token in enumerate(prefix) if token == self._turn]
        if not turns:
            return self._tokenizer.end
        begin = turns[-2] + 1 if len(turns) > 1 else 0
        question = self._tokenizer.decode(prefix[begin : turns[-1]]).removeprefix("user: ")
        said = len(prefix) - turns[-1] - 1 - len(self._opening)
        answer = self._answers.get(question, ())
        if question.endswith("over and over"):
            return answer[said % len(answer)]
        return answer[said] if 0 <= said < len(answer) else self._tokenizer.end


@contextmanager
def scripted_server(
    answers: Mapping[str, str], *, config: EngineConfig = CONFIG, context: int = 4096, settings: Settings | None = None,
    missing: Sequence[int] = (), slow: Callable[[], None] | None = None, compile: Compile = compile_grammar,
    template: Callable[[ByteTokenizer], PlainTemplate] = PlainTemplate,
) -> Iterator[tuple[LiveServer, Runtime]]:
    """slow: called before each token, of weights that are loaded later too."""
    tokenizer = ByteTokenizer(WORDS, missing=missing)

    def paced(model: Obedient) -> Callable[[tuple[int, ...]], Sequence[float]]:
        def answer(prefix: tuple[int, ...]) -> Sequence[float]:
            if slow is not None:
                slow()
            return model(prefix)

        return answer

    runtime = scripted_runtime(
        paced(Obedient(tokenizer, answers)), tokenizer, config,
        constraints=bind_grammars(tokenizer, tokenizer.vocab_size, config), compile=compile, context=context,
        template=template,
        weights=lambda path: paced(Obedient(tokenizer, json.loads(path.read_text()))),
    )
    with closing(runtime), live(runtime, settings) as server:
        yield server, runtime
