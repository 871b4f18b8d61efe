"""The language: programs become operations on branches."""

from __future__ import annotations

from ..grammars.constraint import JsonSchema, Tag, Tags
from .async_state import AsyncState
from .backends.local import local
from .backends.scripted import scripted
from .errors import BranchClosed, BranchFailed, ProgramError, UnknownVariable
from .expressions import Expression, assistant, gen, select, system, user
from .function import Function, function
from .interpreter import Event
from .model import Model
from .state import State
from .stream import Stream
from .values import tag

__all__ = [
    "AsyncState",
    "BranchClosed",
    "BranchFailed",
    "Event",
    "Expression",
    "Function",
    "JsonSchema",
    "Model",
    "ProgramError",
    "State",
    "Stream",
    "Tag",
    "Tags",
    "UnknownVariable",
    "assistant",
    "function",
    "gen",
    "local",
    "scripted",
    "select",
    "system",
    "tag",
    "user",
]
