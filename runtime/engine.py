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
from .executor import Executor
from .faults import describe, pack
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
            if planned.shares:
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
            self._apply(planned.shares, self._execute(planned.shares))
        except ExecutorFault as fault:
            self._isolate(planned.shares, fault)

    def _isolate(self, shares: Sequence[Share], fault: ExecutorFault) -> None:
        """The device refused the step: run each row alone, so that only the guilty fail, with their own cause."""
        if len(shares) == 1:
            self.fail(shares[0].request, fault.cause)
            return
        for share in shares:
            if share.request.open:
                self._run_shares(StepPlan((share,)))

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
        return _by_owner(shares, owners, self._device.draw(ticket, picks))

    def _picks(self, shares: Sequence[Share]) -> tuple[list[Pick], list[tuple[int, int]]]:
        """The picks of a step and, for each, (share, position within the share). A failing matcher ends its request."""
        picks: list[Pick] = []
        owners: list[tuple[int, int]] = []
        logits = 0
        for index, share in enumerate(shares):
            try:
                mine = [share.request.picks(position, logits + k) for k, position in enumerate(share.positions)]
            except Exception as error:
                self.fail(share.request, error)
                mine = []
            for offset, group in enumerate(mine):
                picks += group
                owners += [(index, offset)] * len(group)
            logits += len(share.positions)
        return picks, owners

    # What came of it

    def _apply(self, shares: Sequence[Share], drawn: dict[int, list[list[Sampled]]]) -> None:
        for index, share in enumerate(shares):
            if share.request.open:
                try:
                    self._apply_one(share, drawn[index])
                except Exception as error:
                    self.fail(share.request, error)

    def _apply_one(self, share: Share, drawn: list[list[Sampled]]) -> None:
        request, count = share.request, len(share.row.tokens)
        request.computed += count
        request.usage = structs.replace(request.usage, computed=request.usage.computed + count)
        self.counters.tokens_computed += count
        for position, group in zip(share.positions, drawn, strict=True):
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
        self._build_memory()
        for request in failed:
            request.cursor, request.table, request.computed, request.claim = None, [], 0, None
            self.fail(request, cause)


def _log_fault(error: Exception) -> None:
    LOG.error("an internal fault was contained; all requests that ran have failed", exc_info=error)


def _by_owner(
    shares: Sequence[Share], owners: Sequence[tuple[int, int]], drawn: Sequence[Sampled]
) -> dict[int, list[list[Sampled]]]:
    """What was drawn, by share and by position within the share."""
    sorted_out: dict[int, list[list[Sampled]]] = {
        index: [[] for _ in share.positions] for index, share in enumerate(shares)
    }
    for (index, offset), sampled in zip(owners, drawn, strict=True):
        sorted_out[index][offset].append(sampled)
    return sorted_out
