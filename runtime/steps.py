"""The steps of an engine: what was planned goes to the device, and what is drawn there to its requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from .device import Device, ExecutorFault
from .executor import Ticket
from .flight import Flight, Owner, by_owner, resolved
from .open_requests import OpenRequests
from .plan import Pick, Sampled
from .scheduler import Share, StepPlan


class Steps:
    """Everything that goes wrong for one request ends in that request."""

    def __init__(self, device: Device, requests: OpenRequests) -> None:
        self._device = device
        self._requests = requests
        self._flight: Flight | None = None

    @property
    def flying(self) -> bool:
        """Whether draws of a step are on their way."""
        return self._flight is not None

    def forget(self) -> None:
        """What is on its way is nobody's any more."""
        self._flight = None

    def run(self, shares: Sequence[Share]) -> None:
        try:
            drawn = self._execute(shares)
        except ExecutorFault as fault:
            self._isolate(shares, fault)
        else:
            self._guarded(shares, self._advance)
            self._take(shares, drawn)

    def _isolate(self, shares: Sequence[Share], fault: ExecutorFault) -> None:
        """The device refused the step: run each row alone, so that only the guilty fail, with their own cause."""
        if len(shares) == 1:
            self._requests.fail(shares[0].request, fault.cause)
            return
        for share in shares:
            if share.request.open:
                self.run((share,))

    # A step before the one ahead of it is read

    def run_ahead(self, shares: tuple[Share, ...]) -> None:
        """Start this step, read the one in flight, then draw from this one, which is in flight from here on."""
        ticket = None
        try:
            if shares:
                ticket = self._forward(shares)
        except ExecutorFault:
            ticket = None
        landed = self._land()
        if ticket is not None and landed:
            self._take_off(shares, ticket)
            return
        for share in shares:  # what they were started on was refused, or they were: each alone
            if share.request.open:
                self.run((resolved(share),))

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
        self._guarded(shares, lambda share: self._requests.scheduler.settle(share.request))
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
                    self._requests.fail(share.request, fault.cause if len(shares) == 1 else own.cause)

    # One step on the device

    def _forward(self, shares: Sequence[Share]) -> Ticket:
        return self._device.forward(StepPlan(tuple(shares)).as_plan(self._requests.counters.steps))

    def _execute(self, shares: Sequence[Share]) -> dict[int, list[list[Sampled]]]:
        """Index of the share -> what was drawn at each of its logits."""
        ticket = self._forward(shares)
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
                self._requests.fail(share.request, error)
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
                    self._requests.fail(share.request, error)

    def _advance(self, share: Share) -> None:
        """Its tokens are computed, for whatever the device is given from here on."""
        request, count = share.request, len(share.row.tokens)
        request.computed += count
        request.usage = structs.replace(request.usage, computed=request.usage.computed + count)
        self._requests.counters.tokens_computed += count

    def _take(self, shares: Sequence[Share], drawn: dict[int, list[list[Sampled]]]) -> None:
        groups = {share.request.arrival: drawn[index] for index, share in enumerate(shares)}
        self._guarded(shares, lambda share: self._take_one(share, groups[share.request.arrival]))

    def _take_one(self, share: Share, drawn: list[list[Sampled]]) -> None:
        request = share.request
        for position, group in zip(share.positions, drawn, strict=True):
            if not group:
                continue
            if request.clocked.first is None:
                request.clocked.first = self._requests.clock()
            request.take(position, group)
        self._requests.tell(request)
        self._requests.scheduler.settle(request)
        if request.complete:
            self._requests.finish(request)
