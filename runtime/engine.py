"""The engine loop: commands in, plan, forward, host work while the device runs, sample, result, events out."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterable, Sequence

from .config import EngineConfig
from .constraints import Constraints
from .device import Device
from .errors import EngineFault
from .exchange import WeightsExchange, WeightsRead
from .executor import Executor
from .memory import Memory
from .messages import Command, Event, LoadWeights, Stop
from .open_requests import Clock, Counters, OpenRequests
from .reception import Limits, Reception
from .scheduler import Scheduler
from .steps import Steps

LOG = logging.getLogger("espalier.engine")


class Engine:
    """One model, one pool, one tree. `send` is safe from any thread; everything else runs in the loop's thread.

    end_ids: the end tokens of the model. clock: seconds, monotonic. report: told of internal faults that were
    contained, so that they are seen although nobody dies of them (default: the log 'espalier.engine').
    """

    def __init__(self, executor: Executor, config: EngineConfig | None = None, *, end_ids: Iterable[int] = (),
                 constraints: Constraints | None = None, clock: Clock = time.perf_counter,
                 report: Callable[[Exception], None] | None = None) -> None:
        config = config or EngineConfig()
        self.constraints = constraints or Constraints()
        self.context = min(executor.context, config.context or executor.context)
        self.requests = OpenRequests(config, clock)
        limits = Limits(self.context, executor.vocabulary_size, config.max_waiting, frozenset(end_ids))
        self._ahead = executor.ahead
        self._inbox: queue.SimpleQueue[Command | WeightsRead] = queue.SimpleQueue()
        self.weights = WeightsExchange(executor.prepare, self.requests, self._inbox.put)
        self._reception = Reception(self.requests, self.constraints, limits, lambda: self.weights.load)
        self._device = Device(
            executor, rows=self.constraints.rows, versions=self.constraints.versions, clock=clock)
        self._steps = Steps(self._device, self.requests)
        self._clock = clock
        self._report = report or _log_fault
        self._stopping = False

    @property
    def counters(self) -> Counters:
        return self.requests.counters

    @property
    def memory(self) -> Memory:
        return self.requests.memory

    @property
    def scheduler(self) -> Scheduler:
        return self.requests.scheduler

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
        return bool(self.scheduler.waiting or self.scheduler.running or self.weights.due)

    def take_events(self) -> list[Event]:
        return self.requests.take_events()

    def receive(self, *, wait: bool = False) -> None:
        """Handle every command that has come; with `wait`, at least one."""
        while wait or not self._inbox.empty():
            wait = False
            command = self._inbox.get()
            if isinstance(command, Stop):
                self._stopping = True
                return
            try:
                self._handle(command)
            except Exception as error:  # one command, one victim: what it broke, the checks of the step will tell
                self.counters.faults += 1
                self._report(error)

    def _handle(self, command: Command | WeightsRead) -> None:
        if isinstance(command, WeightsRead):
            self.weights.read(command)
        elif isinstance(command, LoadWeights):
            self.weights.begin(command)
        else:
            self._reception.handle(command)

    def step(self) -> None:
        """One pass: everything that may go wrong for one request ends in that request."""
        began, in_model = self._clock(), self._device.seconds
        if self.weights.due:
            self._steps.run_ahead(())  # what is on its way was drawn from the old weights, for nobody any more
            self.weights.take_over()
        try:
            planned = self.scheduler.plan(began)
            for request in planned.done:
                self.requests.finish(request)
            if self._ahead and (planned.shares or self._steps.flying):
                self._steps.run_ahead(planned.shares)
            elif planned.shares:
                self._steps.run(planned.shares)
            elif not planned.done and self.busy:
                raise EngineFault("no request can go on", where=f"step {self.counters.steps}")
            self.memory.check()
        except Exception as error:
            self._contain(error)
        self.counters.steps += 1
        self.counters.model_s = self._device.seconds
        self.counters.host_s += self._clock() - began - (self._device.seconds - in_model)

    def _contain(self, error: Exception) -> None:
        """An internal fault: all that was running fails with it, memory starts afresh, the engine goes on (law 1)."""
        self.counters.faults += 1
        self._report(error)
        self._steps.forget()
        cause = EngineFault(f"{type(error).__name__}: {error}", where=f"step {self.counters.steps}")
        for request in self.requests.lose_memory():
            self.requests.fail(request, cause)


def _log_fault(error: Exception) -> None:
    LOG.error("an internal fault was contained; all requests that ran have failed", exc_info=error)
