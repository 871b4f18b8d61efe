"""The answers to a request: as many of each prompt as were asked for, generated at once, a prompt computed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace

from ..branch import Answer, BranchId, Chunk, GenerateSpec
from ..errors import PromptTooLong
from ..messages import TokenLogprob, Usage
from .asking import Prompt, Question
from .contract import ChatRuntime, ChatSession, Generation
from .gate import Gate


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt. usage: of what its choices have in common; None: the only one tells it. tokens, scores: of a prompt
    that is echoed, and the scores of all its tokens but the first. opened: it ends inside of thoughts."""

    usage: Usage | None = None
    tokens: tuple[int, ...] = ()
    scores: tuple[TokenLogprob, ...] = ()
    opened: bool = False


class Silence:
    """A generation of no tokens."""

    def __init__(self, prompt: Usage) -> None:
        self.answer = Answer("", (), "length", prompt)

    def __aiter__(self) -> Silence:
        return self

    async def __anext__(self) -> Chunk:
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Nothing runs."""


@dataclass(frozen=True, slots=True)
class Choices:
    """generations: those of each prompt one after the other, as many for each."""

    generations: Sequence[Generation]
    prompts: Sequence[Asked]

    async def chunks(self) -> AsyncGenerator[tuple[int, Chunk | None], None]:
        """(which choice, its next chunk or None when it is complete), as they come. The first failure ends all."""
        if len(self.generations) == 1:
            async for chunk in self.generations[0]:
                yield 0, chunk
            yield 0, None
            return
        async with aclosing(_merged(self.generations)) as merged:
            async for found in merged:
                yield found

    def answer(self, choice: int) -> Answer:
        """Once it is complete."""
        return self.generations[choice].answer

    @property
    def answers(self) -> list[Answer]:
        """Once all are complete."""
        return [generation.answer for generation in self.generations]

    def usage(self) -> Usage:
        """Of all together, once they are complete: a prompt counts once."""
        parts = [answer.usage for answer in self.answers]
        each = len(parts) // len(self.prompts)
        heads = [asked.usage or parts[at * each] for at, asked in enumerate(self.prompts)]
        return Usage(
            prompt=sum(head.prompt for head in heads), cached=sum(head.cached for head in heads),
            generated=sum(part.generated for part in parts), thoughts=sum(part.thoughts for part in parts),
        )


@asynccontextmanager
async def answering(runtime: ChatRuntime, gate: Gate, question: Question) -> AsyncIterator[Choices]:
    """Whatever way the scope is left, the session is closed and its memory is free."""
    with gate.enter(question.choices):
        session = runtime.session(question.form.cache_salt or "")
        try:
            choices = await _begun(runtime, session, question)
            try:
                yield choices
            finally:
                await asyncio.gather(*(generation.aclose() for generation in choices.generations))
        finally:
            session.close()


async def _begun(runtime: ChatRuntime, session: ChatSession, question: Question) -> Choices:
    generations: list[Generation] = []
    prompts: list[Asked] = []
    for prompt in question.prompts:
        branch = session.branch()
        await asyncio.to_thread(_append, prompt, session, branch, question)  # renders and encodes: not on the loop
        opened = question.thinking is not None and session.thinks(branch, question.think_first)
        specs = question.specs(session.length(branch), runtime.context, opened)
        asked, own = await _asked(session, branch, question, specs)
        prompts.append(replace(asked, opened=opened))
        generations += own
    return Choices(generations, prompts)


def _append(prompt: Prompt, session: ChatSession, branch: BranchId, question: Question) -> None:
    try:
        prompt(session, branch)
    except PromptTooLong as error:
        raise PromptTooLong(error.message, where=question.where, fix=f"Shorten the {question.where}.") from error


async def _asked(session: ChatSession, branch: BranchId, question: Question, specs: Sequence[GenerateSpec]
                 ) -> tuple[Asked, list[Generation]]:
    """One prompt, and the generations that go on from it."""
    tokens = tuple(session.tokens(branch)) if question.echo else ()
    scores: tuple[TokenLogprob, ...] = ()
    usage: Usage | None = None
    if question.echo and question.logprobs is not None:
        scores = await session.score(branch, question.logprobs)
        usage = Usage(prompt=len(tokens))  # what is scored is computed whole
    elif len(specs) != 1:
        usage = await session.prefill(branch)
    if usage is not None and not specs:
        silent: list[Generation] = [Silence(usage) for _ in range(question.form.n or 1)]
        return Asked(usage, tokens, scores), silent
    branches = [branch] if len(specs) == 1 else session.fork(branch, len(specs))
    begun = [session.generate(*pair) for pair in zip(branches, specs, strict=True)]
    return Asked(usage, tokens, scores), begun


async def _merged(generations: Sequence[Generation]) -> AsyncGenerator[tuple[int, Chunk | None], None]:
    found: asyncio.Queue[tuple[int, Chunk | None]] = asyncio.Queue()

    async def read(choice: int, generation: Generation) -> None:
        try:
            async for chunk in generation:
                found.put_nowait((choice, chunk))
        finally:
            found.put_nowait((choice, None))

    readers = [asyncio.ensure_future(read(*pair)) for pair in enumerate(generations)]
    try:
        left = len(readers)
        while left:
            choice, chunk = await found.get()
            if chunk is None:
                left -= 1
                await readers[choice]  # raises what it failed of
            yield choice, chunk
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
