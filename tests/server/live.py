"""A real uvicorn on a free port, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import httpx
import openai

from espalier.runtime.server.contract import ChatRuntime
from espalier.runtime.server.serve import DrainingServer, bind, server_for
from espalier.runtime.server.settings import Settings


@dataclass(frozen=True, slots=True)
class LiveServer:
    """http: plain requests, on connections that are kept."""

    url: str
    server: DrainingServer
    http: httpx.Client

    @contextmanager
    def client(self, key: str = "none") -> Iterator[openai.OpenAI]:
        with openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=30) as client:
            yield client

    def post(self, body: object, **options: object) -> httpx.Response:
        """A chat request as plain HTTP. body: JSON, or bytes as they are."""
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return self.http.post("/v1/chat/completions", headers=headers, **content, **options)

    def complete(self, body: object) -> httpx.Response:
        """A completion request as plain HTTP."""
        return self.http.post("/v1/completions", json=body)

    def get(self, path: str, **options: object) -> httpx.Response:
        return self.http.get(path, **options)


@contextmanager
def live(runtime: ChatRuntime, settings: Settings | None = None) -> Iterator[LiveServer]:
    urls: list[str] = []
    up = threading.Event()

    def ready(url: str) -> None:
        urls.append(url)
        up.set()

    with closing(bind("127.0.0.1", 0)) as listener:
        server = server_for(runtime, listener, settings or Settings(drain_seconds=0.2), ready)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            if not up.wait(30):
                raise RuntimeError("the server did not start")
            with httpx.Client(base_url=urls[0], timeout=30, trust_env=False, verify=False) as http:
                yield LiveServer(urls[0], server, http)
        finally:
            server.should_exit = True
            thread.join(30)


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether the condition comes to hold; looks again and again."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
