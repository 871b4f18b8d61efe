"""Who may ask: a dependency of every route but /health, so that no spelling of a path goes around it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

from starlette.requests import Request

from .errors import ForbiddenHost, Unauthorized
from .settings import Settings


class Guard:
    """Asks for the key where there is one. Where there is none, it asks that the request was addressed to an IP address
    or a known name: a web page that points its own name at this machine (DNS rebinding) is turned away."""

    def __init__(self, settings: Settings) -> None:
        self._key = None if settings.api_key is None else _digest(settings.api_key.encode())
        self._hosts = settings.hosts

    async def __call__(self, request: Request) -> None:
        if self._key is not None:
            self._check_key(request.headers.get("authorization", ""))
        elif self._hosts is not None:
            self._check_host(request.headers.get("host", ""))

    def _check_key(self, header: str) -> None:
        scheme, _, given = header.partition(" ")
        if scheme.lower() != "bearer" or not _matches(given.strip(), self._key or b""):
            raise Unauthorized(
                "the API key is missing or wrong", fix="Send it in the header authorization: Bearer KEY."
            )

    def _check_host(self, header: str) -> None:
        name = _host_name(header)
        if name not in (self._hosts or ()) and not _is_address(name):
            raise ForbiddenHost(
                "this server has no API key and does not answer to this name", where="host",
                fix="Use its address, or start it with an API key.",
            )


class AdminGuard:
    """Of routes that are the operator's, beside the other guard. A header of its own, which no web page can send to
    another origin without asking first."""

    header = "x-espalier-admin-key"

    def __init__(self, key: str) -> None:
        self._key = _digest(key.encode())

    async def __call__(self, request: Request) -> None:
        if not _matches(request.headers.get(self.header, ""), self._key):
            raise Unauthorized("the admin key is missing or wrong", fix=f"Send it in the header {self.header}.")


def _matches(given: str, key: bytes) -> bool:
    """given: a header, as it came. key: a digest."""
    return hmac.compare_digest(_digest(given.encode("latin-1")), key)


def _digest(key: bytes) -> bytes:
    """Of one length whatever the key, so that a comparison tells nothing about it."""
    return hashlib.sha256(key).digest()


def _host_name(header: str) -> str:
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
