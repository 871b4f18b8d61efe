"""Errors of models, weights, requests and the engine.

    EspalierError (grammars.errors)
    |-- ModelError            a model cannot be used
    |   |-- UnknownModel      no such name or file
    |   |-- FetchFailed       no network, no pip, no space, wrong hash
    |   |-- WeightsError      a weight file is broken, hostile or of an unsupported kind
    |   |-- TokenizerError    the tokenizer cannot be rebuilt
    |   `-- TemplateError     the chat template failed or complained about the messages
    |       `-- TemplateLimit it passed a limit of time, memory or length, and its process was ended
    |-- RequestError          the request is wrong; nothing was computed
    |   |-- EmptyPrompt
    |   |-- PromptTooLong     prompt and answer pass the context
    |   `-- InvalidParameter  a field is out of range; `where` names it
    |-- Overloaded            the queue is full, or the request can never fit the memory
    |-- RequestAborted        the request's session closed or its caller went away
    |-- WeightsReplaced       the model's weights were replaced while the request ran
    `-- EngineFault           the engine met an internal fault; `where` names the step
"""

from __future__ import annotations

from ..grammars.errors import EspalierError


class ModelError(EspalierError):
    code = "model_error"


class UnknownModel(ModelError):
    code = "model_not_found"


class FetchFailed(ModelError):
    code = "fetch_failed"


class WeightsError(ModelError):
    code = "invalid_weights"


class TokenizerError(ModelError):
    code = "invalid_tokenizer"


class TemplateError(ModelError):
    code = "template_error"


class TemplateLimit(TemplateError):
    pass


class RequestError(EspalierError):
    code = "invalid_request"


class EmptyPrompt(RequestError):
    code = "empty_prompt"


class PromptTooLong(RequestError):
    code = "context_length_exceeded"


class InvalidParameter(RequestError):
    code = "invalid_value"


class Overloaded(EspalierError):
    code = "overloaded"


class RequestAborted(EspalierError):
    code = "aborted"


class WeightsReplaced(EspalierError):
    code = "weights_replaced"


class EngineFault(EspalierError):
    code = "engine_fault"
