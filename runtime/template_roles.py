"""What a chat template writes before and after a message of each role, learned by rendering probes.

With these a conversation is appended and not rendered again. That is right only when the template says of every
message the same, whatever follows: the probes check it, and `stable` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .conversation import Message
from .errors import TemplateError, TemplateLimit

ROLES = ("system", "user", "assistant", "tool")


Render = Callable[[Sequence[Message], bool], str]
"""Messages and whether to open the assistant's answer -> the template's text."""


@dataclass(slots=True)
class RoleTexts:
    """openings: (role, first message or not) -> text before the content. closings: role -> text after it. refused:
    why the template refuses a role there. stable: appending equals rendering. trims: the template strips the white
    space around contents, so that appended contents must be stripped for that."""

    openings: dict[tuple[str, bool], str] = field(default_factory=dict)
    closings: dict[tuple[str, bool], str] = field(default_factory=dict)
    refused: dict[tuple[str, bool], TemplateError] = field(default_factory=dict)
    stable: bool = False
    trims: bool = False

    def opening(self, role: str, first: bool) -> str:
        """Raises TemplateError when the template has no such place for the role."""
        return self._found(self.openings, role, first)

    def closing(self, role: str) -> str:
        """Raises TemplateError when the template knows no such role."""
        return self._found(self.closings, role, (role, False) not in self.closings)

    def _found(self, texts: dict[tuple[str, bool], str], role: str, first: bool) -> str:
        if (role, first) in texts:
            return texts[role, first]
        if (role, first) in self.refused:
            raise again(self.refused[role, first])
        raise TemplateError(f"the chat template was not asked about the role {role[:40]!r}", where="role",
                            fix=f"Use one of: {', '.join(ROLES)}.")


def again(error: TemplateError) -> TemplateError:
    """A fresh one that says the same: an exception that is kept and raised many times would collect tracebacks."""
    return type(error)(error.message, where=error.where, fix=error.fix)


def learn_roles(render: Render, source: str) -> RoleTexts:
    """source: the template, so that the probe's mark is not a word of it. Raises TemplateLimit."""
    mark = mark_for(source)
    texts = RoleTexts()
    for role in ROLES:
        for first in (True, False):
            _learn(render, texts, role, first, mark)
    for role in ROLES:
        if (role, False) in texts.refused:
            _learn_behind_an_answer(render, texts, role, mark)
    try:
        history = texts.openings.get(("assistant", False))
        prompt = _answer_opening(render, mark)
        if prompt:
            texts.openings["assistant", False] = prompt
        texts.stable = prompt == history and _appends(render, texts, mark)
    except TemplateLimit:
        raise
    except TemplateError:
        texts.stable = False
    return texts


def mark_for(source: str) -> str:
    """A word that the template does not hold."""
    return next(word for n in range(len(source) + 1) if (word := f"probe{n}x") not in source)


def _learn(render: Render, texts: RoleTexts, role: str, first: bool, mark: str) -> None:
    context = [] if first else _context(role)
    try:
        before = render(context, False) if context else ""
        whole = render([*context, Message(role, mark)], False)
        left, found, right = whole[len(before) :].partition(mark)
        if not whole.startswith(before) or not found or mark in right:
            raise TemplateError("the chat template rewrites earlier messages or hides a content", where=role)
    except TemplateLimit:
        raise
    except TemplateError as error:
        texts.refused[role, first] = error
        return
    texts.openings[role, first] = left
    texts.closings[role, first] = right


def _learn_behind_an_answer(render: Render, texts: RoleTexts, role: str, mark: str) -> None:
    """Of a template that writes its last answer otherwise than earlier ones (Qwen 3: with empty thoughts): what stands
    between the content of an answer and that of the message behind it."""
    answer, content = f"{mark}a", f"{mark}b"
    closing = texts.closings.get(("assistant", False), "")
    try:
        whole = render([Message("user", "question"), Message("assistant", answer), Message(role, content)], False)
    except TemplateLimit:
        raise
    except TemplateError:
        return
    between, found, right = whole.partition(answer)[2].partition(content)
    if found and closing and between.startswith(closing) and mark not in between + right:
        texts.openings[role, False], texts.closings[role, False] = between.removeprefix(closing), right
        del texts.refused[role, False]


def _context(role: str) -> list[Message]:
    """What may stand before a later message of the role."""
    question = [Message("user", "question")]
    return question if role == "assistant" else [*question, Message("assistant", "answer")]


def _answer_opening(render: Render, mark: str) -> str:
    """The text that asks for an answer (`add_generation_prompt`)."""
    asked = render([Message("user", mark)], False)
    asking = render([Message("user", mark)], True)
    if not asking.startswith(asked):
        raise TemplateError("the chat template rewrites earlier messages", where="assistant")
    return asking[len(asked) :]


_CONVERSATIONS = (
    ("user",), ("user", "assistant"), ("user", "assistant", "user"), ("user", "assistant", "user", "assistant"),
    ("system", "user"), ("system", "user", "assistant", "user"),
)
_CONTENTS = ("{0}", "two\n\nlines of {0}", "{{{{ {0} }}}} <b>&amp;</b>", "<think>\n{0}\n</think>\n\nyes")
_PADDED = "  {0} \n"


def _appends(render: Render, texts: RoleTexts, mark: str) -> bool:
    """Sets `trims`. False when some conversation, appended, is not what the template renders."""
    padded = [Message("user", _PADDED.format(mark))]
    rendered = render(padded, False)
    texts.trims = rendered != _appended(texts, padded) and rendered == _appended(texts, _stripped(padded))
    for roles in _CONVERSATIONS:
        if (roles[0], True) in texts.refused:
            continue
        for form in (*_CONTENTS, _PADDED):
            messages = [Message(role, form.format(f"{mark}{n}")) for n, role in enumerate(roles)]
            expected = _appended(texts, _stripped(messages) if texts.trims else messages)
            if render(messages, False) != expected:
                return False
    return True


def _stripped(messages: Sequence[Message]) -> list[Message]:
    return [Message(message.role, message.content.strip()) for message in messages]


def _appended(texts: RoleTexts, messages: Sequence[Message]) -> str:
    return "".join(
        texts.opening(message.role, place == 0) + message.content + texts.closing(message.role)
        for place, message in enumerate(messages)
    )
