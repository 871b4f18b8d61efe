"""One mapper from every exception to OpenAI's error shape, for all routes and for the middle of a stream.

    EspalierError (grammars.errors)
    `-- Refusal                 refused before the content was looked at; `status` is its HTTP status
        |-- Unauthorized        401
        |-- ForbiddenHost       403, a web page reached a server without a key through a foreign name
        |-- BodyTooSlow         408
        |-- BodyTooLarge        413
        |-- UnsupportedMediaType 415
        |-- ShuttingDown        503
        `-- NotReady            503, the engine does not answer
    RequestError (runtime.errors)
    |-- InvalidBody             the body is not JSON that we read
    `-- InvalidParameter
        |-- UnknownField        code unknown_parameter
        `-- MissingField        code missing_required_parameter
    ConstraintRefused           a ConstraintError, with its place in the body
    ClientGone                  nobody is left to answer; never seen by a client
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ...grammars.errors import BudgetTooSmall, ConstraintError, EspalierError
from ..errors import (
    EmptyPrompt,
    InvalidParameter,
    Overloaded,
    PromptTooLong,
    RequestAborted,
    RequestError,
    TemplateError,
    TokenizerError,
    UnknownModel,
    WeightsError,
    WeightsReplaced,
)

RETRY_SECONDS = 5  # clients obey up to 120 s and give up at once above that
INVALID = "invalid_request_error"
SERVER = "server_error"


class Refusal(EspalierError):
    status: ClassVar[int] = 400


class Unauthorized(Refusal):
    status = 401
    code = "invalid_api_key"


class ForbiddenHost(Refusal):
    status = 403
    code = "host_not_allowed"


class BodyTooSlow(Refusal):
    status = 408
    code = "body_timeout"


class BodyTooLarge(Refusal):
    status = 413
    code = "body_too_large"


class UnsupportedMediaType(Refusal):
    status = 415
    code = "unsupported_media_type"


class ShuttingDown(Refusal):
    status = 503
    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("the server is shutting down", fix="Try again, or try another server.")


class NotReady(Refusal):
    status = 503
    code = "not_ready"


class InvalidBody(RequestError):
    code = "invalid_json"


class UnknownField(InvalidParameter):
    code = "unknown_parameter"


class MissingField(InvalidParameter):
    code = "missing_required_parameter"


class ClientGone(Exception):
    """The client closed its connection before the answer was complete."""


class ConstraintRefused(EspalierError):
    """where: the path in the body of what the constraint was refused for."""

    def __init__(self, cause: ConstraintError, where: str) -> None:
        super().__init__(cause.message, where=cause.where, fix=cause.fix)
        self.code = cause.code
        self.param = where


class ErrorBody(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(msgspec.Struct, frozen=True):
    error: ErrorBody


@dataclass(frozen=True, slots=True)
class Problem:
    """What a client is told about a failure."""

    status: int
    body: ErrorBody
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        return msgspec.json.encode(ErrorReply(self.body))

    @property
    def outcome(self) -> str:
        """The label under which /metrics counts it."""
        if self.status == 429:
            return "overloaded"
        return "refused" if self.status < 500 else "failed"


def problem_of(cause: BaseException, request_id: str) -> Problem:
    """Unknown causes give a fixed text: what an exception says may hold addresses, paths or other people's data."""
    if isinstance(cause, HTTPException):
        return _http_problem(cause)
    if isinstance(cause, RequestValidationError):
        return _client_problem(RequestError("the request does not have the expected form"), None)
    if isinstance(cause, EspalierError):
        known = _known_problem(cause)
        if known is not None:
            return known
    message = f"The server met an internal error; its log has the details under request id {request_id}."
    body = ErrorBody(message, SERVER, None, "internal_error")
    # Not worth a retry: a request that broke something would only break it three times.
    return Problem(500, body, {"x-should-retry": "false"})


def _known_problem(cause: EspalierError) -> Problem | None:
    match cause:
        case Refusal():
            return _refusal_problem(cause)
        case Overloaded() if cause.where == "pages":  # it can never fit: nothing to wait for
            return Problem(400, ErrorBody(str(cause), INVALID, "max_tokens", PromptTooLong.code))
        case Overloaded():
            body = ErrorBody(str(cause), "rate_limit_error", None, cause.code)
            return Problem(429, body, {"retry-after": str(RETRY_SECONDS)})
        case WeightsReplaced():
            body = ErrorBody(str(cause), SERVER, None, cause.code)
            return Problem(503, body, {"retry-after": str(RETRY_SECONDS)})
        case WeightsError():
            return _client_problem(cause, "file")
        case RequestAborted():
            return _refusal_problem(ShuttingDown())
        case UnknownModel():
            return Problem(404, ErrorBody(str(cause), INVALID, "model", "model_not_found"))
        case BudgetTooSmall():
            return _client_problem(cause, "max_tokens")
        case ConstraintRefused():
            return _client_problem(cause, cause.param)
        case ConstraintError():  # of a text: a character that no token can spell
            return _client_problem(cause, "messages")
        case EmptyPrompt() | PromptTooLong():
            return _client_problem(cause, cause.where)
        case TemplateError() | TokenizerError():
            return _client_problem(cause, "input" if cause.where == "input" else "messages")
        case InvalidBody():  # its place is a line and column
            return _client_problem(cause, None)
        case RequestError():
            return _client_problem(cause, _param(cause.where))
    return None


def _client_problem(cause: EspalierError, param: str | None) -> Problem:
    return Problem(400, ErrorBody(str(cause), INVALID, param, cause.code))


def _refusal_problem(cause: Refusal) -> Problem:
    headers = {"www-authenticate": "Bearer"} if cause.status == 401 else {}
    if cause.status == 503:
        headers = {"retry-after": str(RETRY_SECONDS)}
    kind = SERVER if cause.status >= 500 else INVALID
    return Problem(cause.status, ErrorBody(str(cause), kind, cause.where or None, cause.code), headers)


def _http_problem(cause: HTTPException) -> Problem:
    texts = {
        404: ("There is no such route. Those of the API are /v1/chat/completions, /v1/responses, /v1/completions and "
              "/v1/models: the base URL of a client ends in /v1.", "not_found"),
        405: ("The route does not take this method: what generates is POST, what tells is GET.", "method_not_allowed"),
    }
    message, code = texts.get(cause.status_code, ("The request was refused.", "refused"))
    kind = SERVER if cause.status_code >= 500 else INVALID
    return Problem(cause.status_code, ErrorBody(message, kind, None, code), dict(cause.headers or {}))


def _param(where: str) -> str | None:
    """The runtime writes messages/0/content where a client expects messages[0].content."""
    if re.fullmatch(r"\w+(/\w+)+", where):
        return "".join(map(path_step, where.split("/"))).removeprefix(".")
    return where or None


def path_step(key: str | int) -> str:
    """One step of a path: `.name`, `[0]`, or `["any other key"]`."""
    if isinstance(key, int) or re.fullmatch(r"[0-9]+", key):
        return f"[{key}]"
    if re.fullmatch(r"[A-Za-z_$][\w$-]*", key, re.ASCII):
        return f".{key}"
    return f"[{msgspec.json.encode(key).decode()}]"
