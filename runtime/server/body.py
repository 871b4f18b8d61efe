"""A request body becomes JSON: bounded while it is read, strict, with exact numbers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from ..errors import Overloaded
from .errors import BodyTooLarge, BodyTooSlow, ClientGone, InvalidBody, UnsupportedMediaType
from .settings import Settings

Json = None | bool | int | float | Decimal | str | list["Json"] | dict[str, "Json"]

# Schemas of 256 levels nest twice that deep (properties / name); Python's own reader gives up near 1000.
MOST_DEPTH = 600
# Read and dropped before a 413: a client that is still sending would see a reset connection instead of the answer.
DRAINED_LIMITS = 16


class Bodies:
    """Those that are being read, of one server, which hold `settings.bodies_bytes` together at most."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Only `application/json` is read: a foreign web page cannot send that without asking first. Raises Overloaded
        where others hold too much."""
        _check_type(request.headers.get("content-type", ""))
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                return await self._read(request)
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive in {self._settings.body_seconds:g} seconds") from None
        except ClientDisconnect:
            raise ClientGone from None

    async def _read(self, request: Request) -> bytes:
        limit, size, held = self._settings.body_bytes, 0, 0
        parts: list[bytes] = []
        try:
            async for part in request.stream():
                size += len(part)
                if size > limit * DRAINED_LIMITS:
                    break
                if size > limit:
                    parts.clear()
                    self._held, held = self._held - held, 0
                    continue
                parts.append(part)
                self._held, held = self._held + len(part), size
                if held < self._held and self._held > self._settings.bodies_bytes:
                    raise Overloaded("the bodies of other requests take all the room there is", fix="Try again later.")
        finally:
            self._held -= held
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        return b"".join(parts)


def parse(raw: bytes) -> Json:
    """Fractions come as Decimal, so that a schema keeps the numbers that were written."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as cause:
        raise InvalidBody(f"the body is not UTF-8: byte {cause.start} cannot be read") from None
    try:
        value: Json = json.loads(
            text, parse_float=_fraction, parse_constant=_no_constant, object_pairs_hook=_distinct_keys
        )
    except RecursionError:
        raise InvalidBody(f"the body nests deeper than {MOST_DEPTH} levels") from None
    except json.JSONDecodeError as cause:
        place = f"line {cause.lineno} column {cause.colno}"
        raise InvalidBody(f"the body is not JSON: {cause.msg}", where=place) from None
    except ValueError:  # Python's limit on the digits of one integer
        raise InvalidBody("the body holds an integer with too many digits") from None
    _check_depth_and_text(value)
    return value


def _check_type(header: str) -> None:
    kind, _, parameters = header.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8"):
        raise UnsupportedMediaType(
            "the body must be JSON in UTF-8", where="content-type", fix="Send content-type: application/json."
        )


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidBody("the body holds a number with an exponent beyond all reason") from None


def _no_constant(text: str) -> NoReturn:
    raise InvalidBody(f"the body is not JSON: {text} is not a JSON number")


def _distinct_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InvalidBody(
            f"the body has the key {json.dumps(twice[:64])} twice in one object", fix="Send each key once."
        )
    return members


def _check_depth_and_text(value: Json) -> None:
    """Level by level, so that no input can exhaust the stack."""
    level: list[Json] = [value]
    for _ in range(MOST_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise InvalidBody(f"the body nests deeper than {MOST_DEPTH} levels")


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        for key in value:
            _check_text(key)
        return value.values()
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        _check_text(value)
    return ()


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidBody("the body holds half of a surrogate pair, which is no character")
