"""The model's chat template: messages to token ids, and what stands around a message of each role."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .errors import InvalidParameter, TemplateError, TemplateLimit
from .gguf import GGUFFile
from .placeholders import Placeholders, SpecialStrings
from .template_process import TemplateProcess
from .template_roles import Message, Render, RoleTexts, again, learn_roles
from .tokenizer import Part, Tokenizer

__all__ = ["ChatTemplate", "Message"]

_KEY = "tokenizer.chat_template"
_LEARN_SECONDS = 10.0  # for some 40 probes of well under a millisecond each


class ChatTemplate:
    """Thread-safe. The template is hostile until proven otherwise: it is rendered in a sandbox in a process of its own,
    with limits of time, memory and length (`template_worker`).

    source: "" when the model has none; then everything but `source` and `stable` raises TemplateError.
    stable: a conversation may be appended, opening + content + closing for each message, instead of rendered again.
    trims: for that, the contents must be stripped of white space at both ends.
    Openings hold the begin-of-sequence token when the template writes one: nothing is added before them."""

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        """Renders some probes (the child process takes about 0.2 s to start). A template that is broken or passes a
        limit does not stop a model from being loaded: its error is raised at each use."""
        self.source = source
        self._tokenizer = tokenizer
        self._broken: TemplateError | None = None
        self._process: TemplateProcess | None = None
        self._roles = RoleTexts()
        self._specials = SpecialStrings(tokenizer.specials)
        if not source:
            self._broken = TemplateError("this model has no chat template", where=_KEY, fix="Send a plain prompt.")
            return
        try:
            self._process = TemplateProcess(source)
            self._roles = learn_roles(self._probe(), source)
        except TemplateError as error:
            self._broken = error

    @classmethod
    def from_gguf(cls, gguf: GGUFFile, tokenizer: Tokenizer) -> ChatTemplate:
        return cls(gguf.text(_KEY) if _KEY in gguf.metadata else "", tokenizer)

    @property
    def stable(self) -> bool:
        return self._roles.stable

    @property
    def trims(self) -> bool:
        return self._roles.trims

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> list[int]:
        """Special tokens that the template writes become their ids; those inside roles and contents stay text.

        Blocks: call it off the event loop. Raises TemplateError (with what the template says, when it complains),
        InvalidParameter for text that is not Unicode, MissingByte for text the vocabulary cannot spell."""
        self._check_usable()
        for place, message in enumerate(messages):
            _check_text(message, place)
        texts = [text for message in messages for text in (message.role, message.content)]
        placeholders = Placeholders(self._specials, [self.source, *texts])
        hidden = [Message(placeholders.hide(message.role), placeholders.hide(message.content)) for message in messages]
        parts = self._tokenizer.parts(self._text(hidden, add_generation_prompt))
        return self._tokenizer.encode_parts(
            placeholders.show(part) if isinstance(part, str) else part for part in parts
        )

    def opening(self, role: str, first: bool = False) -> list[int]:
        """What the template writes before a message of `role`; for the assistant, what asks for its answer. first: the
        conversation begins with it (a default system prompt may stand there). Raises TemplateError."""
        return self._tokenizer.encode_parts(self.opening_parts(role, first))

    def closing(self, role: str) -> list[int]:
        """What the template writes after a message of `role`. Raises TemplateError."""
        return self._tokenizer.encode_parts(self.closing_parts(role))

    def opening_parts(self, role: str, first: bool = False) -> tuple[Part, ...]:
        """As text and special ids, for `Tokenizer.encode_parts` together with the text that follows: the same ids that
        `render` gives also where a content begins with white space."""
        self._check_usable()
        return self._tokenizer.parts(self._roles.opening(role, first))

    def closing_parts(self, role: str) -> tuple[Part, ...]:
        self._check_usable()
        return self._tokenizer.parts(self._roles.closing(role))

    def close(self) -> None:
        """Ends the child process; a later rendering starts another."""
        if self._process is not None:
            self._process.close()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise again(self._broken)

    def _probe(self) -> Render:
        """Renderings that end when they take long in all."""
        deadline = time.monotonic() + _LEARN_SECONDS

        def render(messages: Sequence[Message], add_generation_prompt: bool) -> str:
            if time.monotonic() > deadline:
                raise TemplateLimit("the chat template took too long to learn", where=_KEY)
            return self._text(messages, add_generation_prompt)

        return render

    def _text(self, messages: Sequence[Message], add_generation_prompt: bool) -> str:
        if self._process is None:
            raise TemplateError("this model has no chat template", where=_KEY)
        return self._process.render({
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._tokenizer.text_of_special(self._tokenizer.bos_id),
            "eos_token": self._tokenizer.text_of_special(self._tokenizer.eos_id),
            "tools": None,
        })


def _check_text(message: Message, place: int) -> None:
    try:
        (message.role + message.content).encode()
    except UnicodeEncodeError as error:
        raise InvalidParameter("the text holds a lone surrogate, which is not Unicode text",
                               where=f"messages/{place}/content", fix="Decode the input as UTF-8 first.") from error
