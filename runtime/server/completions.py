"""POST /v1/completions: texts or tokens that are gone on from, and scored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ...grammars.errors import MissingByte
from ..branch import BranchId, Text, TokenIds
from ..errors import InvalidParameter
from .asking import Prompt, Question
from .body import Json
from .chat import enforced
from .choices import Choices
from .complaints import Complaints
from .completion_replies import Completion, CompletionChoice, CompletionChunks, fresh_completion_id
from .completion_text import CompletionText
from .contract import ChatRuntime, ChatSession
from .errors import ConstraintRefused
from .formats import JsonSchemaFormat, ResponseFormat
from .forms import MOST_TOKENS, One, SamplingForm, StreamOptions, least_beside, names_of
from .replies import finish_of, usage_of

DEFAULT_TOKENS = 16  # OpenAI's
MOST_PROMPTS = 128


class CompletionRequest(SamplingForm):
    """prompt: checked by `prompts_of`."""

    prompt: object
    max_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    response_format: ResponseFormat | None = None
    best_of: One | None = None
    suffix: None = None


@dataclass(frozen=True, slots=True)
class GivenPrompt:
    """text or tokens, and the place in the body."""

    text: str | None
    tokens: tuple[int, ...]
    where: str

    def append(self, session: ChatSession, branch: BranchId) -> None:
        """Raises InvalidParameter, or ConstraintRefused for what the vocabulary cannot spell, with the place."""
        try:
            session.extend(branch, [TokenIds(self.tokens) if self.text is None else Text(self.text)])
            if session.length(branch) == 0:
                raise InvalidParameter("the prompt is empty")
        except MissingByte as error:
            raise ConstraintRefused(error, self.where) from error
        except InvalidParameter as error:
            raise InvalidParameter(error.message, where=self.where, fix=error.fix) from error


COMPLAINTS = Complaints(
    {"json_schema": names_of(JsonSchemaFormat), "response_format": names_of(ResponseFormat),
     "stream_options": names_of(StreamOptions)},
    top=names_of(CompletionRequest),
)


class CompletionJob:
    def __init__(self, runtime: ChatRuntime, form: CompletionRequest, prompts: Sequence[GivenPrompt]) -> None:
        self._spelled = runtime.spelled
        self._form = form
        self._prompts = prompts
        asked: tuple[Prompt, ...] = tuple(prompt.append for prompt in prompts)
        self.question = Question(
            form=form, prompts=asked, where="prompt",
            budget=DEFAULT_TOKENS if form.max_tokens is None else form.max_tokens, most=DEFAULT_TOKENS,
            enforced=enforced(form.response_format), logprobs=form.logprobs, echo=bool(form.echo),
        )

    @classmethod
    def read(cls, runtime: ChatRuntime, body: Json) -> CompletionJob:
        """Raises InvalidParameter."""
        form = parse_completion(body)
        return cls(runtime, form, prompts_of(form.prompt))

    def reply(self, choices: Choices) -> Completion:
        told = []
        for index, (text, answer) in enumerate(zip(self._texts(choices), choices.answers, strict=True)):
            head = text.head()
            body, logprobs = text.rest(answer, answer.text)
            told.append(CompletionChoice(
                index, head[0] + body, finish_of(answer), logprobs if head[1] is None else head[1].joined(logprobs),
            ))
        model, usage = self._form.model, usage_of(choices.usage())
        return Completion(fresh_completion_id(), int(time.time()), model, tuple(told), usage)

    def events(self, choices: Choices) -> CompletionChunks:
        return CompletionChunks(self._form, self._texts(choices))

    def _texts(self, choices: Choices) -> list[CompletionText]:
        """One a choice."""
        count = self._form.n or 1
        scored = self._form.logprobs is not None
        return [
            CompletionText(
                self._spelled, scored=scored, prompt=asked.tokens, text=given.text, scores=asked.scores,
            )
            for given, asked in zip(self._prompts, choices.prompts, strict=True) for _ in range(count)
        ]


def parse_completion(body: Json) -> CompletionRequest:
    """Raises InvalidParameter (or UnknownField, MissingField) whose `where` is the path in the body."""
    form = COMPLAINTS.read(CompletionRequest, body)
    form.check_stream()
    form.check_least(DEFAULT_TOKENS if form.max_tokens is None else form.max_tokens)
    wanted = form.response_format
    if wanted is not None:
        wanted.check()
        if wanted.type != "text" and form.min_tokens:
            raise least_beside("a response_format that is enforced")
    if form.best_of is not None and (form.n or 1) > 1:
        raise InvalidParameter("best_of is less than n", where="best_of", fix="Leave it out.")
    return form


def prompts_of(value: object) -> list[GivenPrompt]:
    """A text, tokens, or a list of either. Raises InvalidParameter."""
    if isinstance(value, list) and value and not _is_token(value[0]):
        if len(value) > MOST_PROMPTS:
            raise InvalidParameter(f"there are more than {MOST_PROMPTS} prompts", where="prompt")
        return [_prompt(one, f"prompt[{at}]") for at, one in enumerate(value)]
    return [_prompt(value, "prompt")]


def _prompt(value: object, where: str) -> GivenPrompt:
    if isinstance(value, str):
        return GivenPrompt(value, (), where)
    if isinstance(value, list) and all(map(_is_token, value)):
        return GivenPrompt(None, tuple(value), where)
    raise InvalidParameter("a prompt is a text or a list of token ids", where=where)


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
