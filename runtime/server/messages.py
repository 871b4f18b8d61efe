"""The messages of a chat request, and the conversation they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ..conversation import Call, Message
from ..errors import InvalidParameter
from .body import parse
from .errors import InvalidBody, MissingField
from .forms import Form, FunctionName


def _as_parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class TextPart(Form):
    type: Literal["text"]
    text: str


class CalledForm(Form):
    """arguments: the JSON text of an object."""

    name: FunctionName
    arguments: str


class CallForm(Form):
    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"]
    function: CalledForm


Parts = Annotated[list[TextPart], Field(min_length=1, max_length=1024), BeforeValidator(_as_parts)]


class ChatMessage(Form):
    role: Literal["developer", "system", "user", "assistant", "tool"]
    content: Parts | None = None
    tool_calls: Annotated[list[CallForm], Field(min_length=1, max_length=128)] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    name: Annotated[str, Field(pattern=r"^[^\s<|\\/>]{1,64}$")] | None = None
    refusal: None = None
    annotations: None = None
    audio: None = None
    function_call: None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content or ())


def conversation(messages: Sequence[ChatMessage]) -> list[Message]:
    """Raises InvalidParameter or MissingField for a message that does not fit its role or what stands before it."""
    calls: dict[str, Call] = {}
    return [_message(message, f"messages[{at}]", calls) for at, message in enumerate(messages)]


def _message(message: ChatMessage, where: str, calls: dict[str, Call]) -> Message:
    """calls: those before it, by their ids; its own join them."""
    _check(message, where)
    own = tuple(_call(call, f"{where}.tool_calls[{at}]") for at, call in enumerate(message.tool_calls or ()))
    calls |= {call.id: call for call in own}
    answers = None
    if message.tool_call_id is not None:
        answers = calls.get(message.tool_call_id)
        if answers is None:
            raise InvalidParameter("no call before this message has the id", where=f"{where}.tool_call_id")
        if message.name is not None and message.name != answers.name:
            raise InvalidParameter("the call that it answers is of another function", where=f"{where}.name")
    role = "system" if message.role == "developer" else message.role
    name = "" if answers is not None or message.name is None else message.name  # the call has the name of a result
    return Message(role, message.text, own, answers, message.reasoning_content or message.reasoning or "", name)


def _check(message: ChatMessage, where: str) -> None:
    if message.content is None and not message.tool_calls:
        if "content" not in message.model_fields_set:
            raise MissingField("the field 'content' is missing", where=f"{where}.content")
        wanted = f"{where}.content: should be a text or a list of text parts, not null"
        raise InvalidParameter(wanted, where=f"{where}.content")
    for name in ("reasoning_content", "reasoning"):
        if getattr(message, name) and message.role != "assistant":
            raise InvalidParameter("only the assistant thinks", where=f"{where}.{name}")
    if message.tool_calls and message.role != "assistant":
        raise InvalidParameter("only the assistant calls tools", where=f"{where}.tool_calls")
    if message.tool_call_id is None and message.role == "tool":
        raise MissingField("the field 'tool_call_id' is missing", where=f"{where}.tool_call_id")
    if message.tool_call_id is not None and message.role != "tool":
        raise InvalidParameter("only the role tool answers a call", where=f"{where}.tool_call_id")


def _call(form: CallForm, where: str) -> Call:
    return called(Call(form.id, form.function.name, form.function.arguments), f"{where}.function.arguments")


def called(call: Call, place: str) -> Call:
    """place: of its arguments. Raises InvalidParameter for what is not the JSON text of an object."""
    try:
        value = parse(call.arguments.encode())
    except InvalidBody as cause:
        message = cause.message.replace("the body", "the text")
        raise InvalidParameter(f"arguments are no JSON: {message}", where=place) from None
    if not isinstance(value, dict):
        raise InvalidParameter("arguments are the JSON text of an object", where=place)
    return call
