"""Renders one chat template in a process that can be killed: `python -m espalier.runtime.template_worker`.

A template comes inside a model file and is treated as hostile: jinja2's immutable sandbox, a short list of globals,
limits of processor time and memory set by the kernel, and a limit on the length of the text. Lines of JSON on stdin
and stdout: first {"source"}; then per rendering {"context", "limit"}, answered by {"text"} or {"error", "limit"}.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .confine import allow_processor_seconds, limit_memory

CPU_SECONDS = 1  # of one rendering, rounded up to whole seconds by the kernel's counter
MEMORY_BYTES = 512 << 20  # address space of the process


class Complaint(jinja2.TemplateError):
    """The template itself called raise_exception."""


class TooLong(Exception):
    """The text passed its limit."""


_LIMITS = (TooLong, MemoryError, RecursionError, OverflowError)


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the assistant's text for training; rendering passes it through."""

    tags = {"generation"}  # noqa: RUF012 (jinja2 declares a set)

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> ImmutableSandboxedEnvironment:
    """range() is capped by the sandbox at 100,000; private attributes and changes of values are refused by it."""
    found = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, autoescape=False, extensions=[jinja2.ext.loopcontrols, Generation],
        loader=None, cache_size=0,
    )
    allowed = {name: found.globals[name] for name in ("range", "namespace", "dict")}
    found.globals.clear()
    found.globals.update(allowed, raise_exception=_complain)
    found.filters["tojson"] = _to_json
    return found


def render(template: jinja2.Template, context: Mapping[str, Any], limit: int) -> str:
    """Raises TooLong when the text passes `limit` characters."""
    pieces: list[str] = []
    for piece in template.generate(context):
        limit -= len(piece)
        if limit < 0:
            raise TooLong("the text is too long")
        pieces.append(piece)
    return "".join(pieces)


def _complain(message: object = "") -> NoReturn:
    raise Complaint(str(message))


def _to_json(value: object, indent: int | None = None) -> str:
    """As text, not as HTML: what models were trained on."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the whole group: the parent decides what ends
    limit_memory(MEMORY_BYTES)
    source = json.loads(sys.stdin.readline())["source"]
    template: jinja2.Template | None = None
    for line in sys.stdin:
        allow_processor_seconds(CPU_SECONDS)
        try:
            task = json.loads(line)
            template = template or environment().from_string(source)
            answer: dict[str, object] = {"text": render(template, task["context"], task["limit"])}
        except Exception as error:  # the border: whatever a template does becomes an answer
            answer = {"error": _describe(error), "limit": isinstance(error, _LIMITS)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _describe(error: Exception) -> str:
    if isinstance(error, Complaint):
        return str(error.message)
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    return f"{type(error).__name__}: {str(error)[:500]}"


if __name__ == "__main__":
    main()
