"""What all chunks of one stream have in common, and the events that they are."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from ..messages import Usage
from .forms import SamplingForm
from .replies import usage_of

DONE = b"data: [DONE]\n\n"


class Envelope:
    """Same id and time in all. usage: absent unless the caller asked for it; then null, but in the very last chunk,
    which has no choices."""

    def __init__(self, body: Callable[..., msgspec.Struct], id: str, form: SamplingForm) -> None:
        """body: made of id, time, model, choices and usage."""
        self._body = body
        self._head = (id, int(time.time()), form.model)
        self._usage = bool(form.stream_options and form.stream_options.include_usage)

    def chunk(self, choice: msgspec.Struct) -> bytes:
        return event(self._body(*self._head, (choice,), None if self._usage else msgspec.UNSET))

    def done(self, usage: Usage) -> list[bytes]:
        return [event(self._body(*self._head, (), usage_of(usage))), DONE] if self._usage else [DONE]


def event(body: msgspec.Struct) -> bytes:
    """JSON has no raw line breaks, so that one data line is enough."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"
