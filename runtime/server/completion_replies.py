"""The bodies and the stream of text completions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from ..branch import Answer, Chunk
from ..messages import Usage
from .chunks import DONE, event
from .completion_text import CompletionLogprobs, CompletionText
from .replies import CompletionUsage, FinishReason, finish_of, usage_of


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

    def __init__(self, model: str, texts: Sequence[CompletionText], *, usage: bool) -> None:
        self._id = fresh_completion_id()
        self._created = int(time.time())
        self._model = model
        self._texts = texts
        self._headed = [False] * len(texts)
        self._usage = usage

    def text(self, choice: int, chunk: Chunk) -> list[bytes]:
        head = self._head(choice)
        text, logprobs = self._texts[choice].part(chunk.text, chunk.tokens, chunk.logprobs)
        told = [CompletionChoice(choice, text, None, logprobs)] if text or logprobs else []
        return [*head, *map(self._chunk, told)]

    def end(self, choice: int, answer: Answer) -> list[bytes]:
        head = self._head(choice)
        text, logprobs = self._texts[choice].rest(answer)
        return [*head, self._chunk(CompletionChoice(choice, text, finish_of(answer), logprobs))]

    def done(self, usage: Usage) -> list[bytes]:
        if not self._usage:
            return [DONE]
        return [event(Completion(self._id, self._created, self._model, (), usage_of(usage))), DONE]

    def _head(self, choice: int) -> list[bytes]:
        if self._headed[choice]:
            return []
        self._headed[choice] = True
        text, logprobs = self._texts[choice].head()
        return [self._chunk(CompletionChoice(choice, text, None, logprobs))] if text or logprobs else []

    def _chunk(self, choice: CompletionChoice) -> bytes:
        usage = None if self._usage else UNSET
        return event(Completion(self._id, self._created, self._model, (choice,), usage))
