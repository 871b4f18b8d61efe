"""What the session layer and the engine say to each other: ints only, typed, versioned.

Lease and request ids are chosen by the sender (per link, never reused), so that no command waits for an answer.
A lease is the engine's side of a branch: a chain of token ids and a pin on the tree. Commands carry only what is new.
"""

from __future__ import annotations

import msgspec

PROTOCOL_VERSION = 2


class Sampling(msgspec.Struct, frozen=True):
    """seed: fixes every draw of the request. stop_ids: ids that end the answer, beside the end tokens of the model;
    ignore_end: go on past end tokens (benchmarks). min_tokens: neither ends the answer before it has so many; 0 beside
    a constraint. logprobs: None, or how many alternatives to report per token.
    frequency_penalty, presence_penalty: of the tokens generated. repetition_penalty: of those of the prompt too; 1 for
    none. logit_bias: (id, what is added), each id once."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    stop_ids: tuple[int, ...] = ()
    ignore_end: bool = False
    min_tokens: int = 0
    logprobs: int | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()


# Commands


class OpenSession(msgspec.Struct, frozen=True, tag=True):
    """salt and adapter are part of the key of everything this session stores in the tree."""

    session: int
    salt: str = ""
    adapter: str = ""


class CloseSession(msgspec.Struct, frozen=True, tag=True):
    """Aborts its requests and releases its leases."""

    session: int


class OpenLease(msgspec.Struct, frozen=True, tag=True):
    """parent None: an empty branch. Otherwise a copy of the parent's tokens and pin, O(1)."""

    lease: int
    session: int
    parent: int | None = None


class ReleaseLease(msgspec.Struct, frozen=True, tag=True):
    lease: int


class TrimLease(msgspec.Struct, frozen=True, tag=True):
    """Keep the first `length` tokens of the lease (after a stop string, or when a draft is taken back)."""

    lease: int
    length: int


class Define(msgspec.Struct, frozen=True, tag=True):
    """grammar: a msgpack-encoded grammars.ir.Grammar."""

    constraint: int
    grammar: bytes


class Forget(msgspec.Struct, frozen=True, tag=True):
    constraint: int


class Generate(msgspec.Struct, frozen=True, tag=True):
    """Append `tokens` to the lease, then generate at most max_tokens. The lease grows by all of them as they come."""

    request: int
    lease: int
    tokens: tuple[int, ...]
    max_tokens: int
    sampling: Sampling
    constraint: int | None = None


class Choose(msgspec.Struct, frozen=True, tag=True):
    """Append `tokens`, then score every continuation, with `top` alternatives for each of its tokens. The lease keeps
    only `tokens`."""

    request: int
    lease: int
    tokens: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]
    top: int = 0


class Prefill(msgspec.Struct, frozen=True, tag=True):
    """Append `tokens` and compute them, so that forks of the lease share them."""

    request: int
    lease: int
    tokens: tuple[int, ...]


class Abort(msgspec.Struct, frozen=True, tag=True):
    request: int


class LoadWeights(msgspec.Struct, frozen=True, tag=True):
    """Compute with the weights of this file from now on. What runs already is finished with the old ones, or ends with
    WeightsReplaced (`end`); what was not begun waits meanwhile."""

    request: int
    path: str
    end: bool = False


class AskStats(msgspec.Struct, frozen=True, tag=True):
    request: int


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End the engine loop."""


Command = (
    OpenSession | CloseSession | OpenLease | ReleaseLease | TrimLease | Define | Forget | Generate | Choose | Prefill
    | Abort | LoadWeights | AskStats | Stop
)

# Events


class Usage(msgspec.Struct, frozen=True):
    """Tokens of the prompt (the lease's length when the request came, its new tokens included), of them reused from
    the tree, of them computed, tokens generated, of them forced, of them thoughts with their delimiters (the session
    layer counts these, the engine does not know them); seconds. mask_s: host time spent on mask rows.
    miss: why the match ended where it did ('complete', 'never seen', 'diverged', 'evicted')."""

    prompt: int = 0
    cached: int = 0
    computed: int = 0
    generated: int = 0
    forced: int = 0
    thoughts: int = 0
    queue_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    mask_s: float = 0.0
    miss: str = ""


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Tokens(msgspec.Struct, frozen=True, tag=True):
    """New tokens of a request, in order; logprobs has one entry a token when they were asked for, else none."""

    request: int
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


class Finished(msgspec.Struct, frozen=True, tag=True):
    """reason: 'stop' (end token, stop id, or the grammar is complete), 'length' (budget), 'done' (Prefill), 'aborted'
    (Abort; the pages are given back).
    stop_id: the end token drawn, which is not part of the text and not in the lease; None when the grammar ended it.
    closed: the answer fits its grammar, and a larger budget would have given another (reason is then 'length')."""

    request: int
    reason: str
    usage: Usage
    stop_id: int | None = None
    closed: bool = False


class Chosen(msgspec.Struct, frozen=True, tag=True):
    """logprobs[k][i]: log-probability of token i of choice k given all before it. top[k][i]: the most likely there."""

    request: int
    logprobs: tuple[tuple[float, ...], ...]
    usage: Usage
    top: tuple[tuple[tuple[tuple[int, float], ...], ...], ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=True):
    """error: name of the error class; the other fields rebuild it. details: the numbers of a BudgetTooSmall. keyword:
    of a ConstraintError."""

    request: int
    error: str
    message: str
    where: str = ""
    fix: str = ""
    details: tuple[int, ...] = ()
    keyword: str = ""


class WeightsLoaded(msgspec.Struct, frozen=True, tag=True):
    """load: how many weights the engine has had so far, the first ones included. No page of another load is left."""

    request: int
    load: int


class Stats(msgspec.Struct, frozen=True, tag=True):
    """Counters since start and the present state, for /metrics and tests. load: as in `WeightsLoaded`."""

    request: int
    pages_free: int
    pages_cached: int
    pages_held: int
    pages_total: int
    running: int
    waiting: int
    steps: int
    tokens_in: int
    tokens_cached: int
    tokens_computed: int
    tokens_out: int
    tokens_forced: int
    host_s: float
    model_s: float
    load: int = 1


class EngineStopped(msgspec.Struct, frozen=True, tag=True):
    """The engine ended; every open request is failed with this cause."""

    message: str


Event = Tokens | Finished | Chosen | Failed | WeightsLoaded | Stats | EngineStopped
