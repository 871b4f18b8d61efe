"""Typed frames between two processes: a length (4 bytes, big-endian) and that many bytes of msgpack."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from .errors import EngineFault

MOST_FRAME_BYTES = 1 << 30
_LENGTH = struct.Struct(">I")

T = TypeVar("T")


class Channel:
    """Frames over a connected socket. `send` may be called from several threads."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lock = threading.Lock()
        self._until: float | None = None

    def allow(self, seconds: float) -> None:
        """From now on, for a channel of one thread: what is not sent or received in this time is a TimeoutError."""
        self._until = time.monotonic() + seconds

    def send(self, message: msgspec.Struct | Sequence[msgspec.Struct]) -> None:
        """Raises OSError when the other side is gone."""
        self.send_body(msgspec.msgpack.encode(message))

    def send_body(self, body: bytes) -> None:
        """A message that is encoded already."""
        with self._lock:
            self._hurry()
            self._socket.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
        """None when the other side has closed. Raises EngineFault for a frame that is not what was agreed."""
        head = self._read(_LENGTH.size)
        if head is None:
            return None
        (size,) = _LENGTH.unpack(head)
        if size > MOST_FRAME_BYTES:
            raise EngineFault(f"a frame of {size} bytes was announced", where="link")
        body = self._read(size)
        if body is None:
            return None
        try:
            return decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise EngineFault(f"a frame cannot be read: {error}", where="link") from error

    def _read(self, size: int) -> bytes | None:
        parts: list[bytes] = []
        while size:
            self._hurry()
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except ConnectionError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _hurry(self) -> None:
        if self._until is not None:
            self._socket.settimeout(max(1e-6, self._until - time.monotonic()))  # 0 would mean: do not wait at all

    def close(self) -> None:
        with suppress(OSError):  # the other side may be gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
