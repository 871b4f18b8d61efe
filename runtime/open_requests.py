"""The open requests of an engine: how they begin, what is told of them, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..grammars.errors import EspalierError
from .config import EngineConfig
from .faults import describe, pack
from .generating import Generation
from .lease import Lease, LeaseTable, TokenChain
from .memory import Memory
from .messages import Chosen, Event, Finished, Tokens
from .radix_node import Cursor
from .request import Request
from .scheduler import Scheduler
from .scoring import ChoiceJob, Scoring

Clock = Callable[[], float]


@dataclass(slots=True)
class Counters:
    """Since start; the fields of `Stats` of the same names."""

    steps: int = 0
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_computed: int = 0
    tokens_out: int = 0
    tokens_forced: int = 0
    host_s: float = 0.0
    model_s: float = 0.0
    faults: int = 0


class OpenRequests:
    """By their id (a Choose is several), with the memory that they share and the events that tell of them.

    memory, scheduler: replaced by `lose_memory`. leases: those of the sessions, on which requests work.
    """

    def __init__(self, config: EngineConfig, clock: Clock) -> None:
        self.leases = LeaseTable()
        self.counters = Counters()
        self.clock = clock
        self._config = config
        self._open: dict[int, list[Request]] = {}
        self._arrivals = 0
        self._outbox: list[Event] = []
        self._renew()

    def _renew(self) -> None:
        self.memory = Memory(self._config.pages, self._config.page)
        self.scheduler = Scheduler(self.memory, step_tokens=self._config.step_tokens, max_rows=self._config.max_rows)

    def lose_memory(self) -> list[Request]:
        """Memory starts afresh; the tokens of the leases stay. Returns the requests that had a part of it, which have
        nothing any more and are the caller's to fail."""
        lost = self.scheduler.requests
        for lease in self.leases.all():
            lease.pin = None
        self._renew()
        for request in lost:
            request.cursor, request.table, request.computed, request.claim = None, [], 0, None
            request.pending = None
        return lost

    # Who is open

    def next_arrival(self) -> int:
        self._arrivals += 1
        return self._arrivals

    def __contains__(self, id: int) -> bool:
        return id in self._open

    def on(self, lease: Lease) -> list[Request]:
        return [request for group in self._open.values() for request in group if request.lease is lease]

    def of(self, session: int) -> list[Request]:
        return [request for group in self._open.values() for request in group if request.lease.session == session]

    # Events

    def emit(self, event: Event) -> None:
        self._outbox.append(event)

    def take_events(self) -> list[Event]:
        events, self._outbox = self._outbox, []
        return events

    def tell(self, request: Request) -> None:
        """Send the tokens that the caller has not seen."""
        if isinstance(request, Generation) and request.fresh:
            tokens, logprobs = request.told()
            self.counters.tokens_out += len(tokens)
            self.emit(Tokens(request.id, tokens, logprobs))

    # Beginnings

    def start(self, request: Request) -> None:
        """Queue a new request; a generation may be forced from its first token on, even to its end."""
        self._open.setdefault(request.id, []).append(request)
        self.scheduler.add(request)
        try:
            if isinstance(request, Generation):
                request.begin()
                self.tell(request)
                if request.complete:
                    self.finish(request)
        except Exception as error:
            self.fail(request, error)

    def scoring(self, job: ChoiceJob, chain: TokenChain, targets: dict[int, tuple[int, ...]]) -> Scoring:
        """Of one part of a Choose, not started."""
        return Scoring(job.request, job.lease, chain, self.next_arrival(), self.clock(), targets=targets, job=job)

    def _begin_parts(self, job: ChoiceJob, head: Scoring) -> None:
        for index, choice in enumerate(job.choices):
            if len(choice) > 1:
                chain = head.chain.copy()
                chain.extend(choice[:-1])
                job.parts[index] = self.scoring(job, chain, job.rest(index))
        for part in job.parts.values():
            self.start(part)

    # Endings

    def finish(self, request: Request) -> None:
        self.release(request)
        now = self.clock()
        if isinstance(request, Scoring):
            self._scored(request)
        elif isinstance(request, Generation) and request.end is not None:
            usage, end = request.final_usage(now), request.end
            self.counters.tokens_forced += usage.forced
            self.emit(Finished(request.id, end.reason, usage, end.stop_id, end.closed))
        else:
            self.emit(Finished(request.id, "done", request.final_usage(now)))

    def _scored(self, scoring: Scoring) -> None:
        """The head is done: its parts begin. The last part is done: the answer goes out."""
        job = scoring.job
        if scoring is job.head:
            self._begin_parts(job, scoring)
        if job.complete:
            scores = job.scores()
            logprobs = tuple(tuple(one.logprob for one in choice) for choice in scores)
            top = tuple(tuple(one.top for one in choice) for choice in scores) if job.top else ()
            self.emit(Chosen(job.request, logprobs, job.usage(self.clock()), top))

    def fail(self, request: Request, cause: Exception) -> None:
        """This request ends with its true cause, and one of a Choose takes the others with it; their pages are free or
        the tree's within this call."""
        if request.open:
            self.release(request)
            for other in list(self._open.get(request.id, ())):
                self.release(other)
            self.refuse(request.id, describe(cause))

    def end(self, requests: Iterable[Request], cause: EspalierError) -> None:
        for request in list(requests):
            self.fail(request, cause)

    def abort(self, id: int) -> None:
        """Its end is told; nothing is said of an id that is not open."""
        group = list(self._open.get(id, ()))
        for request in group:
            self.release(request)
        if group:
            self.emit(Finished(id, "aborted", group[0].final_usage(self.clock())))

    def refuse(self, id: int, error: Exception) -> None:
        self.emit(pack(id, error))

    def release(self, request: Request) -> None:
        """The request leaves: its computed pages are the tree's, and its lease keeps them from eviction."""
        request.open = False
        self.scheduler.remove(request)
        pin = self.memory.leave(request)
        if pin is not None:
            self._hand_over(request, pin)
        if isinstance(request, Generation):
            request.lease.busy = False
        if not request.is_part:
            self.counters.tokens_in += request.prompt
            self.counters.tokens_cached += request.usage.cached
        request.close()
        self._forget(request)

    def _hand_over(self, request: Request, pin: Cursor) -> None:
        """The longer pin stays with the lease, if that is still open."""
        lease = request.lease
        kept = lease.pin.depth if lease.pin else -1
        if self.leases.get(lease.id) is lease and not request.is_part and pin.depth >= kept:
            self.memory.hold(lease, pin)
        else:
            self.memory.tree.unpin(pin)

    def _forget(self, request: Request) -> None:
        left = [other for other in self._open.get(request.id, ()) if other is not request]
        if left:
            self._open[request.id] = left
        else:
            self._open.pop(request.id, None)
