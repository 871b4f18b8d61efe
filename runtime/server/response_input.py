"""The conversation that the items of an input are: thoughts and calls join the message that they belong to."""

from __future__ import annotations

from msgspec import structs

from ..conversation import Call, Message
from ..errors import InvalidParameter
from .messages import called
from .response_form import CallItem, Item, MessageItem, ResponsesRequest, ResultItem, text_of


def conversation(form: ResponsesRequest) -> list[Message]:
    """instructions are a system's message before all. Raises InvalidParameter."""
    told = _Conversation(form.instructions)
    for at, item in enumerate(form.input):
        told.add(item, f"input[{at}]")
    return told.finish()


class _Conversation:
    def __init__(self, instructions: str | None) -> None:
        self._messages = [] if instructions is None else [Message("system", instructions)]
        self._calls: dict[str, Call] = {}
        self._thoughts = ""  # of the assistant's message that comes

    def add(self, item: Item, where: str) -> None:
        if isinstance(item, MessageItem):
            role = "system" if item.role == "developer" else item.role
            self._say(Message(role, text_of(item.content)))
        elif isinstance(item, CallItem):
            self._call(called(Call(item.call_id, item.name, item.arguments), f"{where}.arguments"))
        elif isinstance(item, ResultItem):
            self._say(Message("tool", text_of(item.output), answers=self._answered(item.call_id, where)))
        else:
            self._thoughts += "".join(part.text for part in item.content or ())

    def finish(self) -> list[Message]:
        self._end_thoughts()
        return self._messages

    def _say(self, message: Message) -> None:
        if message.role == "assistant":
            message = structs.replace(message, reasoning=self._thoughts)
            self._thoughts = ""
        self._end_thoughts()
        self._messages.append(message)

    def _end_thoughts(self) -> None:
        """Thoughts that nothing was said behind: the answer was cut in them."""
        if self._thoughts:
            thoughts, self._thoughts = self._thoughts, ""
            self._messages.append(Message("assistant", "", reasoning=thoughts))

    def _call(self, call: Call) -> None:
        """Joins the assistant's message that it follows at once, or one without a text."""
        self._calls[call.id] = call
        if self._thoughts or not self._messages or self._messages[-1].role != "assistant":
            self._say(Message("assistant", ""))
        last = self._messages[-1]
        self._messages[-1] = structs.replace(last, calls=(*last.calls, call))

    def _answered(self, id: str, where: str) -> Call:
        if id not in self._calls:
            raise InvalidParameter("no call before this item has the id", where=f"{where}.call_id",
                                   fix="Send the call too: nothing is stored here.")
        return self._calls[id]
