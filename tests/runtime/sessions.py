"""Runtimes over a scripted model, and how the tests read their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from espalier.grammars.constraint import Choices, Constraint
from espalier.grammars.errors import InvalidConstraint
from espalier.runtime.branch import Answer, Chunk, GenerateSpec, Text
from espalier.runtime.config import EngineConfig
from espalier.runtime.generation import Generation
from espalier.runtime.runtime import Runtime
from espalier.runtime.session import Session
from tests.fakes import ByteTokenizer, ScriptedModel, scripted_runtime
from tests.runtime.set_grammar import encode_texts, set_constraints

GREEDY = GenerateSpec(max_tokens=60, temperature=0.0)


def greedy(max_tokens: int = 60, *, stop: tuple[str, ...] = (), constraint: Constraint | None = None,
           logprobs: int | None = None) -> GenerateSpec:
    return GenerateSpec(max_tokens=max_tokens, temperature=0.0, stop=stop, constraint=constraint, logprobs=logprobs)


@contextmanager
def opened(scripts: Mapping[str, str | Sequence[int]], words: Sequence[str] = (), *, context: int = 1 << 20,
           config: EngineConfig | None = None, missing: Sequence[int] = ()) -> Iterator[Runtime]:
    tokenizer = ByteTokenizer(words, missing=missing)

    def compile(constraint: Constraint) -> bytes:
        if not isinstance(constraint, Choices):
            raise InvalidConstraint("only choices here", where="/")
        return encode_texts(tokenizer.encode(option) for option in constraint.options)

    runtime = scripted_runtime(
        ScriptedModel(tokenizer, scripts), tokenizer, config, context=context, compile=compile,
        constraints=set_constraints(tokenizer.vocab_size, tokenizer.end),
    )
    try:
        yield runtime
    finally:
        runtime.close()


async def read(generation: Generation) -> tuple[list[Chunk], Answer]:
    chunks = [chunk async for chunk in generation]
    return chunks, generation.answer


def tokenizer_of(runtime: Runtime) -> ByteTokenizer:
    assert isinstance(runtime.tokenizer, ByteTokenizer)
    return runtime.tokenizer


async def answer(session: Session, branch: int, spec: GenerateSpec = GREEDY) -> Answer:
    return (await read(session.generate(branch, spec)))[1]


async def one_answer(
    runtime: Runtime, prompt: str, spec: GenerateSpec
) -> tuple[list[Chunk], Answer, str, Session, int]:
    session = runtime.session()
    branch = session.branch()
    session.extend(branch, [Text(prompt)])
    chunks, done = await read(session.generate(branch, spec))
    return chunks, done, session.text(branch), session, branch
