"""The bodies of /v1/responses: what the client's types expect, field by field."""

from __future__ import annotations

import uuid
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..messages import Usage
from .replies import AnswerDetails

Status = Literal["in_progress", "completed", "incomplete"]


class OutputText(msgspec.Struct, frozen=True):
    text: str
    type: str = "output_text"
    annotations: tuple[None, ...] = ()
    logprobs: tuple[None, ...] = ()


class ReasoningText(msgspec.Struct, frozen=True):
    text: str
    type: str = "reasoning_text"


Part = OutputText | ReasoningText


class OutputMessage(msgspec.Struct, frozen=True):
    id: str
    status: Status
    content: tuple[Part, ...] = ()
    role: str = "assistant"
    type: str = "message"


class Reasoning(msgspec.Struct, frozen=True):
    id: str
    status: Status
    content: tuple[Part, ...] = ()
    summary: tuple[None, ...] = ()
    type: str = "reasoning"


class FunctionCall(msgspec.Struct, frozen=True):
    """arguments: JSON text."""

    id: str
    status: Status
    call_id: str
    name: str
    arguments: str = ""
    type: str = "function_call"


OutputItem = OutputMessage | Reasoning | FunctionCall


class InputDetails(msgspec.Struct, frozen=True):
    """cache_write_tokens: all that was not found in the cache is kept there."""

    cached_tokens: int
    cache_write_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: AnswerDetails
    total_tokens: int


class Incomplete(msgspec.Struct, frozen=True):
    reason: str = "max_output_tokens"


class Response(msgspec.Struct, frozen=True):
    """usage: null until the response is complete. It repeats its request: tools, tool_choice, text, reasoning and
    metadata as they were written."""

    id: str
    created_at: int
    status: Status
    output: tuple[OutputItem, ...]
    model: str
    instructions: str | None
    max_output_tokens: int | None
    temperature: float
    top_p: float
    parallel_tool_calls: bool
    tools: msgspec.Raw
    tool_choice: msgspec.Raw
    text: msgspec.Raw
    reasoning: msgspec.Raw
    metadata: msgspec.Raw
    user: str | None
    usage: ResponseUsage | None = None
    incomplete_details: Incomplete | None = None
    object: str = "response"
    error: None = None
    previous_response_id: None = None
    background: bool = False
    store: bool = False
    truncation: str = "disabled"
    service_tier: str = "default"


class ResponseEvent(msgspec.Struct, frozen=True):
    type: str
    sequence_number: int
    response: Response


class ItemEvent(msgspec.Struct, frozen=True):
    type: str
    sequence_number: int
    output_index: int
    item: OutputItem


class PartEvent(msgspec.Struct, frozen=True):
    type: str
    sequence_number: int
    item_id: str
    output_index: int
    part: Part
    content_index: int = 0


class TextEvent(msgspec.Struct, frozen=True):
    """More of a text (delta) or all of it (text, or arguments with the name of their function); logprobs: absent but
    for the text of a message, whose type asks for them."""

    type: str
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int | UnsetType = UNSET
    delta: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    logprobs: tuple[None, ...] | UnsetType = UNSET


def fresh(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def response_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        usage.prompt, InputDetails(usage.cached, usage.prompt - usage.cached), usage.generated,
        AnswerDetails(usage.thoughts), usage.prompt + usage.generated,
    )
