"""Commands of the session layer, checked and turned into requests. Runs in the engine's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..grammars.errors import EspalierError
from .checks import (
    MOST_LOGPROBS,
    check_edits,
    check_integer,
    check_length,
    check_sampling,
    check_stopping,
    check_tokens,
)
from .errors import InvalidParameter, Overloaded, RequestAborted
from .lease import Lease, LeaseTable, TokenChain
from .messages import (
    Abort,
    AskStats,
    Choose,
    Chosen,
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
from .radix_node import Namespace
from .request import ChoiceJob, Generation, Prefilling, Request, Scoring

if TYPE_CHECKING:
    from .engine import Engine


class Reception:
    """Sessions, leases and the open requests by their id (a Choose is several)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._leases = LeaseTable()
        self._open: dict[int, list[Request]] = {}
        self._arrivals = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            OpenSession: self._open_session, CloseSession: self._close_session, OpenLease: self._open_lease,
            ReleaseLease: self._release_lease, TrimLease: self._trim_lease, Define: self._define,
            Forget: self._forget, Generate: self._generate, Choose: self._choose, Prefill: self._prefill,
            Abort: self._abort, AskStats: self._stats,
        }

    def handle(self, command: Command) -> None:
        self._handlers[type(command)](command)

    def owns(self, lease: Lease) -> bool:
        return self._leases.get(lease.id) is lease

    def forget(self, request: Request) -> None:
        """The request has ended."""
        left = [other for other in self._open.get(request.id, ()) if other is not request]
        if left:
            self._open[request.id] = left
        else:
            self._open.pop(request.id, None)

    def lose_pins(self) -> None:
        """The tree is gone; the tokens of the leases stay."""
        for lease in self._leases.all():
            lease.pin = None

    # Sessions and leases

    def _open_session(self, command: OpenSession) -> None:
        self._leases.open_session(command.session, Namespace(command.salt, command.adapter))

    def _close_session(self, command: CloseSession) -> None:
        closed = RequestAborted("the session was closed")
        self._end((r for group in self._open.values() for r in group if r.lease.session == command.session), closed)
        for lease in self._leases.close_session(command.session):
            self._engine.memory.unhold(lease)

    def _open_lease(self, command: OpenLease) -> None:
        lease = self._leases.open(command.lease, command.session, command.parent)
        parent = self._leases.get(command.parent) if command.parent is not None else None
        if lease is not None and parent is not None:
            self._engine.memory.share(parent, lease)

    def _release_lease(self, command: ReleaseLease) -> None:
        lease = self._leases.close(command.lease)
        if lease is not None:
            self._end(self._on(lease), RequestAborted("the branch was released"))
            self._engine.memory.unhold(lease)

    def _trim_lease(self, command: TrimLease) -> None:
        lease = self._leases.get(command.lease)
        if lease is not None:
            growing = (request for request in self._on(lease) if isinstance(request, Generation))
            self._end(growing, RequestAborted("the branch was cut"))
            self._engine.memory.trim(lease, command.length)

    def _on(self, lease: Lease) -> list[Request]:
        return [request for group in self._open.values() for request in group if request.lease is lease]

    # Constraints

    def _define(self, command: Define) -> None:
        self._engine.constraints.define(command.constraint, command.grammar)

    def _forget(self, command: Forget) -> None:
        self._engine.constraints.forget(command.constraint)

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
            if lease is None or lease.busy or command.request in self._open:
                reason = "is not open" if lease is None else "is busy with another request"
                raise InvalidParameter(f"lease {command.lease} {reason}", where="lease")
            check_tokens("tokens", command.tokens, self._engine.executor.vocabulary_size)
            lease.chain.extend(command.tokens)
            self._check_room()
            request = build(lease)
        except Exception as error:  # refused: the caller hears why, nobody else is touched
            self._engine.refuse(command.request, error)
            return
        self._enqueue(request)

    def _check_room(self) -> None:
        most = self._engine.config.max_waiting
        if self._engine.scheduler.waiting >= most:
            raise Overloaded(f"{most} requests are waiting already", where="queue", fix="Try again later.")

    def _check_fit(self, prompt: int, more: int) -> None:
        check_length(prompt, more, self._engine.context)
        pool = self._engine.memory.pool
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
            constrained=command.constraint is not None, vocabulary_size=self._engine.executor.vocabulary_size,
        )
        check_edits(
            frequency_penalty=asked.frequency_penalty, presence_penalty=asked.presence_penalty,
            repetition_penalty=asked.repetition_penalty, logit_bias=asked.logit_bias,
            vocabulary_size=self._engine.executor.vocabulary_size,
        )
        self._check_fit(len(lease.chain), command.max_tokens)
        constrained = None
        if command.constraint is not None:
            constrained = self._engine.constraints.open(command.constraint, command.max_tokens)
        lease.busy = True
        return Generation(
            command.request, lease, lease.chain, self._next(), self._engine.clock(), max_tokens=command.max_tokens,
            sampling=asked, end_ids=self._engine.end_ids, constrained=constrained,
        )

    def _new_prefill(self, command: Prefill, lease: Lease) -> Prefilling:
        self._check_fit(len(lease.chain), 0)
        return Prefilling(command.request, lease, lease.chain.copy(), self._next(), self._engine.clock())

    def _new_choice(self, command: Choose, lease: Lease) -> Scoring:
        self._check_fit(len(lease.chain), max(map(len, command.choices), default=0))
        for choice in command.choices:
            check_tokens("choices", choice, self._engine.executor.vocabulary_size)
        check_integer("logprobs", command.top, 0, MOST_LOGPROBS)
        job = ChoiceJob(command.request, lease, command.choices, len(lease.chain), command.top)
        job.head = self._scoring(job, lease.chain.copy(), job.first_tokens())
        return job.head

    def _scoring(self, job: ChoiceJob, chain: TokenChain, targets: dict[int, tuple[int, ...]]) -> Scoring:
        return Scoring(job.request, job.lease, chain, self._next(), self._engine.clock(), targets=targets, job=job)

    def _next(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def _enqueue(self, request: Request) -> None:
        self._open.setdefault(request.id, []).append(request)
        self._engine.start(request)

    # Choices

    def scored(self, scoring: Scoring) -> None:
        """The head is done: its parts begin. The last part is done: the answer goes out."""
        job = scoring.job
        if scoring is job.head:
            self._begin_parts(job, scoring)
        if job.complete:
            scores = job.scores()
            logprobs = tuple(tuple(one.logprob for one in choice) for choice in scores)
            top = tuple(tuple(one.top for one in choice) for choice in scores) if job.top else ()
            self._engine.emit(Chosen(job.request, logprobs, job.usage(self._engine.clock()), top))

    def _begin_parts(self, job: ChoiceJob, head: Scoring) -> None:
        for index, choice in enumerate(job.choices):
            if len(choice) > 1:
                chain = head.chain.copy()
                chain.extend(choice[:-1])
                job.parts[index] = self._scoring(job, chain, job.rest(index))
        for part in job.parts.values():
            self._enqueue(part)

    # Endings

    def failed(self, request: Request, cause: EspalierError) -> None:
        """A request of one Choose takes the others with it."""
        for other in list(self._open.get(request.id, ())):
            self._engine.release(other)
        self._engine.refuse(request.id, cause)

    def _end(self, requests: Iterable[Request], cause: EspalierError) -> None:
        for request in list(requests):
            self._engine.fail(request, cause)

    def _abort(self, command: Abort) -> None:
        group = list(self._open.get(command.request, ()))
        for request in group:
            self._engine.release(request)
        if group:
            self._engine.aborted(group[0])

    def _stats(self, command: AskStats) -> None:
        engine, pool, counters = self._engine, self._engine.memory.pool, self._engine.counters
        engine.emit(Stats(
            command.request, pages_free=pool.free, pages_cached=pool.cached, pages_held=pool.held,
            pages_total=pool.total, running=engine.scheduler.running, waiting=engine.scheduler.waiting,
            steps=counters.steps, tokens_in=counters.tokens_in, tokens_cached=counters.tokens_cached,
            tokens_computed=counters.tokens_computed, tokens_out=counters.tokens_out,
            tokens_forced=counters.tokens_forced, host_s=counters.host_s, model_s=counters.model_s,
        ))
