"""Who computes what in the next step: one token budget, no phases, so that chunked prefill falls out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import structs

from .memory import Memory
from .plan import PageCopy, Plan, Row
from .radix_node import MatchResult, Node
from .request import Request

# Pages kept free for each running request when another is admitted. 48 requests of 201 + 150 tokens over 80 and 160
# pages of 16: 0 computes 1.32 and 1.40 times the least possible, 1 1.15 and 1.21, 2 1.02 and 1.13, 4 1.04 and 1.08 but
# in 7 % more steps.
HEADROOM = 2


def order(requests: Iterable[Request]) -> list[Request]:
    """The order in which requests get their share of a step: arrival."""
    return sorted(requests, key=lambda request: request.arrival)


@dataclass(frozen=True, slots=True)
class Share:
    """One request's part of a step: its row, the positions of its logits, and the page it needs copied first."""

    request: Request
    row: Row
    positions: tuple[int, ...]
    copy: PageCopy | None = None


@dataclass(frozen=True, slots=True)
class StepPlan:
    """done: requests that the tree answered whole; they are in no row."""

    shares: tuple[Share, ...] = ()
    done: tuple[Request, ...] = ()

    def as_plan(self, step: int) -> Plan:
        copies = tuple(share.copy for share in self.shares if share.copy is not None)
        return Plan(step, tuple(share.row for share in self.shares), copies)


@dataclass(slots=True)
class _Draft:
    """A plan in the making. short: somebody found no room, so that nobody is admitted behind him."""

    tokens: int
    rows: int
    short: bool = False
    shares: list[Share] = field(default_factory=list)
    done: list[Request] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.tokens <= 0 or len(self.shares) >= self.rows

    def add(self, share: Share) -> None:
        self.shares.append(share)
        self.tokens -= len(share.row.tokens)


