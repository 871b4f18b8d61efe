"""The model's chat template: messages to token ids, and what stands around a message of each role."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from .call_format import OWN, CallFormat
from .conversation import Call, Message, Tool
from .errors import InvalidParameter, TemplateError, TemplateLimit
from .placeholders import Placeholders, SpecialStrings
from .template_calls import RenderCalls, learn_calls
from .template_process import TemplateProcess
from .template_roles import RoleTexts, again, learn_roles, mark_for
from .template_thinking import SWITCHES, learn_thinking
from .thinking import Thinking
from .tokenizer import Part, Tokenizer
from .words import NO_SWITCHES, Switches

__all__ = ["ChatTemplate", "Message"]

_KEY = "tokenizer.chat_template"
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LEARN_SECONDS = 10.0  # for some 40 probes of well under a millisecond each


class ChatTemplate:
    """Thread-safe. The template is hostile until proven otherwise: it is rendered in a sandbox in a process of its own,
    with limits of time, memory and length (`template_worker`).

    source: "" when the model has none; then everything but `source` and `stable` raises TemplateError.
    stable: a conversation may be appended, opening + content + closing for each message, instead of rendered again.
    trims: for that, the contents must be stripped of white space at both ends.
    calls: how the model writes calls of functions. thinking: how it thinks before it answers; None: it is not known to.
    switches: variables of the template that say whether it does.
    Openings hold the begin-of-sequence token when the template writes one: nothing is added before them."""

    def __init__(self, source: str, tokenizer: Tokenizer) -> None:
        """Renders some probes (the child process takes about 0.2 s to start). A template that is broken or passes a
        limit does not stop a model from being loaded: its error is raised at each use."""
        self.source = source
        self._tokenizer = tokenizer
        self._broken: TemplateError | None = None
        self._process: TemplateProcess | None = None
        self._roles = RoleTexts()
        self.calls: CallFormat = OWN
        self.switches = frozenset(name for name in SWITCHES if re.search(rf"\b{name}\b", source))
        self.thinking: Thinking | None = None
        self._specials = SpecialStrings(tokenizer.specials)
        if not source:
            self._broken = TemplateError("this model has no chat template", where=_KEY, fix="Send a plain prompt.")
            return
        try:
            self._process = TemplateProcess(source)
            probe = self._probe()
            self._roles = learn_roles(lambda messages, prompt: probe(messages, prompt, ()), source)
            self.calls = self._learn_calls(probe)
            self.thinking = self._learn_thinking(probe)
        except TemplateError as error:
            self._broken = error

    @property
    def stable(self) -> bool:
        return self._roles.stable

    @property
    def trims(self) -> bool:
        return self._roles.trims

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, tools: Sequence[Tool] = (),
               switches: Switches = NO_SWITCHES) -> list[int]:
        """Special tokens that the template writes become their ids; those inside of what it is given stay text. Calls
        and tools are for a template that knows them (`calls.told`), switches for one that has them.

        Blocks: call it off the event loop. Raises TemplateError (with what the template says, when it complains),
        InvalidParameter for text that is not Unicode, MissingByte for text the vocabulary cannot spell."""
        self._check_usable()
        for place, message in enumerate(messages):
            _check_text(message, place)
        texts = [text for message in messages for text in _texts_of(message)]
        texts += [text for tool in tools for text in (tool.name, tool.description, tool.parameters)]
        placeholders = Placeholders(self._specials, [self.source, *texts])
        hide = placeholders.hide
        hidden = [_hidden_message(message, hide) for message in messages]
        offered = [Tool(hide(tool.name), hide(tool.description), _hidden(tool.parameters, hide)) for tool in tools]
        parts = self._tokenizer.parts(self._text(hidden, add_generation_prompt, offered, switches))
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

    def thinking_parts(self) -> tuple[Part, ...]:
        """What the model writes before its thoughts."""
        return () if self.thinking is None else self._tokenizer.parts(self.thinking.begin)

    def close(self) -> None:
        """Ends the child process; a later rendering starts another."""
        if self._process is not None:
            self._process.close()

    def _check_usable(self) -> None:
        if self._broken is not None:
            raise again(self._broken)

    def _probe(self) -> RenderCalls:
        """Renderings that end when they take long in all."""
        deadline = time.monotonic() + _LEARN_SECONDS

        def render(messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool]) -> str:
            if time.monotonic() > deadline:
                raise TemplateLimit("the chat template took too long to learn", where=_KEY)
            return self._text(messages, add_generation_prompt, tools)

        return render

    def _learn_calls(self, probe: RenderCalls) -> CallFormat:
        """A template whose rendering of calls passes a limit may still be good for everything else."""
        closing = self._roles.closings.get(("assistant", False), "")
        if "tools" not in self.source or not closing:
            return OWN
        try:
            return learn_calls(probe, closing, mark_for(self.source)) or OWN
        except TemplateLimit:
            return OWN

    def _learn_thinking(self, probe: RenderCalls) -> Thinking | None:
        """A template whose rendering of thoughts passes a limit may still be good for everything else."""
        try:
            found = learn_thinking(probe, self.source, self._roles.openings.get(("assistant", False), ""))
        except TemplateError:
            return None
        return None if found is None else replace(found, wanted=bool(self.switches))

    def _text(self, messages: Sequence[Message], add_generation_prompt: bool, tools: Sequence[Tool],
              switches: Switches = NO_SWITCHES) -> str:
        if self._process is None:
            raise TemplateError("this model has no chat template", where=_KEY)
        return self._process.render({
            "messages": [_told_message(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "bos_token": self._tokenizer.text_of_special(self._tokenizer.bos_id),
            "eos_token": self._tokenizer.text_of_special(self._tokenizer.eos_id),
            "tools": [_told_tool(tool) for tool in tools] or None,
            **switches,
        })


def _told_message(message: Message) -> dict[str, object]:
    """As the templates of OpenAI's form expect it, arguments as an object."""
    told: dict[str, object] = {"role": message.role, "content": message.content}
    if message.reasoning:
        told["reasoning_content"] = message.reasoning
    if message.name:
        told["name"] = message.name
    if message.calls:
        told["tool_calls"] = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": json.loads(call.arguments)}}
            for call in message.calls
        ]
    if message.answers is not None:
        told |= {"tool_call_id": message.answers.id, "name": message.answers.name}
    return told


