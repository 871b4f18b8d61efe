"""Commands of the session layer, checked and turned into requests. Runs in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .checks import (
    MOST_LOGPROBS,
    check_edits,
    check_integer,
    check_length,
    check_sampling,
    check_stopping,
    check_tokens,
)
from .constraints import Constraints
from .errors import InvalidParameter, Overloaded, RequestAborted
from .generating import Generation
from .lease import Lease
from .messages import (
    Abort,
    AskStats,
    Choose,
    CloseSession,
    Command,
    Define,
    Forget,
    Generate,
    OpenLease,
    OpenSession,
    Prefill,
    ReleaseLease,
    Stats,
    TrimLease,
)
from .open_requests import OpenRequests
from .radix_node import Namespace
from .request import Prefilling, Request
from .scoring import ChoiceJob, Scoring


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may ask for: tokens of prompt and answer together, token ids below `vocabulary_size`, so many
    that wait. end_ids: the end tokens of the model."""

    context: int
    vocabulary_size: int
    max_waiting: int
    end_ids: frozenset[int]


class Reception:
    def __init__(self, requests: OpenRequests, constraints: Constraints, limits: Limits,
                 load: Callable[[], int]) -> None:
        """load: how many weights the engine has had."""
        self._load = load
        self._requests = requests
        self._leases = requests.leases
        self._constraints = constraints
        self._limits = limits
        self._handlers: dict[type, Callable[[Any], None]] = {
            OpenSession: self._open_session, CloseSession: self._close_session, OpenLease: self._open_lease,
            ReleaseLease: self._release_lease, TrimLease: self._trim_lease, Define: self._define,
            Forget: self._forget, Generate: self._generate, Choose: self._choose, Prefill: self._prefill,
            Abort: self._abort, AskStats: self._stats,
        }

    def handle(self, command: Command) -> None:
        self._handlers[type(command)](command)

    # Sessions and leases

    def _open_session(self, command: OpenSession) -> None:
        self._leases.open_session(command.session, Namespace(command.salt, command.adapter))

    def _close_session(self, command: CloseSession) -> None:
        self._requests.end(self._requests.of(command.session), RequestAborted("the session was closed"))
        for lease in self._leases.close_session(command.session):
            self._requests.memory.unhold(lease)

    def _open_lease(self, command: OpenLease) -> None:
        lease = self._leases.open(command.lease, command.session, command.parent)
        parent = self._leases.get(command.parent) if command.parent is not None else None
        if lease is not None and parent is not None:
            self._requests.memory.share(parent, lease)

    def _release_lease(self, command: ReleaseLease) -> None:
        lease = self._leases.close(command.lease)
        if lease is not None:
            self._requests.end(self._requests.on(lease), RequestAborted("the branch was released"))
            self._requests.memory.unhold(lease)

    def _trim_lease(self, command: TrimLease) -> None:
        lease = self._leases.get(command.lease)
        if lease is not None:
            growing = (request for request in self._requests.on(lease) if isinstance(request, Generation))
            self._requests.end(growing, RequestAborted("the branch was cut"))
            self._requests.memory.trim(lease, command.length)

    # Constraints

    def _define(self, command: Define) -> None:
        self._constraints.define(command.constraint, command.grammar)

    def _forget(self, command: Forget) -> None:
        self._constraints.forget(command.constraint)

    # Requests

    def _generate(self, command: Generate) -> None:
        self._admit(command, lambda lease: self._new_generation(command, lease))

    def _prefill(self, command: Prefill) -> None:
        self._admit(command, lambda lease: self._new_prefill(command, lease))

    def _choose(self, command: Choose) -> None:
        self._admit(command, lambda lease: self._new_choice(command, lease))

    def _admit(self, command: Generate | Prefill | Choose, build: Callable[[Lease], Request]) -> None:
        """The tokens join the lease in any case; the request joins the queue when nothing speaks against it."""
        try:
            lease = self._leases.get(command.lease)
            if lease is None or lease.busy or command.request in self._requests:
                reason = "is not open" if lease is None else "is busy with another request"
                raise InvalidParameter(f"lease {command.lease} {reason}", where="lease")
            check_tokens("tokens", command.tokens, self._limits.vocabulary_size)
            lease.chain.extend(command.tokens)
            self._check_room()
            request = build(lease)
        except Exception as error:  # refused: the caller hears why, nobody else is touched
            self._requests.refuse(command.request, error)
            return
        self._requests.start(request)

    def _check_room(self) -> None:
        most = self._limits.max_waiting
        if self._requests.scheduler.waiting >= most:
            raise Overloaded(f"{most} requests are waiting already", where="queue", fix="Try again later.")

    def _check_fit(self, prompt: int, more: int) -> None:
        check_length(prompt, more, self._limits.context)
        pool = self._requests.memory.pool
        if pool.pages_for(prompt + more) > pool.total:
            raise Overloaded(
                f"{prompt} + {more} tokens need {pool.pages_for(prompt + more)} pages and the pool has {pool.total}",
                where="pages", fix="Shorten the request or start the engine with more pages.",
            )

    def _new_generation(self, command: Generate, lease: Lease) -> Generation:
        asked = command.sampling
        check_sampling(
            max_tokens=command.max_tokens, temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p,
            min_p=asked.min_p, seed=asked.seed, logprobs=asked.logprobs,
        )
        check_stopping(
            stop_ids=asked.stop_ids, min_tokens=asked.min_tokens, max_tokens=command.max_tokens,
            constrained=command.constraint is not None, vocabulary_size=self._limits.vocabulary_size,
        )
        check_edits(
            frequency_penalty=asked.frequency_penalty, presence_penalty=asked.presence_penalty,
            repetition_penalty=asked.repetition_penalty, logit_bias=asked.logit_bias,
            vocabulary_size=self._limits.vocabulary_size,
        )
        self._check_fit(len(lease.chain), command.max_tokens)
        constrained = None
        if command.constraint is not None:
            constrained = self._constraints.open(command.constraint, command.max_tokens)
        lease.busy = True
        return Generation(
            command.request, lease, lease.chain, self._requests.next_arrival(), self._requests.clock(),
            max_tokens=command.max_tokens, sampling=asked, end_ids=self._limits.end_ids, constrained=constrained,
        )

    def _new_prefill(self, command: Prefill, lease: Lease) -> Prefilling:
        self._check_fit(len(lease.chain), 0)
        arrival, now = self._requests.next_arrival(), self._requests.clock()
        return Prefilling(command.request, lease, lease.chain.copy(), arrival, now)

    def _new_choice(self, command: Choose, lease: Lease) -> Scoring:
        self._check_fit(len(lease.chain), max(map(len, command.choices), default=0))
        for choice in command.choices:
            check_tokens("choices", choice, self._limits.vocabulary_size)
        check_integer("logprobs", command.top, 0, MOST_LOGPROBS)
        job = ChoiceJob(command.request, lease, command.choices, len(lease.chain), command.top)
        job.head = self._requests.scoring(job, lease.chain.copy(), job.first_tokens())
        return job.head

    # Endings and numbers

    def _abort(self, command: Abort) -> None:
        self._requests.abort(command.request)

    def _stats(self, command: AskStats) -> None:
        requests, pool, counters = self._requests, self._requests.memory.pool, self._requests.counters
        requests.emit(Stats(
            command.request, pages_free=pool.free, pages_cached=pool.cached, pages_held=pool.held,
            pages_total=pool.total, running=requests.scheduler.running, waiting=requests.scheduler.waiting,
            steps=counters.steps, tokens_in=counters.tokens_in, tokens_cached=counters.tokens_cached,
            tokens_computed=counters.tokens_computed, tokens_out=counters.tokens_out,
            tokens_forced=counters.tokens_forced, host_s=counters.host_s, model_s=counters.model_s,
            load=self._load(),
        ))
