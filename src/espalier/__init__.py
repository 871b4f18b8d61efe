"""Espalier: a prefix-caching runtime for structured-generation programs.

    import espalier as esp

    @esp.function
    def ask(s, question):
        with s.user():
            s += question
        with s.assistant():
            s += esp.gen("answer", max_tokens=64)
        return s["answer"]

    with esp.local("smollm2-135m") as model:
        print(ask.run("What is an espalier?", backend=model).result)

Importing this package loads neither a model's runtime nor any heavy library; `esp.local` does.
"""

from __future__ import annotations

from .frontend import (
    AsyncState,
    BranchClosed,
    BranchFailed,
    Event,
    Expression,
    Function,
    JsonSchema,
    Model,
    ProgramError,
    State,
    Stream,
    Tag,
    Tags,
    UnknownVariable,
    assistant,
    function,
    gen,
    local,
    scripted,
    select,
    system,
    tag,
    user,
)
from .grammars.errors import (
    BudgetTooSmall,
    ConstraintError,
    ConstraintTooLarge,
    EspalierError,
    InvalidConstraint,
    MissingByte,
    Unsatisfiable,
    UnsupportedKeyword,
)

__all__ = [
    "AsyncState",
    "BranchClosed",
    "BranchFailed",
    "BudgetTooSmall",
    "ConstraintError",
    "ConstraintTooLarge",
    "EspalierError",
    "Event",
    "Expression",
    "Function",
    "InvalidConstraint",
    "JsonSchema",
    "MissingByte",
    "Model",
    "ProgramError",
    "State",
    "Stream",
    "Tag",
    "Tags",
    "UnknownVariable",
    "Unsatisfiable",
    "UnsupportedKeyword",
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
