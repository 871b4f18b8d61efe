"""What a request asks of the runtime: a prompt, how to go on from it, and how many answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from ...grammars.constraint import Constraint, Content
from ...grammars.errors import BudgetTooSmall, ConstraintError, MissingByte
from ..branch import BranchId, GenerateSpec
from ..errors import PromptTooLong
from ..thinking import Thinking, Thoughts
from .contract import ChatSession
from .errors import ConstraintRefused
from .forms import SamplingForm

LEAST_TOP_P = 1e-9  # OpenAI takes 0, a sampler needs something to choose from
_GOLDEN = 0x9E3779B97F4A7C15  # odd, so that different choices have different seeds


class Wanted(Protocol):
    """What an answer must be; the path in the body of a place in that."""

    def constraint(self) -> Content | None: ...

    def place(self, where: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Enforced:
    """place: a place in the constraint -> the path of it in the body. behind: the constraint of an answer that goes on
    with thoughts first. budget: the field that says how long an answer may be."""

    constraint: Constraint
    place: Callable[[str], str]
    behind: Constraint | None = None
    budget: str = "max_tokens"

    def of(self, opened: bool) -> Constraint:
        """opened: the prompt ends inside of thoughts."""
        return self.behind if opened and self.behind is not None else self.constraint

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """What the constraint is refused for is said with its path in the body."""
        try:
            yield
        except BudgetTooSmall as error:
            raise ConstraintRefused(error, self.budget) from error
        except ConstraintError as error:
            if isinstance(error, MissingByte) and error.where.startswith("byte "):
                raise  # of the prompt's text
            raise ConstraintRefused(error, self.place(error.where)) from error


Prompt = Callable[[ChatSession, BranchId], None]
"""Appends a prompt to an empty branch; it may block."""


@dataclass(frozen=True, slots=True)
class Question:
    """where: the field of the body that the prompts came in. budget: tokens of an answer; None: what the context
    leaves, at most `most`. logprobs: how many alternatives each token is told with; None: no log-probabilities at all.
    echo: the prompts' tokens are told, and scored where log-probabilities are. stop_until: where stop strings are no
    longer looked for. thinking: how answers think first. think_first: thoughts are begun where the model would begin
    them, as a constraint that knows nothing of them would keep it from that."""

    form: SamplingForm
    prompts: tuple[Prompt, ...]
    where: str
    budget: int | None
    most: int
    enforced: Enforced | None = None
    logprobs: int | None = None
    echo: bool = False
    stop_until: str = ""
    thinking: Thinking | None = None
    think_first: bool = False

    def thoughts(self, opened: bool) -> Thoughts | None:
        """opened: the prompt ends inside of them."""
        until = (self.stop_until,) if self.stop_until else ()
        return None if self.thinking is None else Thoughts(self.thinking, opened, until)

    @property
    def choices(self) -> int:
        return len(self.prompts) * (self.form.n or 1)

    def specs(self, prompt: int, context: int, opened: bool = False) -> list[GenerateSpec]:
        """One a choice of a prompt; none where the budget is 0. prompt: its tokens. opened: it ends inside of thoughts.
        Raises PromptTooLong."""
        room, least = context - prompt, 1 if self.budget is None else self.budget
        if room < least:
            raise PromptTooLong(
                f"the prompt has {prompt} tokens and the answer may have {least}, but the context is {context} tokens",
                where=self.where, fix=f"Shorten the {self.where} or lower max_tokens.",
            )
        budget = min(room, self.most) if self.budget is None else self.budget
        return [self._spec(budget, choice, opened) for choice in range(self.form.n or 1)] if budget else []

    def _spec(self, budget: int, choice: int, opened: bool) -> GenerateSpec:
        form = self.form
        return GenerateSpec(
            max_tokens=budget,
            temperature=1.0 if form.temperature is None else form.temperature,
            top_k=form.top_k or 0,
            top_p=1.0 if form.top_p is None else max(form.top_p, LEAST_TOP_P),
            min_p=form.min_p or 0.0,
            seed=None if form.seed is None else seed_of(form.seed, choice),
            stop=tuple(form.stop or ()),
            stop_until=self.stop_until,
            stop_ids=tuple(form.stop_token_ids or ()),
            min_tokens=form.min_tokens or 0,
            ignore_end=bool(form.ignore_eos),
            logprobs=self.logprobs,
            frequency_penalty=form.frequency_penalty or 0.0,
            presence_penalty=form.presence_penalty or 0.0,
            repetition_penalty=1.0 if form.repetition_penalty is None else form.repetition_penalty,
            logit_bias=tuple((int(token), bias) for token, bias in (form.logit_bias or {}).items()),
            constraint=None if self.enforced is None else self.enforced.of(opened),
            thoughts=self.thoughts(opened),
        )


def seed_of(seed: int, choice: int) -> int:
    """The first choice has the request's own seed, the others seeds that no small seed is near. All of 64 bits."""
    mixed = (seed ^ (choice * _GOLDEN)) % 2**64
    return mixed - 2**64 if mixed >= 2**63 else mixed
