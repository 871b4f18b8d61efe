"""The answers to one prompt: as many as were asked for, generated at once, the prompt computed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

from msgspec import structs

from ..branch import Answer, Chunk
from ..messages import Usage
from .asking import Question
from .contract import ChatRuntime, ChatSession, Generation
from .gate import Gate


@dataclass(frozen=True, slots=True)
class Choices:
    """prompt: the usage of what they have in common; None: the only one tells it."""

    generations: Sequence[Generation]
    prompt: Usage | None = None

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
        """Of all together, once they are complete: the prompt counts once."""
        parts = [answer.usage for answer in self.answers]
        whole = parts[0] if self.prompt is None else self.prompt
        return structs.replace(whole, generated=sum(part.generated for part in parts))


@asynccontextmanager
async def answering(runtime: ChatRuntime, gate: Gate, question: Question) -> AsyncIterator[Choices]:
    """Whatever way the scope is left, the session is closed and its memory is free."""
    with gate.enter(question.choices):
        session = runtime.session()
        try:
            choices = await _begun(runtime, session, question)
            try:
                yield choices
            finally:
                await asyncio.gather(*(generation.aclose() for generation in choices.generations))
        finally:
            session.close()


async def _begun(runtime: ChatRuntime, session: ChatSession, question: Question) -> Choices:
    branch = session.branch()
    await asyncio.to_thread(question.prompt, session, branch)  # renders a template: not on the loop
    specs = question.specs(session.length(branch), runtime.context)
    if len(specs) == 1:
        return Choices([session.generate(branch, specs[0])])
    prompt = await session.prefill(branch)
    branches = session.fork(branch, len(specs))
    return Choices([session.generate(*pair) for pair in zip(branches, specs, strict=True)], prompt)


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
