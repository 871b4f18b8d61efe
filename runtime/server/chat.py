"""POST /v1/chat/completions. json_object does not ask for the word JSON in the messages."""

from __future__ import annotations

import time

from ..thinking import Thinking
from .asking import Enforced, Question, Wanted
from .body import Json
from .choices import Choices
from .chunks import Chunks
from .contract import ChatRuntime
from .replies import ChatCompletion, Choice, fresh_id, usage_of
from .requests import Chat, parse_chat
from .settings import Settings
from .writing import ChoiceWriter


class ChatJob:
    def __init__(self, runtime: ChatRuntime, settings: Settings, chat: Chat) -> None:
        self._runtime = runtime
        self._chat = chat
        chat.offer.check_beside(runtime.calls, runtime.thinking, chat.form.response_format, "response_format")
        form, told, offered, switches = chat.form, chat.messages, chat.offer.told, chat.switches(runtime.switches)
        self.question = Question(
            form=form,
            prompts=(lambda session, branch: session.extend_chat(branch, told, tools=offered, switches=switches),),
            where="messages", budget=form.budget, most=settings.default_tokens,
            enforced=self._enforced(), logprobs=(form.top_logprobs or 0) if form.logprobs else None,
            stop_until=runtime.calls.trigger if chat.offer.open else "",  # a call is never cut
            thinking=runtime.thinking, think_first=chat.strict,
        )

    def _enforced(self) -> Enforced | None:
        chat, runtime = self._chat, self._runtime
        if chat.offer.open:
            return chat.offer.enforced(runtime.calls, chat.form.response_format)
        return enforced(chat.form.response_format, runtime.thinking)

    @classmethod
    def read(cls, runtime: ChatRuntime, settings: Settings, body: Json) -> ChatJob:
        """Raises InvalidParameter."""
        return cls(runtime, settings, parse_chat(body))

    def reply(self, choices: Choices) -> ChatCompletion:
        told = []
        for index, (writer, answer) in enumerate(zip(self._writers(choices), choices.answers, strict=True)):
            writer.push(answer.text)
            writer.finish()
            told.append(Choice(index, writer.message(), writer.reason(answer), writer.all_logprobs(answer)))
        model, usage = self._chat.form.model, usage_of(choices.usage())
        return ChatCompletion(fresh_id(), int(time.time()), model, tuple(told), usage)

    def events(self, choices: Choices) -> Chunks:
        return Chunks(self._chat.form, self._writers(choices))

    def _writers(self, choices: Choices) -> list[ChoiceWriter]:
        offer = self._chat.offer
        calls, spelled = self._runtime.calls if offer.open else None, self._runtime.spelled
        thoughts = self.question.thoughts(choices.prompts[0].opened)
        return [
            ChoiceWriter(calls, named=offer.mode == "named", spelled=spelled if self._chat.form.logprobs else None,
                         thoughts=thoughts, whole=offer.whole(self._chat.form.response_format) is not None)
            for _ in range(self.question.choices)
        ]


def enforced(wanted: Wanted | None, thinking: Thinking | None = None) -> Enforced | None:
    """thinking: how answers think before."""
    constraint = None if wanted is None else wanted.constraint()
    if wanted is None or constraint is None:
        return None
    behind = None if thinking is None else thinking.before(constraint)
    return Enforced(constraint, lambda where: wanted.place(where.removeprefix("tags/0/content ")), behind)
