"""How a chat template writes what a model thought, learned from a rendering of it."""

from __future__ import annotations

import re

from .conversation import Message
from .errors import TemplateError, TemplateLimit
from .template_calls import RenderCalls
from .template_roles import mark_for
from .thinking import Thinking

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which templates are told whether the model thinks."""

_DELIMITER = re.compile(r"[<\[][\w:|.-]+[>\]]\s*$")
_OPENED = re.compile(r"([<\[])(\w*(?:think|thought|reason)\w*)([>\]])\s*$", re.IGNORECASE)


def learn_thinking(render: RenderCalls, source: str, opening: str) -> Thinking | None:
    """opening: what asks for an answer of the assistant. None where the template neither writes thoughts nor asks for
    them. Raises TemplateLimit."""
    return _written(render, source) or _asked_for(opening)


def _written(render: RenderCalls, source: str) -> Thinking | None:
    """Thoughts of the history."""
    if "reasoning_content" not in source:
        return None
    mark = mark_for(source)
    answer = Message("assistant", f"{mark}c", reasoning=f"{mark}r")
    try:
        text = render([Message("user", f"{mark}q"), answer], False, ())
    except TemplateLimit:
        raise
    except TemplateError:
        return None
    head, found, rest = text.partition(f"{mark}r")
    end, closed, _ = rest.partition(f"{mark}c")
    begin = _DELIMITER.search(head)
    if begin is None or not (found and closed and end.strip()) or mark in end:
        return None
    return Thinking(begin[0], end)


def _asked_for(opening: str) -> Thinking | None:
    """Thoughts that the prompt opens by a delimiter of that name."""
    found = _OPENED.search(opening)
    return None if found is None else Thinking(found[0], f"{found[1]}/{found[2]}{found[3]}\n\n")
