"""The engine loop: commands in, plan, forward, host work while the device runs, sample, result, events out."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import structs

from .config import EngineConfig
from .constraints import Constraints
from .device import Device, ExecutorFault
from .errors import EngineFault
from .executor import Executor, Ticket
from .faults import describe, pack
from .flight import Flight, Owner, by_owner, resolved
from .memory import Memory
from .messages import Command, Event, Finished, Stop, Tokens
from .plan import Pick, Sampled
from .radix_node import Cursor
from .reception import Reception
from .request import Generation, Request, Scoring
from .scheduler import Scheduler, Share, StepPlan

LOG = logging.getLogger("espalier.engine")
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


class Engine:
    """One model, one pool, one tree. `send` is safe from any thread; everything else runs in the loop's thread.

    end_ids: the end tokens of the model. clock: seconds, monotonic. report: told of internal faults that were
    contained, so that they are seen although nobody dies of them (default: the log 'espalier.engine').
    """

    def __init__(self, executor: Executor, config: EngineConfig | None = None, *, end_ids: Iterable[int] = (),
                 constraints: Constraints | None = None, clock: Clock = time.perf_counter,
                 report: Callable[[Exception], None] | None = None) -> None:
        self.executor = executor
        self.config = config = config or EngineConfig()
        self.context = min(executor.context, config.context or executor.context)
        self.end_ids = frozenset(end_ids)
        self.constraints = constraints or Constraints()
        self.clock = clock
        self.counters = Counters()
        self._device = Device(
            executor, rows=self.constraints.rows, versions=self.constraints.versions, clock=clock)
        self.reception = Reception(self)
        self._report = report or _log_fault
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._outbox: list[Event] = []
        self._stopping = False
        self._flight: Flight | None = None
        self._build_memory()

    def _build_memory(self) -> None:
        self.memory = Memory(self.config.pages, self.config.page)
        self.scheduler = Scheduler(
            self.memory, step_tokens=self.config.step_tokens, max_rows=self.config.max_rows,
        )

    # The loop

    def send(self, command: Command) -> None:
        self._inbox.put(command)

    def run(self, sink: Callable[[Sequence[Event]], None]) -> None:
        """Until Stop. Waits for commands when there is nothing to do."""
        try:
            while not self._stopping:
                self.receive(wait=not self.busy)
                if self.busy and not self._stopping:
                    self.step()
                events = self.take_events()
                if events:
                    sink(events)
        finally:
            self._device.close()

    @property
    def busy(self) -> bool:
        return bool(self.scheduler.waiting or self.scheduler.running)

    def take_events(self) -> list[Event]:
        events, self._outbox = self._outbox, []
        return events

    def emit(self, event: Event) -> None:
        self._outbox.append(event)

    def receive(self, *, wait: bool = False) -> None:
        """Handle every command that has come; with `wait`, at least one."""
        while wait or not self._inbox.empty():
            wait = False
            command = self._inbox.get()
            if isinstance(command, Stop):
                self._stopping = True
                return
            try:
                self.reception.handle(command)
            except Exception as error:  # one command, one victim: what it broke, the checks of the step will tell
                self.counters.faults += 1
                self._report(error)

    def step(self) -> None:
        """One pass: everything that may go wrong for one request ends in that request."""
        began, in_model = self.clock(), self._device.seconds
        try:
            planned = self.scheduler.plan(began)
            for request in planned.done:
                self.finish(request)
            if self.executor.ahead and (planned.shares or self._flight):
                self._run_ahead(planned.shares)
            elif planned.shares:
                self._run_shares(planned)
            elif not planned.done and self.busy:
                raise EngineFault("no request can go on", where=f"step {self.counters.steps}")
            self.memory.check()
        except Exception as error:
            self._contain(error)
        self.counters.steps += 1
        self.counters.model_s = self._device.seconds
        self.counters.host_s += self.clock() - began - (self._device.seconds - in_model)

    def _run_shares(self, planned: StepPlan) -> None:
        try:
            drawn = self._execute(planned.shares)
        except ExecutorFault as fault:
            self._isolate(planned.shares, fault)
        else:
            self._guarded(planned.shares, self._advance)
            self._take(planned.shares, drawn)

    def _isolate(self, shares: Sequence[Share], fault: ExecutorFault) -> None:
        """The device refused the step: run each row alone, so that only the guilty fail, with their own cause."""
        if len(shares) == 1:
            self.fail(shares[0].request, fault.cause)
            return
        for share in shares:
            if share.request.open:
                self._run_shares(StepPlan((share,)))

    # A step before the one ahead of it is read

    def _run_ahead(self, shares: tuple[Share, ...]) -> None:
        """Start this step, read the one in flight, then draw from this one, which is in flight from here on."""
        ticket = None
        try:
            if shares:
                ticket = self._device.forward(StepPlan(shares).as_plan(self.counters.steps))
        except ExecutorFault:
            ticket = None
        landed = self._land()
        if ticket is not None and landed:
            self._take_off(shares, ticket)
            return
        for share in shares:  # what they were started on was refused, or they were: each alone
            if share.request.open:
                self._run_shares(StepPlan((resolved(share),)))

    def _land(self) -> bool:
        """Read the step in flight. False: the device refused it, and its rows were drawn again, each alone."""
        flight, self._flight = self._flight, None
        if flight is None:
            return True
        for share in flight.shares:
            share.request.pending = None
        try:
            drawn = by_owner(flight.shares, flight.owners, self._device.result(flight.ticket, len(flight.owners)))
        except ExecutorFault as fault:
            self._draw_again(flight.shares, fault)
            return False
        self._take(flight.shares, drawn)
        return True

    def _take_off(self, shares: tuple[Share, ...], ticket: Ticket) -> None:
        self._guarded(shares, self._advance)
        self._guarded(shares, lambda share: self.scheduler.settle(share.request))
        picks, owners = self._picks(shares)
        try:
            self._device.sample(ticket, picks)
        except ExecutorFault as fault:
            self._draw_again(shares, fault)
            return
        for pick, (index, _) in enumerate(owners):
            shares[index].request.pending = pick
        self._flight = Flight(shares, ticket, tuple(owners))

    def _draw_again(self, shares: Sequence[Share], fault: ExecutorFault) -> None:
        """The device refused the draws of a step: compute and draw each row alone, so that only the guilty fail. Who
        was parked meanwhile computes again in its turn."""
        for share in shares:
            if share.request.open and share.request.cursor is not None:
                try:
                    self._take((share,), self._execute((resolved(share),)))
                except ExecutorFault as own:
                    self.fail(share.request, fault.cause if len(shares) == 1 else own.cause)

    def start(self, request: Request) -> None:
        """Queue a new request; a generation may be forced from its first token on, even to its end."""
        self.scheduler.add(request)
        try:
            if isinstance(request, Generation):
                request.begin()
                self.tell(request)
                if request.complete:
                    self.finish(request)
        except Exception as error:
            self.fail(request, error)

    # One step on the device

    def _execute(self, shares: Sequence[Share]) -> dict[int, list[list[Sampled]]]:
        """Index of the share -> what was drawn at each of its logits."""
        ticket = self._device.forward(StepPlan(tuple(shares)).as_plan(self.counters.steps))
        picks, owners = self._picks(shares)  # the host's work, while the device computes
        self._device.sample(ticket, picks)
        return by_owner(shares, owners, self._device.result(ticket, len(picks)))

    def _picks(self, shares: Sequence[Share]) -> tuple[list[Pick], list[Owner]]:
        """The picks of a step and whose they are. A failing matcher ends its request."""
        picks: list[Pick] = []
        owners: list[Owner] = []
        logits = 0
        for index, share in enumerate(shares):
            request, mine = share.request, list[list[Pick]]()
            try:
                if request.open:
                    mine = [request.picks(position, logits + k) if request.still_wants(position) else []
                            for k, position in enumerate(share.positions)]
            except Exception as error:
                self.fail(share.request, error)
                mine = []
            for offset, group in enumerate(mine):
                picks += group
                owners += [(index, offset)] * len(group)
            logits += len(share.positions)
        return picks, owners

    # What came of it

    def _guarded(self, shares: Sequence[Share], work: Callable[[Share], None]) -> None:
        """Of each share whose request is open; what is raised ends that request."""
        for share in shares:
            if share.request.open:
                try:
                    work(share)
                except Exception as error:
                    self.fail(share.request, error)

    def _advance(self, share: Share) -> None:
        """Its tokens are computed, for whatever the device is given from here on."""
        request, count = share.request, len(share.row.tokens)
        request.computed += count
        request.usage = structs.replace(request.usage, computed=request.usage.computed + count)
        self.counters.tokens_computed += count

    def _take(self, shares: Sequence[Share], drawn: dict[int, list[list[Sampled]]]) -> None:
        groups = {share.request.arrival: drawn[index] for index, share in enumerate(shares)}
        self._guarded(shares, lambda share: self._take_one(share, groups[share.request.arrival]))

    def _take_one(self, share: Share, drawn: list[list[Sampled]]) -> None:
        request = share.request
        for position, group in zip(share.positions, drawn, strict=True):
            if not group:
                continue
            if request.clocked.first is None:
                request.clocked.first = self.clock()
            request.take(position, group)
        self.tell(request)
        self.scheduler.settle(request)
        if request.complete:
            self.finish(request)

    def tell(self, request: Request) -> None:
        """Send the tokens that the caller has not seen."""
        if isinstance(request, Generation) and request.fresh:
            tokens, logprobs = request.told()
            self.counters.tokens_out += len(tokens)
            self.emit(Tokens(request.id, tokens, logprobs))

    def finish(self, request: Request) -> None:
        self.release(request)
        now = self.clock()
        if isinstance(request, Scoring):
            self.reception.scored(request)
        elif isinstance(request, Generation) and request.end is not None:
            usage, end = request.final_usage(now), request.end
            self.counters.tokens_forced += usage.forced
            self.emit(Finished(request.id, end.reason, usage, end.stop_id, end.closed))
        else:
            self.emit(Finished(request.id, "done", request.final_usage(now)))

    def fail(self, request: Request, cause: Exception) -> None:
        """This request ends with its true cause; its pages are free or the tree's within this call."""
        if request.open:
            self.release(request)
            self.reception.failed(request, describe(cause))

    def aborted(self, request: Request) -> None:
        self.emit(Finished(request.id, "aborted", request.final_usage(self.clock())))

    def refuse(self, request: int, error: Exception) -> None:
        self.emit(pack(request, error))

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
        self.reception.forget(request)

    def _hand_over(self, request: Request, pin: Cursor) -> None:
        """The longer pin stays with the lease, if that is still open."""
        lease = request.lease
        kept = lease.pin.depth if lease.pin else -1
        if self.reception.owns(lease) and not request.is_part and pin.depth >= kept:
            self.memory.hold(lease, pin)
        else:
            self.memory.tree.unpin(pin)

    # Containment

    def _contain(self, error: Exception) -> None:
        """An internal fault: all that was running fails with it, memory starts afresh, the engine goes on (law 1)."""
        self.counters.faults += 1
        self._report(error)
        cause = EngineFault(f"{type(error).__name__}: {error}", where=f"step {self.counters.steps}")
        failed = self.scheduler.requests
        self.reception.lose_pins()
        self._flight = None
        self._build_memory()
        for request in failed:
            request.cursor, request.table, request.computed, request.claim = None, [], 0, None
            request.pending = None
            self.fail(request, cause)


def _log_fault(error: Exception) -> None:
    LOG.error("an internal fault was contained; all requests that ran have failed", exc_info=error)
