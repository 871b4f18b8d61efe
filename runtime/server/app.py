"""The routes. The guard is a dependency of the application, so that a new route is behind it unless somebody takes care
that it is not, as /health is. There are no pages of documentation to leave open.
"""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec
from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...grammars.errors import EspalierError
from ..errors import EngineFault, UnknownModel
from ..messages import Stats
from .chat import ChatJob
from .completions import CompletionJob
from .contract import ChatRuntime
from .edge import Edge
from .errors import NotReady, ShuttingDown
from .faults import Faults
from .gate import Gate
from .guard import AdminGuard, Guard
from .metrics import Metrics
from .replies import ModelCard, ModelList
from .responses import ResponsesJob
from .service import Service
from .settings import Settings
from .weights import WeightsPage

ENGINE_SECONDS = 10.0  # longer than any one step takes
LOG = logging.getLogger("espalier.server")


def create_app(runtime: ChatRuntime, settings: Settings | None = None, gate: Gate | None = None) -> FastAPI:
    """An ASGI application over a loaded runtime, which stays the caller's to close."""
    settings = settings or Settings()
    gate = gate or Gate(settings.capacity)
    metrics = Metrics()
    app = FastAPI(
        title="Espalier", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False,
        dependencies=[Depends(Guard(settings))],
    )
    faults = Faults(metrics)
    app.add_middleware(Edge, faults=faults)
    pages = _Pages(runtime, gate, metrics, faults)
    for kind in (EspalierError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, pages.problem)
    app.add_route("/health", pages.health, methods=["GET"])  # not an API route: the dependencies pass it by
    app.add_api_route("/metrics", pages.metrics, methods=["GET"], response_model=None)
    app.add_api_route("/v1/models", pages.models, methods=["GET"], response_model=None)
    app.add_api_route("/v1/models/{model:path}", pages.model, methods=["GET"], response_model=None)
    generating = Service(runtime, settings, metrics, faults, gate)

    async def chat(request: Request) -> Response:
        return await generating.answer(request, lambda body: ChatJob.read(runtime, settings, body))

    async def complete(request: Request) -> Response:
        return await generating.answer(request, lambda body: CompletionJob.read(runtime, body))

    async def respond(request: Request) -> Response:
        return await generating.answer(request, lambda body: ResponsesJob.read(runtime, settings, body))

    app.add_api_route("/v1/responses", respond, methods=["POST"], response_model=None)
    app.add_api_route("/v1/chat/completions", chat, methods=["POST"], response_model=None)
    app.add_api_route("/v1/completions", complete, methods=["POST"], response_model=None)
    if settings.weights is not None and settings.admin_key:
        weights = WeightsPage(runtime, settings, gate, settings.weights)
        app.add_api_route("/admin/weights", weights.load, methods=["POST"], response_model=None,
                          dependencies=[Depends(AdminGuard(settings.admin_key))])
    return app


class _Pages:
    def __init__(self, runtime: ChatRuntime, gate: Gate, metrics: Metrics, faults: Faults) -> None:
        self._runtime = runtime
        self._gate = gate
        self._metrics = metrics
        self._faults = faults
        self._card = ModelCard(runtime.model_name, int(time.time()), runtime.model_name, runtime.context)

    async def health(self, _: Request) -> Response:
        """200 when a request sent now would be computed."""
        if self._gate.closing:
            raise ShuttingDown
        if await self._stats() is None:
            raise NotReady("the engine does not answer")
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def metrics(self) -> Response:
        body = self._metrics.render(await self._stats())
        return Response(body, headers={"content-type": self._metrics.content_type})

    async def _stats(self) -> Stats | None:
        """None when the engine is gone, or stuck in a step."""
        try:
            async with asyncio.timeout(ENGINE_SECONDS):
                return await self._runtime.stats()
        except (EngineFault, TimeoutError) as cause:
            LOG.warning("the engine gives no statistics: %s", cause or "it does not answer")
            return None

    async def models(self) -> Response:
        return _json(ModelList((self._card,)))

    async def model(self, model: str) -> Response:
        if model != self._card.id:
            raise UnknownModel("there is no model of this name here", where="model", fix=f"Use {self._card.id!r}.")
        return _json(self._card)

    async def problem(self, request: Request, cause: Exception) -> Response:
        problem = self._faults.tell(cause, request.state.request_id)
        return Response(problem.encode(), problem.status, dict(problem.headers), "application/json")


def _json(body: msgspec.Struct) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")
