"""What a conversation is made of: messages, the calls of functions in them, and the functions that may be called."""

from __future__ import annotations

import msgspec


class Call(msgspec.Struct, frozen=True):
    """A call of a function. arguments: the JSON text of an object."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True):
    """calls: of an assistant. answers: the call that a message of the role tool answers. reasoning: what an assistant
    thought before. name: who speaks, where the role does not say; "" where nobody is named."""

    role: str
    content: str
    calls: tuple[Call, ...] = ()
    answers: Call | None = None
    reasoning: str = ""
    name: str = ""


class Tool(msgspec.Struct, frozen=True):
    """A function that may be called. parameters: the JSON text of a JSON Schema of its arguments."""

    name: str
    description: str
    parameters: str
