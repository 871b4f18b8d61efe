"""The bodies and the stream of text completions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ..branch import Answer, Chunk
from ..messages import Usage
from .completion_text import CompletionLogprobs, CompletionText
from .envelope import Envelope
from .forms import SamplingForm
from .replies import CompletionUsage, FinishReason, finish_of


class CompletionChoice(msgspec.Struct, frozen=True):
    index: int
    text: str
    finish_reason: FinishReason | None = None
    logprobs: CompletionLogprobs | None = None


class Completion(msgspec.Struct, frozen=True):
    """Also each chunk of a stream: usage is then absent unless asked for, and null but in the very last one."""

    id: str
    created: int
    model: str
    choices: tuple[CompletionChoice, ...]
    usage: CompletionUsage | UnsetType | None = UNSET
    object: str = "text_completion"


def fresh_completion_id() -> str:
    return f"cmpl-{uuid.uuid4().hex}"


class CompletionChunks:
    """The chunks of all choices; an echoed prompt comes first in each."""

    def __init__(self, form: SamplingForm, texts: Sequence[CompletionText]) -> None:
        self._envelope = Envelope(Completion, fresh_completion_id(), form)
        self._texts = texts
        self._headed = [False] * len(texts)

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        head = self._head(choice)
        text, logprobs = self._texts[choice].part(chunk.text, chunk.tokens, chunk.logprobs)
        told = [CompletionChoice(choice, text, None, logprobs)] if text or logprobs else []
        return [*head, *map(self._envelope.chunk, told)]

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        head = self._head(choice)
        text, logprobs = self._texts[choice].rest(answer)
        return [*head, self._envelope.chunk(CompletionChoice(choice, text, finish_of(answer), logprobs))]

    def done(self, usage: Usage) -> list[bytes]:
        return self._envelope.done(usage)

    def _head(self, choice: int) -> list[bytes]:
        if self._headed[choice]:
            return []
        self._headed[choice] = True
        text, logprobs = self._texts[choice].head()
        return [self._envelope.chunk(CompletionChoice(choice, text, None, logprobs))] if text or logprobs else []
