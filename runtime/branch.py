"""What crosses the border of the session layer: pieces of a branch, what to generate, what came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..grammars.constraint import Constraint
from .messages import TokenLogprob, Usage
from .thinking import Thoughts

BranchId = int


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text. Special tokens in it stay text. Adjacent literals are one text."""

    text: str


@dataclass(frozen=True, slots=True)
class Opening:
    """The template's opening of a role (with the default system prompt, when the template adds one there)."""

    role: str


@dataclass(frozen=True, slots=True)
class Closing:
    """The template's closing of a role."""

    role: str


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Token ids as they are."""

    ids: tuple[int, ...]


Piece = Text | Opening | Closing | TokenIds


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSpec:
    """max_tokens: budget of the answer. seed None: a fresh random one. stop: strings that end the answer; the text is
    cut before the earliest. stop_until: they are looked for in the text before the first of this only, and stop_ids
    are special tokens then. stop_ids: tokens that end the answer, which are no part of it. min_tokens: the answer does
    not end before it has so many, and stop strings are looked for behind them. constraint: what the answer fits, or
    begins where a stop cut it (not together with `min_tokens`). thoughts: how the answer thinks first; stop strings
    are looked for in its content then.
    frequency_penalty, presence_penalty: -2 to 2, of the tokens generated. repetition_penalty: above 0, at most 100, of
    those of the branch before too; 1 is none. logit_bias: (token id, -100 to 100), each id once. A constraint decides
    what is allowed whatever they say."""

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_until: str = ""
    stop_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    ignore_end: bool = False
    logprobs: int | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: Constraint | None = None
    thoughts: Thoughts | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """New text of an answer: whole characters only, and nothing that may still become a stop string."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """finish: 'stop' (end token, stop string or complete grammar) or 'length'. stop: the stop string that was met.
    closed: a constrained answer that fits its constraint, and that a larger budget would have made another; its
    finish is 'length'."""

    text: str
    tokens: tuple[int, ...]
    finish: Literal["stop", "length"]
    usage: Usage
    stop: str | None = None
    closed: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """totals[k]: log-probability of choice k given the branch, summed over its tokens. best: the first maximum."""

    totals: tuple[float, ...]
    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    best: int
    usage: Usage