class Scheduler:
    """Requests that wait and requests that run (those with pages).

    Memory is given in order of arrival: a request that finds no room parks younger running ones, and waits when there
    are none. So the oldest always goes on. A request whose next page is being computed by another waits for it.
    held: nobody begins; who has begun goes on to his end.
    """

    def __init__(self, memory: Memory, *, step_tokens: int, max_rows: int) -> None:
        self._memory = memory
        self._step_tokens = step_tokens
        self._max_rows = max_rows
        self._waiting: dict[int, Request] = {}  # by arrival, in the order of coming
        self._running: dict[int, Request] = {}
        self._claims: dict[tuple[Node, tuple[int, ...]], Request] = {}
        self._departures = 0  # how many requests have ended
        self.held = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def requests(self) -> list[Request]:
        return order((*self._waiting.values(), *self._running.values()))

    @property
    def begun(self) -> list[Request]:
        """Those that were computed in part, and the parts of such."""
        return [request for request in self.requests if request.begun]

    def add(self, request: Request) -> None:
        self._waiting[request.arrival] = request

    def remove(self, request: Request) -> None:
        """Forget a request; its pages are the caller's to release."""
        self._waiting.pop(request.arrival, None)
        self._running.pop(request.arrival, None)
        self._unclaim(request)
        self._departures += 1

    def plan(self, now: float) -> StepPlan:
        draft = _Draft(self._step_tokens, self._max_rows)
        for request in self.requests:
            if draft.full:
                break
            if request.cursor is not None:
                self._advance(request, draft)
            elif request.arrival in self._waiting and not draft.short and (request.begun or not self.held):
                self._admit(request, draft, now)
        self._memory.end_plan()
        return StepPlan(tuple(draft.shares), tuple(draft.done))

    def settle(self, request: Request) -> None:
        """After a step: filled pages go to the tree, and the request's claim moves on."""
        self._memory.settle(request)
        self._unclaim(request)
        self._claim(request)

    # Running

    def _advance(self, request: Request, draft: _Draft, copy: PageCopy | None = None) -> None:
        count = min(request.ready - request.computed, draft.tokens)
        if count <= 0:
            return  # all of it is on the device
        if not self._make_room(request, request.computed + count):
            self.park(request)
            draft.short = True
            return
        start, end = request.computed, request.computed + count
        positions = request.wanted(start, end)
        unread = max(0, end - request.known)
        row = Row(
            tokens=(*request.chain.slice(start, end - unread), *(0,) * unread), start=start,
            sampled_from=request.pending if unread else None,
            pages=tuple(request.table[:self._memory.pool.pages_for(end)]),
            logits_at=tuple(position - start for position in positions), owner=request.arrival,
        )
        draft.add(Share(request, row, positions, copy))

    def _make_room(self, request: Request, end: int) -> bool:
        while not self._memory.grow(request, end):
            youngest = max(self._running.values(), key=lambda other: other.arrival, default=None)
            if youngest is None or youngest.arrival <= request.arrival:
                return False
            self.park(youngest)
        return True

    def park(self, request: Request) -> None:
        """Its finished pages stay in the tree, unpinned; the rest is free. It goes on when others have left."""
        self._memory.drop(request)
        self._running.pop(request.arrival, None)
        self._unclaim(request)
        request.parked_at = self._departures
        self._waiting[request.arrival] = request

    # Waiting

    def _admit(self, request: Request, draft: _Draft, now: float) -> None:
        if self._must_wait(request):
            return
        found = self._memory.match(request)
        if self._is_coming(request, found):
            return
        self._start(request, found, now)
        if found.length >= request.known:
            self._memory.enter_whole(request, found)
            draft.done.append(request)
            return
        self._memory.enter(request, found)
        if not request.is_part:
            self._memory.unhold(request.lease)  # its pages are pinned by the cursor now, and its tail may be covered
        if not self._has_headroom(request):
            self.park(request)
            draft.short = True
            return
        self._claim(request)
        self._advance(request, draft, self._copy_partial(request, found, draft))

    def _has_headroom(self, request: Request) -> bool:
        """Room for all that the request knows, and for what those that run already will soon ask for: one that is
        admitted too early is parked soon, and computes twice."""
        others = len(self._running) - 1
        need = self._memory.pool.pages_for(request.known) - len(request.table)
        return not others or self._memory.make_free(need + HEADROOM * others)

    def _copy_partial(self, request: Request, found: MatchResult, draft: _Draft) -> PageCopy | None:
        copy = self._memory.copy_partial(request, found)
        if copy is None or self._make_room(request, min(request.known, request.computed + draft.tokens)):
            return copy
        self._memory.undo_copy(request, copy)
        return None

    def _start(self, request: Request, found: MatchResult, now: float) -> None:
        del self._waiting[request.arrival]
        self._running[request.arrival] = request
        if request.clocked.admitted is None:
            request.clocked.admitted = now
            cached = min(found.length, request.prompt)
            request.usage = structs.replace(request.usage, cached=cached, miss=found.miss)

    def _must_wait(self, request: Request) -> bool:
        """Work that was parked while its token was drawn waits for that; parked work for a departure, or for an empty
        device; a sharer for the page that is coming."""
        if request.pending is not None:
            return True
        if request.parked_at == self._departures and self._running:
            return True
        if request.waits_for is None:
            return False
        other, claim = request.waits_for
        return other.claim == claim

    def _is_coming(self, request: Request, found: MatchResult) -> bool:
        page = self._memory.page
        if found.depth != found.node.end or found.depth + page > request.reuse_limit:
            return False
        claim = (found.node, tuple(request.chain.slice(found.depth, found.depth + page)))
        other = self._claims.get(claim)
        request.waits_for = None if other is None else (other, claim)
        return other is not None

    # Claims: (node, next page of tokens) -> the request that is computing that page

    def _claim(self, request: Request) -> None:
        cursor, page = request.cursor, self._memory.page
        if cursor is not None and cursor.depth + page <= request.known:
            claim = (cursor.node, tuple(request.chain.slice(cursor.depth, cursor.depth + page)))
            if self._claims.setdefault(claim, request) is request:
                request.claim = claim

    def _unclaim(self, request: Request) -> None:
        if request.claim is not None:
            del self._claims[request.claim]
            request.claim = None
