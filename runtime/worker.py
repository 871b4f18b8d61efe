"""The engine's own process: `python -m espalier.runtime.worker SOCKET`. It ends when its parent does."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .channel import Channel
from .collector import keep_loaded
from .engine import Engine
from .faults import pack
from .messages import PROTOCOL_VERSION, Command, EngineStopped, Event, Stop
from .process_link import Boot, Hello, Ready, Refused

# A step that is running when the parent goes away may end in this time; then the process ends anyway.
FAREWELL_SECONDS = 5.0


def main(path: str) -> int:
    """Exit status: 0 after Stop or when the parent went away, 1 when the engine could not be built."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group: the parent decides what ends
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    channel = Channel(connection)
    channel.send(Hello())
    boot = channel.receive(msgspec.msgpack.Decoder(Boot))
    if boot is None:
        return 0
    try:
        engine = build(boot)
    except Exception as error:  # told to the parent, which raises it where the model was loaded
        channel.send(Refused(pack(0, error)))
        return 1
    keep_loaded()
    channel.send(Ready())
    return serve(engine, channel)


def serve(engine: Engine, channel: Channel) -> int:
    done = threading.Event()
    threading.Thread(target=_listen, args=(engine, channel, done), daemon=True).start()

    def sink(events: Sequence[Event]) -> None:
        try:
            channel.send(list(events))
        except OSError:
            engine.send(Stop())  # nobody is left to hear

    try:
        engine.run(sink)
    except Exception as error:
        sink((EngineStopped(f"the engine loop ended: {type(error).__name__}: {error}"),))
        raise
    finally:
        done.set()
        channel.close()
    return 0


def _listen(engine: Engine, channel: Channel, done: threading.Event) -> None:
    decoder = msgspec.msgpack.Decoder(Command)
    try:
        while (command := channel.receive(decoder)) is not None:
            engine.send(command)
            if isinstance(command, Stop):
                return
    finally:
        engine.send(Stop())
    if not done.wait(FAREWELL_SECONDS):
        os._exit(0)  # the parent is gone, and a step that does not end must not outlive it


def build(boot: Boot) -> Engine:
    if boot.version != PROTOCOL_VERSION:
        raise ValueError(f"protocol {boot.version} was asked of a worker that speaks {PROTOCOL_VERSION}")
    if boot.executor == "scripted":
        from .scripted_executor import scripted_engine

        return scripted_engine(boot.config)
    from .loading import load_engine

    return load_engine(Path(boot.model), boot.config)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
