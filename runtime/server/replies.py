"""The bodies of /v1: what the client's types expect, field by field."""

from __future__ import annotations

import uuid
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..branch import Answer
from ..messages import Usage

FinishReason = Literal["stop", "length"]


class ModelCard(msgspec.Struct, frozen=True):
    """root and max_model_len are read by load generators."""

    id: str
    created: int
    root: str
    max_model_len: int
    owned_by: str = "espalier"
    object: str = "model"
    parent: str | None = None


class ModelList(msgspec.Struct, frozen=True):
    data: tuple[ModelCard, ...]
    object: str = "list"


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Message(msgspec.Struct, frozen=True):
    content: str
    role: str = "assistant"
    refusal: None = None


class Choice(msgspec.Struct, frozen=True):
    index: int
    message: Message
    finish_reason: FinishReason
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: CompletionUsage
    object: str = "chat.completion"


class Delta(msgspec.Struct, frozen=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: Delta
    finish_reason: FinishReason | None = None
    logprobs: None = None


class ChatChunk(msgspec.Struct, frozen=True):
    """usage: absent unless the caller asked for it; then null, but in the very last chunk."""

    id: str
    created: int
    model: str
    choices: tuple[ChunkChoice, ...]
    usage: CompletionUsage | UnsetType | None = UNSET
    object: str = "chat.completion.chunk"


def fresh_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def usage_of(usage: Usage) -> CompletionUsage:
    return CompletionUsage(
        usage.prompt, usage.generated, usage.prompt + usage.generated, PromptDetails(usage.cached)
    )


def finish_of(answer: Answer) -> FinishReason:
    """An answer that the budget closed is valid, yet cut: the caller is told 'length'."""
    return "length" if answer.closed else answer.finish
