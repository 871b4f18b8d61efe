"""`espalier serve`: bind, load, answer, drain, close.

The address is taken before the model is loaded, so that a busy port costs no minutes; it is listened on only when the
engine is ready. SIGTERM and Ctrl+C close the door (new requests get a 503), give running answers drain_seconds, and end
the process with status 0; a second Ctrl+C does not wait.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import uvicorn

from ..collector import keep_loaded
from ..config import EngineConfig
from ..errors import InvalidParameter
from ..runtime import Runtime
from .app import create_app
from .connection import connection_class
from .contract import ChatRuntime
from .gate import Gate
from .settings import Settings

LOG = logging.getLogger("espalier.server")
Ready = Callable[[str], None]


def serve(
    model: str, *, host: str = "127.0.0.1", port: int = 8000, config: EngineConfig | None = None,
    api_key: str | None = None, weights: Path | None = None, admin_key: str | None = None,
    ready: Ready | None = None, progress: Callable[[str], None] | None = None,
) -> None:
    """Blocks until a signal ends it. ready: called with the URL once requests are answered (default: prints it).
    progress: told in words how loading goes (default: on stderr). weights: the folder from which who knows the
    admin_key may load other weights of the model; both or neither.

    Raises InvalidParameter (the address cannot be bound, an empty key) and what loading a model raises.
    """
    _check_keys(api_key, weights, admin_key)
    config = config or EngineConfig()
    settings = Settings(
        api_key=api_key, hosts=hosts_of(host, api_key), capacity=config.max_waiting + config.max_rows, weights=weights,
        admin_key=admin_key,
    )
    with closing(bind(host, port)) as listener:
        runtime = Runtime.load(model, config, process=True, progress=progress or _tell)
        with closing(runtime):
            keep_loaded()
            run(runtime, listener, settings, ready or _announce)


def _check_keys(api_key: str | None, weights: Path | None, admin_key: str | None) -> None:
    for name, key in (("API", api_key), ("admin", admin_key)):
        if key is not None and not key.strip():
            raise InvalidParameter(f"the {name} key is empty", where=f"{name.lower()}_key",
                                   fix="Give a key, or none at all.")
    if (weights is None) != (admin_key is None):
        raise InvalidParameter("a folder of weights and an admin key belong together", where="weights",
                               fix="Give both, or neither.")
    if weights is not None and not weights.is_dir():
        raise InvalidParameter(f"{weights} is no folder", where="weights")


def run(runtime: ChatRuntime, listener: socket.socket, settings: Settings, ready: Ready) -> None:
    """Serve a loaded runtime on a bound socket until a signal."""
    with _signals_are_answered():
        server_for(runtime, listener, settings, ready).run(sockets=[listener])


def server_for(runtime: ChatRuntime, listener: socket.socket, settings: Settings, ready: Ready) -> DrainingServer:
    gate = Gate(settings.capacity)
    config = uvicorn.Config(
        create_app(runtime, settings, gate), http=connection_class(settings.head_seconds), ws="none", loop="asyncio",
        lifespan="off", log_config=None,
        access_log=False, proxy_headers=False, server_header=False, timeout_graceful_shutdown=5, timeout_keep_alive=30,
    )
    return DrainingServer(config, gate, settings.drain_seconds, lambda: ready(url_of(listener)))


class DrainingServer(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, gate: Gate, drain_seconds: float, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._gate = gate
        self._drain_seconds = drain_seconds
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        drain = asyncio.ensure_future(self._gate.drain(self._drain_seconds))
        while not drain.done():
            await asyncio.wait({drain}, timeout=0.1)
            if self.force_exit:
                self._gate.expire()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet. Port 0 takes a free one."""
    if not 0 <= port < 65536:
        raise InvalidParameter(f"port {port} does not exist", where="port", fix="Use 1..65535, or 0 for a free one.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as cause:
        raise InvalidParameter(f"the address {host!r} is not known: {cause}", where="host") from cause
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as cause:
        listener.close()
        raise InvalidParameter(
            f"{host}:{port} cannot be bound: {cause.strerror}", where="port", fix="Choose another port, or 0."
        ) from cause
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def hosts_of(host: str, api_key: str | None) -> frozenset[str] | None:
    """An open server on a loopback address answers to loopback names only; elsewhere the operator chose to be open."""
    if api_key is not None:
        return None
    if host.lower() == "localhost" or _is_loopback(host):
        return frozenset({"localhost", host.lower()})
    LOG.warning("no API key is set: everybody who reaches %s can use this server", host)
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def _signals_are_answered() -> Iterator[None]:
    """uvicorn raises the signal that ended it once more when it is done; by then it has been answered."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _answered) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _answered(number: int, frame: FrameType | None) -> None:
    return


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")


def _announce(url: str) -> None:
    sys.stdout.write(f"Espalier answers at {url}/v1 (Ctrl+C ends it)\n")
    sys.stdout.flush()
