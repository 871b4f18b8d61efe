"""POST /v1/chat/completions. json_object does not ask for the word JSON in the messages."""

from __future__ import annotations

import time

from ...grammars.constraint import Constraint
from .asking import Enforced, Question
from .body import Json
from .choices import Choices
from .chunks import Chunks
from .contract import ChatRuntime
from .formats import ResponseFormat
from .replies import ChatCompletion, Choice, fresh_id, usage_of
from .requests import Chat, parse_chat
from .settings import Settings
from .writing import ChoiceWriter


class ChatJob:
    def __init__(self, runtime: ChatRuntime, settings: Settings, chat: Chat) -> None:
        self._runtime = runtime
        self._chat = chat
        form, told, offered = chat.form, chat.messages, chat.offer.told
        self.question = Question(
            form=form, prompts=(lambda session, branch: session.extend_chat(branch, told, tools=offered),),
            where="messages", budget=form.budget, most=settings.default_tokens,
            enforced=chat.offer.enforced(runtime.calls) if chat.offer.open else enforced(form.response_format),
            logprobs=(form.top_logprobs or 0) if form.logprobs else None,
            stop_until=runtime.calls.trigger if chat.offer.open else "",  # a call is never cut
        )

    @classmethod
    def read(cls, runtime: ChatRuntime, settings: Settings, body: Json) -> ChatJob:
        """Raises InvalidParameter."""
        return cls(runtime, settings, parse_chat(body))

    def reply(self, choices: Choices) -> ChatCompletion:
        told = []
        for index, (writer, answer) in enumerate(zip(self._writers(), choices.answers, strict=True)):
            writer.push(answer.text)
            writer.finish()
            told.append(Choice(index, writer.message(), writer.reason(answer), writer.all_logprobs(answer)))
        model, usage = self._chat.form.model, usage_of(choices.usage())
        return ChatCompletion(fresh_id(), int(time.time()), model, tuple(told), usage)

    def events(self, choices: Choices) -> Chunks:
        return Chunks(self._chat.form, self._writers())

    def _writers(self) -> list[ChoiceWriter]:
        offer = self._chat.offer
        calls, spelled = self._runtime.calls if offer.open else None, self._runtime.spelled
        return [
            ChoiceWriter(calls, named=offer.mode == "named", spelled=spelled if self._chat.form.logprobs else None)
            for _ in range(self.question.choices)
        ]


def enforced(wanted: ResponseFormat | None) -> Enforced | None:
    constraint: Constraint | None = None if wanted is None else wanted.constraint()
    return None if wanted is None or constraint is None else Enforced(constraint, wanted.place)
