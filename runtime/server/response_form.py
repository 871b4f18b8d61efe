"""The request of POST /v1/responses: the fields that are served, and nothing beside them.

Nothing is stored between requests: what came before is sent again as input. Items of an earlier output may be sent as
they are.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, FailFast, Field, Tag

from ...grammars.constraint import AnyObject, Content, JsonSchema
from ..errors import InvalidParameter
from .errors import MissingField
from .formats import schema_place, schema_text
from .forms import MOST_TOKENS, Form, FunctionName, Name, Off, SamplingForm, StreamOptions
from .requests import Effort
from .tools import FunctionForm, as_form

ItemId = Annotated[str, Field(min_length=1, max_length=256)]
Status = Literal["in_progress", "completed", "incomplete"]


class PartForm(Form):
    """annotations and logprobs: as in an output; they are not read."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: Annotated[list[object], Field(max_length=0)] | None = None
    logprobs: Annotated[list[object], Field(max_length=0)] | None = None


def _as_parts(value: object) -> object:
    return [{"type": "input_text", "text": value}] if isinstance(value, str) else value


PartList = Annotated[list[PartForm], Field(min_length=1, max_length=1024), BeforeValidator(_as_parts)]


def text_of(parts: list[PartForm]) -> str:
    return "".join(part.text for part in parts)


class MessageItem(Form):
    type: Literal["message"] = "message"
    role: Literal["developer", "system", "user", "assistant"]
    content: PartList
    id: ItemId | None = None
    status: Status | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class CallItem(Form):
    """arguments: the JSON text of an object."""

    type: Literal["function_call"]
    call_id: ItemId
    name: FunctionName
    arguments: str
    id: ItemId | None = None
    status: Status | None = None
    caller: None = None
    namespace: None = None


class ResultItem(Form):
    """Of the call whose call_id it has."""

    type: Literal["function_call_output"]
    call_id: ItemId
    output: PartList
    id: ItemId | None = None
    status: Status | None = None


class ThoughtForm(Form):
    type: Literal["reasoning_text"]
    text: str


class ThoughtsItem(Form):
    """What the message or call behind it was thought of."""

    type: Literal["reasoning"]
    content: Annotated[list[ThoughtForm], Field(max_length=1024)] | None = None
    summary: Annotated[list[object], Field(max_length=0)] | None = None
    id: ItemId | None = None
    status: Status | None = None
    encrypted_content: None = None


def _kind(value: object) -> str:
    """Of an item; a message need not say so."""
    kind = value.get("type", "message") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else "message"


Item = Annotated[
    Annotated[MessageItem, Tag("message")] | Annotated[CallItem, Tag("function_call")]
    | Annotated[ResultItem, Tag("function_call_output")] | Annotated[ThoughtsItem, Tag("reasoning")],
    Discriminator(_kind),
]


def _as_items(value: object) -> object:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class FormatForm(Form):
    """name, schema, description and strict: of json_schema only. strict makes no difference."""

    type: Literal["text", "json_object", "json_schema"]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")] | None = None
    schema_: Annotated[dict[str, object] | None, Field(alias="schema")] = None
    description: str | None = None
    strict: bool | None = None

    def check(self) -> None:
        """Raises MissingField, or InvalidParameter for a member of another type."""
        members: dict[str, object] = {
            "name": self.name, "schema": self.schema_, "description": self.description, "strict": self.strict,
        }
        for name, member in members.items():
            where = f"text.format.{name}"
            if member is None and self.type == "json_schema" and name in ("name", "schema"):
                raise MissingField(f"type json_schema needs its member {name}", where=where)
            if member is not None and self.type != "json_schema":
                raise InvalidParameter(f"type {self.type} takes no {name}", where=where)

    def constraint(self) -> Content | None:
        """None for free text."""
        if self.schema_ is not None:
            return JsonSchema(schema_text(self.schema_))
        return None if self.type == "text" else AnyObject()

    def place(self, where: str) -> str:
        """The path in the body of a place in the constraint."""
        return "text.format" if self.schema_ is None else schema_place("text.format.schema", where)


class TextForm(Form):
    format: FormatForm | None = None
    verbosity: Literal["medium"] | None = None


class FunctionTool(FunctionForm):
    """A function without the layer that a chat has around it."""

    type: Literal["function"]


class NamedTool(Form):
    type: Literal["function"]
    name: FunctionName


class FlatChoice(Form):
    """none, auto and required are written as texts; auto and required are also the modes of allowed_tools."""

    type: Literal["none", "auto", "required", "function", "allowed_tools"]
    name: FunctionName | None = None
    mode_: Annotated[Literal["auto", "required"] | None, Field(alias="mode")] = None
    tools: Annotated[list[NamedTool], Field(min_length=1, max_length=128)] | None = None

    def check(self) -> None:
        """Raises MissingField, or InvalidParameter for a member of another type."""
        members = {"name": ("function", self.name), "mode": ("allowed_tools", self.mode_),
                   "tools": ("allowed_tools", self.tools)}
        for name, (kind, member) in members.items():
            where = f"tool_choice.{name}"
            if kind == self.type and member is None:
                raise MissingField(f"type {kind} needs its member {name}", where=where)
            if kind != self.type and member is not None:
                raise InvalidParameter(f"type {self.type} takes no {name}", where=where)

    @property
    def mode(self) -> str:
        return self.mode_ or ("named" if self.type == "function" else self.type)

    @property
    def names(self) -> dict[str, str]:
        if self.name is not None:
            return {self.name: "tool_choice.name"}
        return {tool.name: f"tool_choice.tools[{at}].name" for at, tool in enumerate(self.tools or ())}


class ReasoningForm(Form):
    """Thoughts are told whole: there is no summary of them."""

    effort: Effort | None = None
    summary: None = None
    generate_summary: None = None


class ResponseStreamOptions(StreamOptions):
    include_usage: None = None


class ResponsesRequest(SamplingForm):
    input: Annotated[list[Item], FailFast(), Field(min_length=1, max_length=4096), BeforeValidator(_as_items)]
    instructions: Annotated[str, Field(max_length=1 << 22)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = None
    text: TextForm | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    tool_choice: Annotated[FlatChoice, BeforeValidator(as_form)] | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningForm | None = None
    stream_options: ResponseStreamOptions | None = None
    # Accepted with the values that change nothing.
    include: Annotated[list[Literal["reasoning.encrypted_content"]], Field(max_length=1)] | None = None
    store: Off | None = None
    background: Off | None = None
    truncation: Literal["disabled"] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=0)] | None = None
    service_tier: Literal["auto", "default"] | None = None
    metadata: Annotated[dict[Annotated[str, Field(max_length=64)], Name], Field(max_length=16)] | None = None
    prompt_cache_key: Name | None = None
    safety_identifier: Name | None = None
    # Known, and refused unless null.
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
    max_tool_calls: None = None
    context_management: None = None
    moderation: None = None
    prompt_cache_options: None = None
    prompt_cache_retention: None = None
    max_tokens: None = None
    n: None = None
