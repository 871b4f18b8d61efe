"""What one step will do, in ints. The scheduler writes a plan, the executor carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from .edits import Edits


@dataclass(frozen=True, slots=True)
class PageCopy:
    """Copy the first `count` slots of page `source` to page `target`, before anything else in the step."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One request's share of a step: compute `tokens` at absolute positions start, start + 1, ...

    pages: block table; covers [0, start + len(tokens)). Positions [0, start) are already in those pages.
    sampled_from: None, or the index i of a Pick of the previous step: tokens[0] is then the token that pick drew (its
    value here is a placeholder).
    logits_at: offsets into `tokens` whose next-token logits are needed, ascending; () for a chunk that is not the last.
    owner: whose row it is, the same from step to step, so that its block table need not be told again; -1: nobody's.
    """

    tokens: tuple[int, ...]
    start: int
    pages: tuple[int, ...]
    logits_at: tuple[int, ...]
    sampled_from: int | None = None
    owner: int = -1


@dataclass(frozen=True, slots=True)
class Plan:
    """rows in the order of their logits: logits row k belongs to the k-th offset when rows are read in order."""

    step: int
    rows: tuple[Row, ...]
    copies: tuple[PageCopy, ...] = ()


@dataclass(frozen=True, slots=True)
class Pick:
    """What to do with one row of logits. Of several picks of one request at one place the last draws its next token.

    logits: index of the logits row (in the order that Plan states). mask: row id in the mask table (0: no constraint).
    target: None to draw a token; an id to report that token's log-probability instead (scoring, no draw).
    temperature 0 is argmax, the lowest id on ties. The draw depends on (seed, position) alone, never on the batch.
    top_logprobs: how many of the most likely (id, log-probability) to report, 0..20.
    edits: what changes the logits before everything else; None: nothing.
    Log-probabilities are of the raw logits (no edits, no mask, no temperature).
    """

    logits: int
    mask: int = 0
    target: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    position: int = 0
    top_logprobs: int = 0
    edits: Edits | None = None


@dataclass(frozen=True, slots=True)
class Sampled:
    """The token drawn (or the target), its raw log-probability, and the most likely alternatives."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