def _told_tool(tool: Tool) -> dict[str, object]:
    told = {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)}
    return {"type": "function", "function": told}


def _texts_of(message: Message) -> list[str]:
    calls = [*message.calls, *([message.answers] if message.answers else ())]
    own = [message.role, message.content, message.reasoning, message.name]
    return [*own, *(text for call in calls for text in (call.id, call.name, call.arguments))]


def _hidden_message(message: Message, hide: Callable[[str], str]) -> Message:
    calls = tuple(_hidden_call(call, hide) for call in message.calls)
    answers = None if message.answers is None else _hidden_call(message.answers, hide)
    return Message(hide(message.role), hide(message.content), calls, answers, hide(message.reasoning),
                   hide(message.name))


def _hidden_call(call: Call, hide: Callable[[str], str]) -> Call:
    return Call(hide(call.id), hide(call.name), _hidden(call.arguments, hide))


def _hidden(text: str, hide: Callable[[str], str]) -> str:
    """JSON text with all of its strings hidden; however deep it nests."""
    return _JSON_STRING.sub(lambda found: json.dumps(hide(json.loads(found[0]))), text)


def _check_text(message: Message, place: int) -> None:
    try:
        "".join(_texts_of(message)).encode()
    except UnicodeEncodeError as error:
        raise InvalidParameter("the text holds a lone surrogate, which is not Unicode text",
                               where=f"messages/{place}/content", fix="Decode the input as UTF-8 first.") from error
