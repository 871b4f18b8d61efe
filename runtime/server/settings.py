"""The limits and times of one server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """api_key: None leaves the server open to all who reach it. hosts: the names a request may be addressed to, beside
    IP addresses (None: any; used with an open server on a loopback address, against DNS rebinding). head_seconds: time
    to send the head of a request in. body_bytes: largest request body. bodies_bytes: what those that are being read may
    hold together; more get a 429. body_seconds: time to send one in. capacity: requests held at once, queued ones
    included; more get a 429. default_tokens: answer budget when the caller names none and the context has room for it.
    heartbeat_seconds: a stream that is silent so long gets a comment line, and a request that has neither begun nor
    failed after that time gets its 200. stall_seconds: a client that reads nothing for so long counts as gone.
    drain_seconds: time that running answers have left at shutdown. weights: the folder that other weights may be loaded
    from, by who knows the admin_key; None: there is no such route."""

    api_key: str | None = None
    hosts: frozenset[str] | None = None
    body_bytes: int = 4 << 20
    bodies_bytes: int = 256 << 20
    head_seconds: float = 30.0
    body_seconds: float = 60.0
    capacity: int = 4096
    default_tokens: int = 2048
    heartbeat_seconds: float = 5.0
    stall_seconds: float = 60.0
    drain_seconds: float = 30.0
    weights: Path | None = None
    admin_key: str | None = None
