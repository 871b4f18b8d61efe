"""A runtime without a model: bytes as tokens, a model that follows scripts, and a clock that tests move by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from espalier.grammars.errors import MissingByte
from espalier.runtime.call_format import OWN
from espalier.runtime.config import EngineConfig
from espalier.runtime.constraints import Constraints
from espalier.runtime.conversation import Message, Tool
from espalier.runtime.engine import Engine
from espalier.runtime.errors import TemplateError
from espalier.runtime.link import ThreadLink
from espalier.runtime.runtime import Runtime
from espalier.runtime.scripted_executor import Model, ScriptedExecutor
from espalier.runtime.thinking import Thinking
from espalier.runtime.words import NO_SWITCHES, Place

Part = str | int


class ByteTokenizer:
    """Ids 0..255 are bytes. Then come words of several bytes, each one token, and the special tokens, the end first.

    A word is taken wherever it begins, the longest first: so the same text has other tokens on either side of a
    boundary, as with a real tokenizer.
    """

    def __init__(self, words: Iterable[str] = (), *, specials: Iterable[str] = ("<end>", "<turn>"),
                 missing: Iterable[int] = ()) -> None:
        self._words = {word.encode(): 256 + index for index, word in enumerate(words)}
        first = 256 + len(self._words)
        self.specials = {text: first + index for index, text in enumerate(specials)}
        self.vocab_size = first + len(self.specials)
        self.special_ids = frozenset(self.specials.values())
        self.stop_ids = frozenset({first})
        self.end = first
        self.bos_id: int | None = None
        self.prefix: tuple[int, ...] = ()
        self.missing = frozenset(missing)
        self.encoded: list[str] = []  # every text that was tokenized
        single = [b"" if byte in self.missing else bytes([byte]) for byte in range(256)]
        self.token_bytes = [*single, *self._words, *(b"" for _ in self.specials)]

    def encode(self, text: str) -> list[int]:
        self.encoded.append(text)
        raw, ids, at = text.encode(), list[int](), 0
        while at < len(raw):
            word = max((w for w in self._words if raw.startswith(w, at)), key=len, default=None)
            if word is None and raw[at] in self.missing:
                raise MissingByte(f"no token has the byte {raw[at]:#04x}", where=f"byte {at}")
            ids.append(raw[at] if word is None else self._words[word])
            at += 1 if word is None else len(word)
        return ids

    def encode_exactly(self, text: str) -> list[int]:
        return self.encode(text)

    def encode_parts(self, parts: Iterable[Part], place: Place = "start") -> list[int]:
        ids, texts = list[int](), list[str]()
        for part in (*parts, -1):
            if isinstance(part, str):
                texts.append(part)
                continue
            if texts:
                ids += self.encode("".join(texts))
                texts = []
            ids += [part] if part >= 0 else []
        return ids

    def text_of_special(self, token: int | None) -> str:
        return next((text for text, id in self.specials.items() if id == token), "")

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self.token_bytes[id] for id in ids).decode(errors="replace")


class PlainTemplate:
    """`role: content<turn>`; opens every message with its role."""

    stable = True
    trims = False
    roles = ("system", "user", "assistant")
    calls = OWN
    thinking: Thinking | None = None
    switches: frozenset[str] = frozenset()

    def __init__(self, tokenizer: ByteTokenizer) -> None:
        self._tokenizer = tokenizer
        self._turn = tokenizer.specials["<turn>"]

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, tools: Sequence[Tool] = (),
               switches: Mapping[str, bool] = NO_SWITCHES) -> list[int]:
        parts: list[Part] = []
        for message in messages:
            parts += [*self.opening_parts(message.role), message.content, *self.closing_parts(message.role)]
        return self._tokenizer.encode_parts(parts + (["assistant: "] if add_generation_prompt else []))

    def opening_parts(self, role: str, first: bool = False) -> tuple[Part, ...]:
        if role not in self.roles:
            raise TemplateError(f"the template knows no role {role!r}", where="role")
        return (f"{role}: ",)

    def closing_parts(self, role: str) -> tuple[Part, ...]:
        return (self._turn,)

    def thinking_parts(self) -> tuple[Part, ...]:
        return () if self.thinking is None else (self.thinking.begin,)

    def opening(self, role: str, first: bool = False) -> list[int]:
        return self._tokenizer.encode_parts(self.opening_parts(role, first))

    def closing(self, role: str) -> list[int]:
        return self._tokenizer.encode_parts(self.closing_parts(role))

    def close(self) -> None:
        """Nothing to end."""


class ThinkingTemplate(PlainTemplate):
    """Of a model that thinks first, unless it is told not to. Thoughts of the history stand before their content."""

    thinking = Thinking("<think>\n", "\n</think>\n\n", wanted=True)
    switches = frozenset({"enable_thinking"})

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = True, tools: Sequence[Tool] = (),
               switches: Mapping[str, bool] = NO_SWITCHES) -> list[int]:
        told = [structs.replace(message, content=f"({message.reasoning}) {message.content}") if message.reasoning
                else message for message in messages]
        ids = super().render(told, add_generation_prompt)
        off = switches.get("enable_thinking") is False
        return ids + (self._tokenizer.encode("<think>\n\n</think>\n\n") if off else [])


class ScriptedModel:
    """Text -> what follows. After a prefix that ends in `key + said so far`, the next token of `script` is likely.

    Where no script applies, the end token is. `script` may be text, tokenized here, or token ids.
    """

    def __init__(self, tokenizer: ByteTokenizer, scripts: Mapping[str, str | Sequence[int]]) -> None:
        self._tokenizer = tokenizer
        self._scripts = [
            (tuple(tokenizer.encode(key)), self._tokens(script)) for key, script in scripts.items()
        ]

    def _tokens(self, script: str | Sequence[int]) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(script)) if isinstance(script, str) else tuple(script)

    def __call__(self, prefix: tuple[int, ...]) -> Sequence[float]:
        logits = [0.0] * self._tokenizer.vocab_size
        logits[self._next(prefix)] = 20.0
        return logits

    def _next(self, prefix: tuple[int, ...]) -> int:
        for key, script in self._scripts:
            for said in range(min(len(script), len(prefix)) - (len(script) <= len(prefix)), -1, -1):
                if prefix[len(prefix) - said - len(key):] == key + script[:said]:
                    return script[said]
        return self._tokenizer.end


class ManualClock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def scripted_runtime(
    model: Callable[[tuple[int, ...]], Sequence[float]], tokenizer: ByteTokenizer, config: EngineConfig | None = None,
    *, constraints: Constraints | None = None, compile: Callable[..., bytes] | None = None, context: int = 1 << 20,
    template: Callable[[ByteTokenizer], PlainTemplate] = PlainTemplate, weights: Callable[[Path], Model] | None = None,
) -> Runtime:
    """A whole runtime over a scripted model, its engine in a thread. weights: reads another model from a file."""
    config = config or EngineConfig(page=4, pages=256, step_tokens=64, max_rows=16)
    executor = ScriptedExecutor(
        model, vocabulary_size=tokenizer.vocab_size, pages=config.pages, page=config.page, context=context,
        weights=weights,
    )
    engine = Engine(executor, config, end_ids=tokenizer.stop_ids, constraints=constraints)
    return Runtime(
        link=ThreadLink(engine), tokenizer=tokenizer, template=template(tokenizer), model_name="scripted",
        context=engine.context, compile=compile,
    )
