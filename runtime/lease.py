"""The engine's side of a branch: a chain of token segments, and a pin on the tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .radix_node import Cursor, Namespace


@dataclass(frozen=True, slots=True)
class Link:
    """Tokens that no longer change, after those of `before`. `end`: tokens up to here, these included."""

    before: Link | None
    tokens: tuple[int, ...]
    end: int


class TokenChain:
    """Token ids as a chain of shared segments and a tail of its own: copying is O(1), whatever the length."""

    def __init__(self, frozen: Link | None = None) -> None:
        self._frozen = frozen
        self._tail: list[int] = []

    def __len__(self) -> int:
        return (self._frozen.end if self._frozen else 0) + len(self._tail)

    def extend(self, tokens: Iterable[int]) -> None:
        self._tail.extend(tokens)

    def copy(self) -> TokenChain:
        """The tail becomes a segment that both share."""
        if self._tail:
            self._frozen = Link(self._frozen, tuple(self._tail), len(self))
            self._tail = []
        return TokenChain(self._frozen)

    def trim(self, length: int) -> None:
        """Keep the first `length` tokens."""
        while self._frozen is not None and self._frozen.end > length:
            link, self._tail = self._frozen, []
            self._frozen = link.before
            self._tail = list(link.tokens[:max(0, length - (link.end - len(link.tokens)))])
        begin = self._frozen.end if self._frozen else 0
        del self._tail[max(0, length - begin):]

    def slice(self, start: int, end: int) -> list[int]:
        """Tokens [start, end); walks only the segments behind `start`."""
        begin = self._frozen.end if self._frozen else 0
        parts: list[list[int] | tuple[int, ...]] = [self._tail[max(0, start - begin):max(0, end - begin)]]
        link = self._frozen
        while link is not None and link.end > start:
            begin = link.end - len(link.tokens)
            parts.append(link.tokens[max(0, start - begin):max(0, end - begin)])
            link = link.before
        return [token for part in reversed(parts) for token in part]


@dataclass(slots=True, eq=False)
class Lease:
    """pin: keeps the computed pages of the tokens while no request works on the lease. It is soft: when memory is
    short it is dropped (the tokens stay, the pages may have to be computed again). busy: a request grows it now."""

    id: int
    session: int
    namespace: Namespace
    chain: TokenChain = field(default_factory=TokenChain)
    pin: Cursor | None = None
    busy: bool = False


class LeaseTable:
    """Sessions and what they own. Lease ids are unique per engine; a lease belongs to one session."""

    def __init__(self) -> None:
        self._sessions: dict[int, Namespace] = {}
        self._leases: dict[int, Lease] = {}

    def open_session(self, session: int, namespace: Namespace) -> None:
        self._sessions[session] = namespace

    def close_session(self, session: int) -> list[Lease]:
        """Forgets the session and returns the leases that it left behind."""
        self._sessions.pop(session, None)
        left = [lease for lease in self._leases.values() if lease.session == session]
        for lease in left:
            del self._leases[lease.id]
        return left

    def open(self, lease: int, session: int, parent: int | None) -> Lease | None:
        """None when the session or the parent is not known (it was closed meanwhile)."""
        namespace, source = self._sessions.get(session), self._leases.get(parent) if parent is not None else None
        if namespace is None or (parent is not None and source is None):
            return None
        chain = source.chain.copy() if source else TokenChain()
        if source and source.namespace != namespace:
            return None  # a copy across salts would share pages (law 8)
        self._leases[lease] = Lease(lease, session, namespace, chain)
        return self._leases[lease]

    def get(self, lease: int) -> Lease | None:
        return self._leases.get(lease)

    def all(self) -> list[Lease]:
        return list(self._leases.values())

    def close(self, lease: int) -> Lease | None:
        return self._leases.pop(lease, None)
