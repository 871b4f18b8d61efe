"""The bodies of /v1: what the client's types expect, field by field."""

from __future__ import annotations

import uuid
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..branch import Answer
from ..messages import Usage
from .logprobs import ChoiceLogprobs

FinishReason = Literal["stop", "length", "tool_calls"]


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


class AnswerDetails(msgspec.Struct, frozen=True):
    """reasoning_tokens: of the thoughts, with their delimiters."""

    reasoning_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: AnswerDetails


class CalledFunction(msgspec.Struct, frozen=True):
    """arguments: JSON text."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True):
    id: str
    function: CalledFunction
    type: str = "function"


class Message(msgspec.Struct, frozen=True):
    """content: null beside calls that no text stands before. tool_calls: absent when there are none, as is
    reasoning_content."""

    content: str | None
    role: str = "assistant"
    refusal: None = None
    tool_calls: tuple[ToolCall, ...] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    index: int
    message: Message
    finish_reason: FinishReason
    logprobs: ChoiceLogprobs | None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: tuple[Choice, ...]
    usage: CompletionUsage
    object: str = "chat.completion"


class FunctionDelta(msgspec.Struct, frozen=True):
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET


class CallDelta(msgspec.Struct, frozen=True):
    """id, type and name in the first of a call only: clients join all that comes."""

    index: int
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    function: FunctionDelta | UnsetType = UNSET


class Delta(msgspec.Struct, frozen=True):
    role: str | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    tool_calls: tuple[CallDelta, ...] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    index: int
    delta: Delta
    finish_reason: FinishReason | None = None
    logprobs: ChoiceLogprobs | None = None


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


def fresh_call_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def usage_of(usage: Usage) -> CompletionUsage:
    return CompletionUsage(
        usage.prompt, usage.generated, usage.prompt + usage.generated, PromptDetails(usage.cached),
        AnswerDetails(usage.thoughts),
    )


def finish_of(answer: Answer) -> FinishReason:
    """An answer that the budget closed is valid, yet cut: the caller is told 'length'."""
    return "length" if answer.closed else answer.finish
