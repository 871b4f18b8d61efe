"""Errors of programs.

    EspalierError (grammars.errors)
    `-- ProgramError          a program is wrong, or was used wrongly
        |-- UnknownVariable   a name that no gen or select of this program has written
        |-- BranchFailed      cancelled because a sibling failed, or ended by its backend; `__cause__` is the true cause
        `-- BranchClosed      the branch was released, or its model closed

A failed operation raises its own cause wherever one of its values is read.
"""

from __future__ import annotations

from ..grammars.errors import EspalierError


class ProgramError(EspalierError):
    code = "program_error"


class UnknownVariable(ProgramError, KeyError):
    code = "unknown_variable"

    __str__ = EspalierError.__str__


class BranchFailed(ProgramError):
    code = "branch_failed"


class BranchClosed(ProgramError):
    code = "branch_closed"
